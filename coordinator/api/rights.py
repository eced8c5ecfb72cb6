"""Who may do what: roles, the rights they have, and the limits a credential puts on them.

Decides from names alone whether a caller may use a route. It must not know tokens, certificates,
requests, nor what exists: a refusal is the same whether the thing that was asked for is there or
not. Which right a route needs stands in its line of the table of routes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, Protocol


class Role(StrEnum):
    """What a credential is for."""

    EXECUTOR = "executor"
    ROUTER = "router"
    OPERATOR = "operator"
    VIEWER = "viewer"
    METRICS = "metrics"


class Right(StrEnum):
    """What a route needs of its caller."""

    OPEN = "open"
    """Nothing: health, the description of the API, pages without data."""
    REPORT = "report"
    """Speak as an executor: heartbeats, acknowledgements, farewell."""
    FOLLOW = "follow"
    """See what an executor shall hold."""
    LOOK_UP = "look_up"
    """Ask for owners and the routing table."""
    CREATE = "create"
    """Let an unknown key of an open namespace be born by looking it up."""
    VIEW = "view"
    """See what operators see."""
    ORDER = "order"
    """Change something."""
    SCRAPE = "scrape"
    """Read the metrics, which tell of every namespace."""


GRANTS: Final[Mapping[Role, frozenset[Right]]] = {
    Role.EXECUTOR: frozenset({Right.OPEN, Right.REPORT, Right.FOLLOW}),
    Role.ROUTER: frozenset({Right.OPEN, Right.LOOK_UP, Right.CREATE}),
    Role.OPERATOR: frozenset(Right),
    Role.VIEWER: frozenset({Right.OPEN, Right.FOLLOW, Right.LOOK_UP, Right.VIEW, Right.SCRAPE}),
    Role.METRICS: frozenset({Right.OPEN, Right.SCRAPE}),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Names that something is limited to; none are no limit. `orders-*` is a beginning."""

    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return bool(self.patterns)

    def admits(self, name: str) -> bool:
        """Whether a name is within the limit."""
        return not self.patterns or any(
            name.startswith(one[:-1]) if one.endswith("*") else name == one for one in self.patterns
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was recognised: what audits name, and what limits hold."""

    label: str
    """Names the credential, never its secret; empty where nobody has to say who they are."""
    role: Role
    namespaces: Scope = field(default_factory=Scope)
    executors: Scope = field(default_factory=Scope)
    """Executor names that may be spoken for."""
    hosts: Scope = field(default_factory=Scope)
    """Hosts that executors which are spoken for may be on."""
    capacity_max: float = inf
    """The largest capacity that they may say they have: shards follow capacity."""

    def may(self, right: Right) -> bool:
        """Whether the role has a right, limits aside."""
        return right in GRANTS[self.role]


class Need(Protocol):
    """What a line of the table of routes says of its caller."""

    @property
    def right(self) -> Right:
        """The right it takes."""
        ...

    @property
    def is_narrowed(self) -> bool:
        """Whether, without a namespace in its path, it shows only what the caller may see."""
        ...


ANYBODY: Final = Caller("", Role.OPERATOR)
"""Who asks a node that has no tokens: on loopback, or where its settings say `insecure`."""

NOBODY: Final = Caller("", Role.METRICS, namespaces=Scope(("",)))
"""Who asks for what is open, whoever it is."""

_SPEAKS_FOR_ONE: Final = frozenset({Right.REPORT, Right.FOLLOW})


def why_not(
    caller: Caller,
    right: Right,
    *,
    namespace: str | None,
    executor: str | None,
    is_narrowed: bool,
) -> str | None:
    """Why the caller may not use a route, or None.

    `namespace` and `executor` are those of the path; `is_narrowed` says of a route without a
    namespace that it shows only what its caller's limits allow.
    """
    if not caller.may(right):
        return f"this needs the right {right.value!r}, which role {caller.role.value!r} has not"
    if right is Right.OPEN:
        return None
    if namespace is None:
        if caller.namespaces and not is_narrowed:
            return f"this needs the right {right.value!r} without a limit to namespaces"
        return None
    if not caller.namespaces.admits(namespace):
        return f"the right {right.value!r} is limited to other namespaces"
    if right in _SPEAKS_FOR_ONE and executor is not None and not caller.executors.admits(executor):
        return f"the right {right.value!r} is limited to other executors"
    return None
