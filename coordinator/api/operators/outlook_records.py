"""The records of plans, decisions and fleets that are not there.

Decides their shape and what may be asked. It must not know how anything is calculated.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from coordinator.api.operators.records import PlannedMove
from coordinator.api.records import ExecutorName
from coordinator.policy import BalancerFields

EXECUTORS_MAX = 10_000
"""Of a fleet that is asked about."""

Level = Literal["default", "level", "tight"]


class BalancerChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy to try: what is not named stays."""

    balancer: BalancerFields = BalancerFields()


class WhatIfRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fleet that is not there."""

    executors: Annotated[int, Meta(ge=1, le=EXECUTORS_MAX)] | None = None
    """How many in all, after those that are taken away; null: as many as are left."""
    without_hosts: Annotated[list[ExecutorName], Meta(max_length=1_000)] = []
    """Everything on these is gone."""
    without_executors: Annotated[list[ExecutorName], Meta(max_length=1_000)] = []
    policy: BalancerChange = BalancerChange()
    """Settings to try."""


class FleetView(Struct, frozen=True, kw_only=True):
    """How evenly the load lies; utilisations."""

    executors: int
    hottest: float
    hottest_executor: str
    mean: float
    coldest: float
    coldest_executor: str
    spread: float


class RejectedMove(Struct, frozen=True, kw_only=True):
    """A move that was looked at and not made."""

    key: str
    source: str
    target: str
    load: float
    rule: str
    why: str
    worth: float
    """What it would gain for its cost, in multiples of what a step must."""


class PlanAnswer(Struct, frozen=True, kw_only=True):
    """A pass that nobody makes."""

    start_gap: float
    stop_gap: float
    budget: int
    """Most moves it may plan."""
    moves: int
    moved: list[PlannedMove]
    """At most 100, in the order in which each helps."""
    moved_load: float
    held_back: int
    """Moves that executors with their hands full have to wait for."""
    rejected: list[RejectedMove]
    """At most 40."""
    stopped: str
    stopped_why: str
    blocked: str | None
    blocked_why: str | None
    skipped: str | None
    """Why no pass is made at all now."""
    skipped_why: str | None
    before: FleetView
    after: FleetView
    best_possible: float
    """The least spread any placement could have."""
    best_possible_hottest: float


class WhatIfAnswer(Struct, frozen=True, kw_only=True):
    """What the planner would do on that fleet, given time."""

    executors: int
    owed: int
    """Shards that find a new executor because theirs is gone."""
    unplaced: int
    """Shards that nobody is left for."""
    passes: int
    """How many budget windows the voluntary moves take."""
    static_hash: float
    """The hottest executor's utilisation under `blake2s(key) % n`."""
    plan: PlanAnswer


class CapacityRow(Struct, frozen=True, kw_only=True):
    """A number of executors; utilisations of the hottest one."""

    executors: int
    mean: float
    best_possible: float
    planned: float
    static_hash: float
    moves: int
    """To get there, those included that the loss of executors makes."""
    spread: float
    is_enough: bool | None
    """Whether the planned one is at or under the high mark; null without a mark."""


class CapacityAnswer(Struct, frozen=True, kw_only=True):
    """How many executors it takes."""

    demand: float
    """Smoothed load of all shards."""
    executors: int
    """That may be given shards now."""
    capacity: float
    """Of these, together."""
    fair_share: float
    """Demand by executors."""
    floor: float
    """Load that one executor has at least: the fair share, or the heaviest shard."""
    heaviest_shard: float
    high_mark: float | None
    needed: int | None
    """Executors with which nobody need be above the mark; null without a mark, or when the heaviest
    shard alone is above it."""
    needed_planned: int | None
    """The fewest in the table with which the planner keeps everybody at or under the mark."""
    lower_bound: bool
    """Some process was saturated, so the demand is more than what was measured."""
    saturated: list[str]
    unmeasured_ratio: float
    """Share of the shards whose load is not known or stale."""
    table: list[CapacityRow]


class RealisedView(Struct, frozen=True, kw_only=True):
    """What was measured later; of a dry run, what it would have been."""

    at: str
    spread: float
    hottest: float
    hottest_executor: str
    moved_load: float


class DecisionView(Struct, frozen=True, kw_only=True):
    """A pass that planned moves."""

    id: str
    at: str
    dry_run: bool
    moves: int
    moved_load: float
    stopped: str
    spread_before: float
    spread_predicted: float
    hottest_before: float
    hottest_predicted: float
    effect: Literal["pending", "measured"]
    realised: RealisedView | None
    repeats: int
    """How often a dry run came to the same since."""


class PassRow(Struct, frozen=True, kw_only=True):
    """A pass, or several in a row that came to the same."""

    first_at: str
    last_at: str
    count: int
    outcome: str
    why: str
    moves: int
    decision: str | None
    blocked: str | None


class HistoryAnswer(Struct, frozen=True, kw_only=True):
    """What this leader's balancer did, newest first. It ends with the leader's term."""

    passes: list[PassRow]
    decisions: list[DecisionView]


class SeatView(Struct, frozen=True, kw_only=True):
    """An executor as a plan saw it."""

    executor: str
    capacity: float
    load: float
    shards: int
    may_receive: bool
    may_be_relieved: bool
    in_flight: int


class DecisionAnswer(Struct, frozen=True, kw_only=True):
    """A decision with what it was made of."""

    decision: DecisionView
    plan: PlanAnswer
    left_out: list[str]
    """Shards of planned moves that had changed hands before the plan was ready."""
    executors: list[SeatView] | None
    """The inputs; null when they are not kept any more."""
    held: dict[str, str] | None
    """At most 1,000 shards that might not be moved, and why."""
    replayed: bool | None
    """Whether the same inputs give the same plan once more; null without inputs."""
