"""What the express lane knows of a request, and what a route says of its usual answer.

Only that: no aiohttp request, no task. It must not know any single route.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator.api.bodies import Decode
from coordinator.api.call import Desk
from coordinator.api.cursor import Cursor, parse
from coordinator.api.query import wait_s
from coordinator.api.rights import Caller
from coordinator.core.namespace import NamespaceState
from coordinator.leadership import Confirmed
from coordinator.watches import Topic


@dataclass(slots=True)
class Asked:
    """A request that is whole, of a caller who may."""

    desk: Desk
    path: Mapping[str, str]
    """The variables of the path, without escapes."""
    query: Mapping[str, str]
    """Its parameters, each well formed."""
    headers: Mapping[str, str]
    caller: Caller
    received_at: float
    """Monotonic seconds when it was whole: what counts of a heartbeat."""
    decode: Decode | None
    payload: bytes = b""
    confirmed: Confirmed | None = None
    """A quorum's word that came after it, where the route or the caller wants one."""

    def placed(self) -> NamespaceState | None:
        """The namespace in the path; None of one that executors may know more of than its table."""
        found = self.desk.replica.state.namespaces.get(self.path["namespace"])
        return None if found is None or found.info.window is not None else found

    @property
    def cursor(self) -> Cursor | None:
        """The cursor the caller has seen."""
        return parse(self.query.get("after", ""))

    @property
    def wait_s(self) -> float:
        """How long the caller waits for news."""
        return wait_s(self.query)

    @property
    def record(self) -> Any:
        """The record of its body, or a refusal."""
        if self.decode is None:
            raise TypeError("this route has no body")
        return self.decode(self.headers, self.payload)


class Told(NamedTuple):
    """The usual answer, a 200."""

    record: object
    read: NamespaceState | None = None
    """What was read for it, of a local read: the answer says how fresh that is."""


class Wait(NamedTuple):
    """Nothing is new: a 304 after the wait, unless there is news before."""

    topic: Topic
    seen: int
    """The caller's revision of it."""
    wait_s: float
    read: NamespaceState


Likely = Callable[[Desk, Mapping[str, str]], bool]
"""Whether the path alone lets a route expect its usual answer: what asks for more would wait for a
quorum's word twice."""
Usual = Callable[[Asked], Told | Wait | None]
"""What a route answers at once or waits for; None where there is more to it: a refusal, a commit.

Then the ordinary way looks at the request anew, so nothing may have been changed.
"""
