"""The wire records of balance, plans, dry runs and fleets that are not there, in API version 1.

Decides the shape of what operators read of them; what is not known is ignored, what may be missing
has a default. Utilisations are load by capacity.
"""

from typing import Any

from msgspec import Struct


class ExecutorShare(Struct, frozen=True):
    """One executor in the balance."""

    executor: str
    load: float = 0.0
    share: float = 0.0
    utilisation: float = 0.0
    shards: int = 0


class DominantShard(Struct, frozen=True):
    """A shard too heavy for any placement to level out."""

    key: str
    load: float = 0.0


class PassView(Struct, frozen=True):
    """What the last balancing pass did, and why it stopped."""

    at: str = ""
    moves: int = 0
    moved_load: float = 0.0
    stopped: str = ""
    spread_before: float | None = None
    spread_after: float | None = None


class PauseView(Struct, frozen=True):
    """Who paused the balancer, why and until when."""

    reason: str = ""
    by: str = ""
    since: str = ""
    until: str | None = None


class BalanceView(Struct, frozen=True):
    """How level the fleet is, and how level it could be."""

    mode: str = "on"
    paused: bool = False
    paused_reason: str = ""
    pause: PauseView | None = None
    executors: list[ExecutorShare] = []
    hottest: float = 0.0
    hottest_executor: str = ""
    mean: float = 0.0
    coldest: float = 0.0
    coldest_executor: str = ""
    max_over_mean: float = 0.0
    spread: float = 0.0
    best_possible: float = 0.0
    gap: float = 0.0
    static_hash: float | None = None
    static_ring: float | None = None
    static_hash_hottest: float | None = None
    dominant: list[DominantShard] = []
    blocked: str | None = None
    blocked_why: str | None = None
    skipped: str | None = None  # why no voluntary move may be made now
    skipped_why: str | None = None
    saturated: list[str] = []  # executors whose load is clipped
    last_pass: PassView | None = None
    in_flight: int = 0
    unmeasured: int = 0
    moves: dict[str, int] = {}  # since this leader's term began, by cause


class RoomView(Struct, frozen=True):
    """The executors that would be left, with the load of those that are emptied."""

    executors: int = 0
    capacity: float = 0.0
    mean_before: float = 0.0
    mean_after: float = 0.0
    hottest_before: float = 0.0
    hottest_after: float = 0.0
    hottest_executor: str | None = None
    mark: float | None = None  # what the mean must not be above without `force`
    pinned: int = 0  # shards that stay until they are unpinned
    unplaced: int = 0  # shards that nobody is left for


class DryRunAnswer(Struct, frozen=True):
    """The change was checked and would be made; nothing was changed."""

    would: str = ""
    resource: str = ""
    creates: bool = False
    shards: int | None = None
    moved_load: float | None = None  # of the shards that would go elsewhere
    room: RoomView | None = None  # of an order that empties executors
    target_before: float | None = None  # of one that brings a shard somewhere: utilisation there
    target_after: float | None = None


class PlannedMove(Struct, frozen=True):
    """A move, with the utilisations before and after it."""

    key: str
    source: str
    target: str
    load: float = 0.0
    reason: str = ""
    gain: float = 0.0
    source_before: float = 0.0
    source_after: float = 0.0
    target_before: float = 0.0
    target_after: float = 0.0
    swap_with: str | None = None
    why: str = ""  # in words


class RejectedMove(Struct, frozen=True):
    """A move that was looked at and not made, with the rule that says no."""

    key: str
    source: str
    target: str
    load: float = 0.0
    rule: str = ""
    why: str = ""
    worth: float = 0.0  # of what a step must gain; above 1 it would pay


class FleetView(Struct, frozen=True):
    """How evenly the load lies."""

    executors: int = 0
    hottest: float = 0.0
    hottest_executor: str = ""
    mean: float = 0.0
    coldest: float = 0.0
    coldest_executor: str = ""
    spread: float = 0.0


class PlanView(Struct, frozen=True):
    """A pass that nobody makes."""

    start_gap: float = 0.0
    stop_gap: float = 0.0
    budget: int = 0
    moves: int = 0
    moved: list[PlannedMove] = []  # the first of them
    moved_load: float = 0.0
    held_back: int = 0
    rejected: list[RejectedMove] = []
    stopped: str = ""
    stopped_why: str = ""
    blocked: str | None = None
    blocked_why: str | None = None
    skipped: str | None = None  # why no pass is made at all now
    skipped_why: str | None = None
    before: FleetView = FleetView()
    after: FleetView = FleetView()
    best_possible: float = 0.0
    best_possible_hottest: float = 0.0


class WhatIfView(Struct, frozen=True):
    """What the planner would do on a fleet that is not there, given time."""

    executors: int = 0
    owed: int = 0  # shards whose executor is gone
    unplaced: int = 0  # shards that nobody is left for
    passes: int = 0  # budget windows that the voluntary moves take
    static_hash: float = 0.0
    plan: PlanView = PlanView()


class CapacityRow(Struct, frozen=True):
    """A number of executors, and the utilisation of the hottest one."""

    executors: int = 0
    mean: float = 0.0
    best_possible: float = 0.0
    planned: float = 0.0
    static_hash: float = 0.0
    moves: int = 0
    spread: float = 0.0
    is_enough: bool | None = None


class CapacityView(Struct, frozen=True):
    """How many executors it takes."""

    demand: float = 0.0
    executors: int = 0
    capacity: float = 0.0
    fair_share: float = 0.0
    floor: float = 0.0
    heaviest_shard: float = 0.0
    high_mark: float | None = None
    needed: int | None = None
    needed_planned: int | None = None
    lower_bound: bool = False  # some process was saturated: the demand is more than was measured
    saturated: list[str] = []
    unmeasured_ratio: float = 0.0
    table: list[CapacityRow] = []


class RealisedView(Struct, frozen=True):
    """What was measured later; of a dry run, what it would have been."""

    at: str = ""
    spread: float = 0.0
    hottest: float = 0.0
    hottest_executor: str = ""
    moved_load: float = 0.0


class DecisionView(Struct, frozen=True):
    """A pass that planned moves: what it predicted, and what came of it."""

    id: str
    at: str = ""
    dry_run: bool = False
    moves: int = 0
    moved_load: float = 0.0
    stopped: str = ""
    spread_before: float = 0.0
    spread_predicted: float = 0.0
    hottest_before: float = 0.0
    hottest_predicted: float = 0.0
    effect: str = "pending"
    realised: RealisedView | None = None
    repeats: int = 0


class PassRow(Struct, frozen=True):
    """A pass, or several in a row that came to the same."""

    first_at: str = ""
    last_at: str = ""
    count: int = 1
    outcome: str = ""
    why: str = ""
    moves: int = 0
    decision: str | None = None
    blocked: str | None = None


class HistoryView(Struct, frozen=True):
    """What the present leader's balancer did, newest first."""

    passes: list[PassRow] = []
    decisions: list[DecisionView] = []


class DecisionDetails(Struct, frozen=True):
    """A decision with what it was made of."""

    decision: DecisionView
    plan: PlanView = PlanView()
    left_out: list[str] = []
    executors: list[dict[str, Any]] | None = None
    held: dict[str, str] | None = None
    replayed: bool | None = None  # whether the same inputs give the same plan once more
