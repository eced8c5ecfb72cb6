"""Commands that give shards an owner and let them change hands."""

from dataclasses import dataclass

from coordinator.core.shard import Cause
from coordinator.core.types import Claim, HandoffStart, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignShards:
    """Give vacant shards an owner; those no longer vacant are left alone."""

    namespace: str
    placements: tuple[Placement, ...]
    cause: Cause
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartHandoffs:
    """Begin moves between live executors; those whose shard has changed are left alone."""

    namespace: str
    moves: tuple[HandoffStart, ...]
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortHandoffs:
    """End open handoffs without a change of owner: the owner keeps or gets back the shard."""

    namespace: str
    claims: tuple[Claim, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOverdue:
    """Releases that were not acknowledged in time: stop renewing these shards' leases."""

    namespace: str
    claims: tuple[Claim, ...]
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishOverdue:
    """The leases of overdue shards have run out: hand them over."""

    namespace: str
    claims: tuple[Claim, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """What an executor did: stopped, warmed up, or failed to start."""

    namespace: str
    executor: str
    incarnation: str
    released: tuple[Claim, ...]
    prepared: tuple[Claim, ...]
    failed: tuple[Claim, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveShard:
    """An operator's move."""

    namespace: str
    key: str
    target: str
    at_ms: int
    reason: str = ""
    by: str = ""
