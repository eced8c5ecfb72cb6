"""What a line of the table of routes says. It must not know any single route."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from aiohttp import hdrs, web

from coordinator.api.asked import Likely, Usual
from coordinator.api.call import Call
from coordinator.api.encoding import JSON, MSGPACK
from coordinator.api.rights import Right

SMALL_BYTES: Final = 64 << 10
"""Bodies of most requests: a reason text and a name."""
LIST_BYTES: Final = 1 << 20
"""Bodies with a list of shards."""
HEARTBEAT_BYTES: Final = 16 << 20
"""100,000 held shards with long keys and loads."""

Handler = Callable[[Call[Any]], Awaitable[web.StreamResponse]]
_FLAGS: Final = frozenset({"true", "false"})
_VARIABLE: Final = re.compile(r"\{([a-z]+)\}")


class Leader(Enum):
    """Whether a route is served by the leader."""

    NO = "no"
    """Any node answers from its own copy."""
    BETTER = "better"
    """The leader knows more (loads, ages); without one, the rest is still answered."""
    MUST = "must"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter: what is documented of it is what is checked."""

    name: str
    description: str
    kind: str = "string"
    """string, boolean or integer."""
    choices: tuple[str, ...] = ()
    is_required: bool = False
    pattern: str = ""
    """What the whole text must match; empty where any text may be asked for."""
    unmatched: str = ""
    """What a text that does not match it is told, where the pattern says that to nobody."""
    upper: int = 0
    """Of an integer; the lower bound is 1."""
    may_be_empty: bool = False
    """A flag that is set by its name alone."""

    def fault(self, text: str) -> str:
        """What is wrong with a text that was sent for it; empty when nothing is."""
        if self.may_be_empty and not text:
            return ""
        if self.kind == "boolean" and text not in _FLAGS:
            return f"{text[:40]!r} is neither true nor false"
        if self.choices and text not in self.choices:
            return f"{text[:40]!r} is none of {', '.join(self.choices)}"
        if self.kind == "integer" and not self._is_within(text):
            return f"must be a number from 1 to {self.upper}"
        if self.pattern and not re.fullmatch(self.pattern, text):
            return f"{text[:200]!r} {self.unmatched or f'does not match {self.pattern}'}"
        return ""

    def _is_within(self, text: str) -> bool:
        return text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= self.upper


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One line of the table that the app, the OpenAPI document and the tests are made from."""

    method: str
    path: str
    handler: Handler
    audience: str
    right: Right
    """What it needs of its caller; there is none by default, so none can be forgotten."""
    summary: str
    leader: Leader = Leader.NO
    parameters: tuple[Parameter, ...] = ()
    body: type | None = None
    body_is_optional: bool = False
    body_bytes_max: int = SMALL_BYTES
    answer: Any = None
    statuses: tuple[int, ...] = (200,)
    reasons: tuple[str, ...] = ()
    has_msgpack: bool = False
    is_order: bool = False
    """An operator's change: takes an idempotency key and a dry run, refuses doubled JSON keys."""
    content_type: str = JSON
    takes_s: float = 0.0
    """How much longer than others an answer may take: who hands it on waits for it."""
    is_read_late: bool = False
    """Its handler asks for the record of its body when it needs it, and may wait before."""
    usual: Usual | None = None
    """What it answers, or waits for, nearly always: the express lane asks for it (`express`)."""
    is_likely: Likely | None = None
    """Whether that is to be expected of a path; None: of any."""
    patience_s: float = 0.0
    """How long its usual answer may wait for others that need a quorum's word as well."""
    is_narrowed: bool = False
    """Without a namespace in its path: it shows of all namespaces only those that the caller may
    see. Other such routes are for callers without that limit."""

    @property
    def pattern(self) -> str:
        """The path as aiohttp's router wants it: a variable is anything but a slash."""
        return _VARIABLE.sub(r"{\1:[^/]+}", self.path)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the path's variables."""
        return tuple(_VARIABLE.findall(self.path))

    @property
    def name(self) -> str:
        """A name that no other route has: module and function of its handler."""
        module = self.handler.__module__.rpartition(".")[2]
        return f"{module}.{self.handler.__name__}"

    def answers_msgpack(self, headers: Mapping[str, str]) -> bool:
        """Whether a caller who sent these headers is answered in msgpack."""
        return self.has_msgpack and MSGPACK in headers.get(hdrs.ACCEPT, "")

    def takes(self, parts: list[str]) -> bool:
        """Whether a path, split at its slashes, is one of this route's, whatever the method."""
        pattern = self.path.split("/")
        return len(pattern) == len(parts) and all(
            want == have or (want.startswith("{") and have != "")
            for want, have in zip(pattern, parts, strict=True)
        )
