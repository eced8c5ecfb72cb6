"""What the leader knows and operators ask for: loads, ages, balance. It only reads."""

from dataclasses import dataclass
from math import inf
from typing import Final

from coordinator.core.controller.balance import STALE_DATA, if_stale, why_held_up
from coordinator.core.controller.fleet import see, shares_of
from coordinator.core.controller.mind import Mind, Pass
from coordinator.core.controller.picture import taking_picture
from coordinator.core.load import ProcessSignals
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import (
    Bound,
    FleetFigures,
    Slices,
    Yardstick,
    finished,
    measuring,
)
from coordinator.core.planner.bound import bound_slices

HASHED_MAX: Final = 20_000
"""Shards whose names are hashed when somebody asks. Of more it is told what was measured last."""


@dataclass(frozen=True, slots=True)
class ExecutorFacts:
    """One executor as the leader sees it now."""

    load: float
    """Smoothed, in the unit of capacity; shards in handoff count where they are going."""
    shard_count: int
    """Shards it owns, open handoffs away from it included."""
    incoming_count: int
    heartbeat_age_s: float | None
    process: ProcessSignals | None


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """One shard as the leader sees it now."""

    load: float | None
    """Smoothed; None while it was never measured."""
    measured_s: float
    cooldown_left_s: float


@dataclass(frozen=True, slots=True)
class BalanceFacts:
    """How evenly the load lies, how evenly it could, and what the last pass did about it."""

    figures: FleetFigures
    bound: Bound
    hashed: Yardstick | None
    """What static hashing over the same executors would give; of very many shards as a pass
    measured it last, None before that."""
    loads: dict[str, float]
    """Smoothed load by executor."""
    capacities: dict[str, float]
    skipped: str
    """Why no voluntary move may be made now; empty when one may."""
    last_pass: Pass | None
    in_flight: int
    moves_total: dict[str, int]
    unmeasured: int
    saturated: tuple[str, ...]
    """Executors that would do more than they report if they could."""

    @property
    def is_stale(self) -> bool:
        """Whether too few loads are known to move anything by them."""
        return self.skipped == STALE_DATA


def executor_facts(namespace: NamespaceState, mind: Mind, now: float) -> dict[str, ExecutorFacts]:
    """Of every executor, by id."""
    fleet = see(namespace, mind, now)
    return {
        executor: ExecutorFacts(
            load=fleet.loads[executor],
            shard_count=len(namespace.owned(executor)),
            incoming_count=len(namespace.incoming(executor)),
            heartbeat_age_s=mind.leases.silent_for(executor, now),
            process=mind.loads.process(executor),
        )
        for executor in fleet.loads
    }


def facts_of(namespace: NamespaceState, mind: Mind, executor: str, now: float) -> ExecutorFacts:
    """Of one executor on record: what all of a thousand hold takes as long as an order itself."""
    tally = mind.tallies.of(namespace, executor)
    unmeasured = tally.unmeasured * mind.loads.median() if tally.unmeasured else 0.0
    return ExecutorFacts(
        load=tally.load + unmeasured,
        shard_count=len(namespace.owned(executor)),
        incoming_count=len(namespace.incoming(executor)),
        heartbeat_age_s=mind.leases.silent_for(executor, now),
        process=mind.loads.process(executor),
    )


def shard_facts(mind: Mind, key: str, now: float) -> ShardFacts:
    """Of one shard."""
    return ShardFacts(
        load=mind.loads.smoothed(key),
        measured_s=mind.loads.measured_s(key),
        cooldown_left_s=max(0.0, mind.cooling_until.get(key, now) - now),
    )


def balance_facts(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> BalanceFacts:
    """All at once; see `gathering_facts`."""
    return finished(gathering_facts(namespace, mind, now, at_ms))


def gathering_facts(
    namespace: NamespaceState, mind: Mind, now: float, at_ms: int
) -> Slices[BalanceFacts]:
    """Of the whole namespace, in slices. Only executors that may be given shards count as room."""
    picture = yield from taking_picture(namespace, mind, now)
    stacks = list(picture.holdings.stacks.values())
    rooms = {seat.executor: seat.capacity for seat in picture.seats if seat.is_open}
    bound = yield from bound_slices(stacks, rooms.values())
    if sum(len(stack.keys) for stack in stacks) <= HASHED_MAX:
        mind.yardstick = yield from measuring(stacks, rooms)
    measured = 0
    for part in namespace.shards.parts:
        measured += mind.loads.heard_since(part, -inf)
        yield len(part)
    shares = shares_of(see(namespace, mind, now))
    return BalanceFacts(
        figures=shares.figures,
        bound=bound,
        hashed=mind.yardstick,
        loads=shares.loads,
        capacities=shares.rooms,
        skipped=why_held_up(namespace, mind, now, at_ms) or if_stale(picture.stale_ratio),
        last_pass=mind.last_pass,
        in_flight=len(namespace.in_flight),
        moves_total=dict(mind.moves_total),
        unmeasured=max(0, len(namespace.shards) - measured),
        saturated=tuple(one for one in sorted(namespace.executors) if mind.loads.is_saturated(one)),
    )
