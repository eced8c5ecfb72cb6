"""What operators hear and take back: events, undo, mass failures; a part of `Operator`.

Decides how a watch goes on when nodes are lost. What requests look like is in `calls`.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol, TypeVar, Unpack

from client import calls, errors, views
from client.call import Call
from client.calls import EventFilters
from client.connection import NOT_MODIFIED, Connection, decoded_answer
from client.retry import full_jitter_s, poll_wait_s

T = TypeVar("T")

POLL_WAIT_S: Final = 30.0  # of a long poll: below what proxies keep silent connections for
RETRY_AFTER_MAX_S: Final = 5.0  # of a watch: nodes name longer times for callers in a hurry


class Watcher(Protocol):
    """Whoever sends requests and waits for their answers."""

    @property
    def connection(self) -> Connection:
        """What requests are sent over."""

    @property
    def events(self) -> Callable[..., Awaitable[views.EventsPage]]:
        """One page of events."""

    @property
    def _timeout_s(self) -> float: ...
    @property
    def _rng(self) -> random.Random: ...
    @property
    def _sleep(self) -> Callable[[float], Awaitable[object]]: ...

    def _send(self, call: Call[T], timeout_s: float | None = None) -> Awaitable[T]: ...


class NewsVerbs:
    """Following what happens, and answering it."""

    async def events(
        self: Watcher,
        namespace: str,
        *,
        after: str | None = None,
        wait_s: float = 0.0,
        limit: int | None = None,
        **filters: Unpack[EventFilters],
    ) -> views.EventsPage:
        """What happened: the newest page, or with a cursor what came after it.

        A page is empty when nothing came within `wait_s`.
        """
        call = calls.events(namespace, after=after, wait_s=wait_s, limit=limit, **filters)
        if wait_s > 0.0:
            response = await self.connection.once(call, timeout_s=wait_s + self._timeout_s)
        else:
            response = await self.connection.fetch(call, timeout_s=self._timeout_s)
        if response.status == NOT_MODIFIED:
            return views.EventsPage(cursor=after or "")
        return decoded_answer(call, response)

    async def watch_events(
        self: Watcher,
        namespace: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        **filters: Unpack[EventFilters],
    ) -> AsyncIterator[views.EventsPage]:
        """Pages of events as they come, for ever; lives through elections and lost nodes.

        Without a cursor it begins with the newest that are kept. A page that `missed` some says
        so; each event comes once.
        """
        failures = 0
        while True:
            wait_s = 0.0 if after is None else poll_wait_s(POLL_WAIT_S, self._rng)
            try:
                page = await self.events(
                    namespace, after=after, wait_s=wait_s, limit=limit, **filters
                )
            except (errors.Unavailable, errors.RateLimited) as error:
                failures += 1
                pause_s = full_jitter_s(failures, self._rng)
                await self._sleep(max(pause_s, min(error.retry_after_s or 0.0, RETRY_AFTER_MAX_S)))
                continue
            failures = 0
            after = page.cursor
            if page.events or page.missed:
                yield page

    async def undo(
        self: Watcher, namespace: str, event: int, *, reason: str = "", force: bool = False
    ) -> views.EventView:
        """Take back the order that an event tells of; the event of that.

        Refused (`Conflict`) when the state has moved on; and (reason `would_overload`) when a drain
        would begin again for which the others have no room, unless `force`.
        """
        return await self._send(calls.undo(namespace, event, reason, force=force))

    async def mass_failure(self: Watcher, namespace: str) -> views.MassFailureView:
        """Whether so many executors are silent that nothing is taken away from them."""
        return await self._send(calls.mass_failure(namespace))

    async def proceed_mass_failure(
        self: Watcher, namespace: str, *, reason: str
    ) -> views.MassFailureView:
        """Give up the executors that are silent now: their shards move as their leases end."""
        return await self._send(calls.proceed_mass_failure(namespace, reason))
