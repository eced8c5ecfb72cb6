"""The records that pictures of a fleet are drawn from.

Decides their shape and keeps them small: whatever the number of shards, the answer is bounded. It
must not know how a figure comes about.
"""

from msgspec import Struct

from coordinator.api.operators.records import ExecutorStanding, PauseView
from coordinator.core.types import BalancerMode

Cell = tuple[str, float, str]
"""A shard's key, its smoothed load, and what holds it: `pinned`, `in_flight`, `cooldown`,
`unmeasured`, or nothing."""


class ExecutorColumn(Struct, frozen=True, kw_only=True):
    """One executor with what it holds, shards in handoff where they are going."""

    executor: str
    host: str
    status: ExecutorStanding
    capacity: float
    load: float
    utilisation: float
    shards: int
    heartbeat_age_s: float | None
    silent: bool
    """Not heard for half a lease: nothing is given to it, and nothing asked of it."""
    may_receive: bool
    """Whether it may be given shards: not drained, cordoned, leaving nor silent."""
    saturated: bool
    cells: list[Cell]
    """Its heaviest shards, heaviest first."""
    rest: int
    """Shards that are not among `cells`."""
    rest_load: float


class PlacementAnswer(Struct, frozen=True, kw_only=True):
    """Where everything lies and how evenly, in a bounded number of cells."""

    at: str
    hottest: float
    """Utilisation of the hottest executor; `mean` and `coldest` alike."""
    hottest_executor: str
    mean: float
    coldest: float
    coldest_executor: str
    spread: float
    """Standard deviation by mean of the executors' utilisation."""
    best_possible: float
    """The least spread that any placement of these shards could have."""
    best_possible_hottest: float
    static_hash_hottest: float | None
    """Utilisation of the hottest executor under static hashing, as measured last."""
    start_gap: float
    """Share of the mean: no pass starts while no step levels a larger one."""
    high_mark: float | None
    quiet_mark: float | None
    mode: BalancerMode
    pause: PauseView | None
    skipped: str | None
    """Why no voluntary move may be made now; null when one may."""
    skipped_why: str | None
    blocked: str | None
    """Why the hottest executor could not be relieved in the last pass; null when it could."""
    blocked_why: str | None
    shards: int
    vacant: int
    """Without an owner; those that are kept for an executor that is about to be back included."""
    reserved: int
    parked: int
    pinned: int
    in_flight: int
    cooling: int
    unmeasured: int
    moves: dict[str, int]
    """Moves since this leader's term began, by cause."""
    executors: list[ExecutorColumn]
    """By id."""


class SeriesPoint(Struct, frozen=True, kw_only=True):
    """How evenly the load lay at one moment; utilisations, but for the spread."""

    at: str
    hottest: float
    mean: float
    coldest: float
    spread: float
    best_possible: float | None
    """Of the hottest one under the best of all placements."""
    static_hash: float | None
    """Of the hottest one under static hashing."""
    executors: int


class SeriesAnswer(Struct, frozen=True, kw_only=True):
    """How evenly the load lay, oldest first.

    The last hour is as this leader saw it, each few seconds; before it stands a point a minute of
    half a day, which every node holds.
    """

    points: list[SeriesPoint]
    """At most 1,440."""
