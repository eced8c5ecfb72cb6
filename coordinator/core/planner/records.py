"""What the planner is told and what it answers: frozen records, and nothing else.

They are the planner's own so that it knows nothing of replication, leases or epochs. *Utilisation*
is load divided by capacity; with capacities of 1 the two are the same.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum


class Hold(StrEnum):
    """Why a shard may not be moved for balance now; it counts as load all the same."""

    PINNED = "pinned"
    COOLDOWN = "cooldown"
    IN_FLIGHT = "in_flight"
    UNMEASURED = "unmeasured"


class MoveReason(StrEnum):
    """What a move is for."""

    RELIEVE = "relieve"
    SWAP = "swap"
    LEVEL_IDLE = "level_idle"


class Stop(StrEnum):
    """Why a plan ends where it does."""

    NO_EXECUTORS = "no_executors"  # none is open
    LEVEL = "level"  # hottest and coldest are closer than the gap
    QUIET = "quiet"  # everyone that could be relieved is at or under the quiet mark
    BELOW_START_GAP = "below_start_gap"  # steps exist, none is worth starting for
    NOTHING_WORTH_IT = "nothing_worth_it"  # wider apart than the gap, and no legal step pays
    BUDGET = "budget"  # more to do, no moves left for it


class BlockedReason(StrEnum):
    """Why the hottest executor cannot be relieved, although it is hot enough to be."""

    FLOOR = "floor"  # its load is in shards too heavy to help anywhere
    PINNED = "pinned"
    COOLDOWN = "cooldown"
    BUDGET = "budget"  # no moves left, or too many handoffs under way
    NO_TARGET = "no_target"  # nobody open, or every colder executor is banned
    STALE_DATA = "stale_data"  # its shards are not measured yet


@dataclass(frozen=True, slots=True)
class Seat:
    """An executor as the planner sees it."""

    executor: str
    capacity: float = 1.0
    is_open: bool = True  # may receive
    is_source: bool = True  # may be relieved; a cordoned executor is closed and still a source
    in_flight: int = 0  # handoffs it is part of already, out or in
    zone: str = ""  # what may be lost at once with others of it


def in_turn(seats: Iterable[Seat]) -> list[Seat]:
    """Seats one of each zone after the other, by name within a zone.

    Equals are chosen in this order, so that a few heavy shards, or the first ones of a namespace,
    do not end up in one zone. A soft preference: nobody is loaded more for the sake of a zone.
    """
    taken: dict[str, int] = {}
    ranked: list[tuple[int, str, str, Seat]] = []
    for seat in sorted(seats, key=lambda one: one.executor):
        rank = taken.get(seat.zone, 0)
        taken[seat.zone] = rank + 1
        ranked.append((rank, seat.zone, seat.executor, seat))
    return [seat for _, _, _, seat in sorted(ranked, key=lambda one: one[:3])]


@dataclass(frozen=True, slots=True)
class Piece:
    """A shard on a seat, or on its way to one."""

    key: str
    load: float
    hold: Hold | None = None
    banned: frozenset[str] = frozenset()  # executors it may not go to

    @property
    def is_movable(self) -> bool:
        """Whether the balancer may move it now."""
        return self.hold is None


@dataclass(frozen=True, slots=True)
class Stack:
    """All shards of one executor: their keys, and beside them their loads."""

    keys: Collection[str] = ()
    loads: Sequence[float] = ()
    total: float = 0.0
    top: float = 0.0
    """The heaviest one's load."""

    @classmethod
    def of(cls, keys: Collection[str], loads: Sequence[float]) -> "Stack":
        """A stack and its sums."""
        return cls(keys, loads, fsum(loads), max(loads, default=0.0))


@dataclass(frozen=True, slots=True)
class Holdings:
    """What lies on every seat. Nearly all shards are free to go anywhere, and cost nothing here."""

    stacks: Mapping[str, Stack]
    """By executor."""
    holds: Mapping[str, Hold] = field(default_factory=dict)
    """By key of a shard that may not be moved now."""
    bans: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Executors by key of a shard that may not go there."""

    @classmethod
    def of(cls, pieces_by_executor: Mapping[str, Sequence[Piece]]) -> "Holdings":
        """The same, shard by shard."""
        pieces = [piece for own in pieces_by_executor.values() for piece in own]
        return cls(
            stacks={
                executor: Stack.of([one.key for one in own], [one.load for one in own])
                for executor, own in pieces_by_executor.items()
            },
            holds={one.key: one.hold for one in pieces if one.hold is not None},
            bans={one.key: one.banned for one in pieces if one.banned},
        )

    def piece(self, key: str, load: float) -> Piece:
        """One of its shards with what is known of it."""
        return Piece(key, load, self.holds.get(key), self.bans.get(key, frozenset()))


@dataclass(frozen=True, slots=True)
class Move:
    """One shard from one executor to another, with the utilisations it was judged by.

    A swap is two moves side by side that name each other in `swap_with`; both show utilisations
    before and after the pair, and the heavier one carries the gain of both.
    """

    key: str
    source: str
    target: str
    load: float
    reason: MoveReason
    gain: float  # fall of the potential, in units in which a price is gap ** 2 / 2
    source_before: float
    source_after: float
    target_before: float
    target_after: float
    swap_with: str | None = None


@dataclass(frozen=True, slots=True)
class Blocked:
    """The hottest executor and the reason for which it stays hot."""

    executor: str
    reason: BlockedReason


@dataclass(frozen=True, slots=True)
class Dominant:
    """A shard heavier than an even share of what the lighter ones leave."""

    key: str
    load: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The best any placement could do, pins and bans aside."""

    spread: float
    max: float  # utilisation of the hottest executor
    level: float  # what everyone without a dominant shard could have
    dominant: tuple[Dominant, ...]  # heaviest first


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """How evenly the load lies now; empty names and zeros for an empty fleet."""

    hottest: str
    hottest_utilisation: float
    coldest: str
    coldest_utilisation: float
    mean: float  # total load / total capacity: everyone's utilisation at perfect balance
    spread: float  # standard deviation / mean of utilisation, weighted by capacity
    total: float

    @property
    def max_over_mean(self) -> float:
        """The hottest in multiples of the mean; 1 for a fleet without load."""
        return self.hottest_utilisation / self.mean if self.mean > 0.0 else 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves of one pass, in the order in which each of them helps, and why it ends there."""

    moves: tuple[Move, ...]
    stop: Stop
    blocked: Blocked | None
    before: FleetFigures
    after: FleetFigures
    bound: Bound
    # Part of the descent, but an executor in it has its hands full; planned anew next pass.
    held_back: tuple[Move, ...] = ()
    typical: float = 0.0  # the typical shard's load, in multiples of a mean executor's

    @property
    def moved_load(self) -> float:
        """Load of all shards moved, a measure of what the plan costs the fleet."""
        return sum(move.load for move in self.moves)


@dataclass(frozen=True, slots=True)
class Placement:
    """An executor for a shard that had none."""

    key: str
    target: str
    load: float


@dataclass(frozen=True, slots=True)
class Placements:
    """Where owed shards go, and those that fit nowhere now."""

    placed: tuple[Placement, ...]
    owed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ramp:
    """What a newly joined executor may still be sent in this window; None is no limit."""

    load: float | None = None
    count: int | None = None
    at_least: int = 0  # so many shards whatever they weigh: shards cannot be divided


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """How far a plan goes, and what it may cost."""

    start_gap: float
    stop_gap: float
    budget: int
    """Most moves; a swap counts as two."""
    per_executor: int | None = None
    """Most handoffs an executor may be part of, those in flight included."""
    ramps: Mapping[str, Ramp] = field(default_factory=dict)
    """What newly joined executors may be sent."""
    load_cost: float = 1.0
    """At 1, moving a mean executor's load costs one move more."""
    cold: int = 8
    """How many of the coldest executors are tried as targets for each source."""
    quiet_mark: float | None = None
    """Executors at or under this utilisation are not relieved."""
