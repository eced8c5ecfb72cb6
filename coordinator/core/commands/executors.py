"""Commands about executors: how they come, restart and go."""

from dataclasses import dataclass

from coordinator.core.types import (
    CloseCause,
    ExecutorProfile,
    Placement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinExecutor:
    """A new incarnation of an executor's name appears and supersedes the one before it."""

    namespace: str
    executor: str
    incarnation: str
    profile: ExecutorProfile
    at_ms: int
    predecessor_dead: str = ""
    """The incarnation whose process is known to be gone; honoured only if it is on record."""
    is_crash: bool = False
    """With shards that pass over at once: the predecessor's end is a strike for each of them."""
    withhold_at: int = 0
    """With `is_crash`: those with as many crashes now turn vacant instead; 0 for none."""
    claimed: int | None = None
    """The highest epoch that it brings from a cluster that is no more, 0 when it brings none; None
    for a process that has just started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateExecutor:
    """A live incarnation tells something new of itself."""

    namespace: str
    executor: str
    incarnation: str
    profile: ExecutorProfile
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritShards:
    """The superseded incarnation can act no more: its shards pass over under new epochs."""

    namespace: str
    executor: str
    predecessor: str
    at_ms: int
    is_crash: bool = False
    withhold_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictExecutor:
    """Close an incarnation by order; its shards wait for its lease to run out."""

    namespace: str
    executor: str
    reason: str = ""
    by: str = ""
    at_ms: int = 0
    incarnation: str = ""
    """Which one is meant: a restart meanwhile is not to pay for it. Empty for whichever it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseIncarnation:
    """An incarnation is over: its shards go where `placements` says, the rest turn vacant."""

    namespace: str
    executor: str
    incarnation: str
    cause: CloseCause
    placements: tuple[Placement, ...]
    at_ms: int
    reserve_s: float = 0.0
    """For so long its other shards are kept for its next incarnation; 0: not at all."""
    is_crash: bool = False
    withhold_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueEnding:
    """The next shards of an end that was too large for one command."""

    namespace: str
    executor: str
    incarnation: str
    placements: tuple[Placement, ...]
    """Where those go that no successor gets."""
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReservation:
    """The executor that was to be back is not: its shards may go to anyone."""

    namespace: str
    executor: str
    incarnation: str
    """The one that went."""
    at_ms: int
