"""What the leader knows and operators ask for: loads, ages, balance. It only reads."""

from dataclasses import dataclass
from typing import Final

from coordinator.core.controller.balance import why_skipped
from coordinator.core.controller.fleet import see, shares_of
from coordinator.core.controller.mind import Mind, Pass
from coordinator.core.controller.tallies import held_keys, moving_out
from coordinator.core.load import ProcessSignals
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import (
    Bound,
    FleetFigures,
    Stack,
    Yardstick,
    best_possible,
    yardstick,
)

HASHED_MAX: Final = 20_000
"""Shards whose names are hashed when somebody asks: 40 ms. Of more, a pass does it in slices."""


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


def shard_facts(mind: Mind, key: str, now: float) -> ShardFacts:
    """Of one shard."""
    return ShardFacts(
        load=mind.loads.smoothed(key),
        measured_s=mind.loads.measured_s(key),
        cooldown_left_s=max(0.0, mind.cooling_until.get(key, now) - now),
    )


def balance_facts(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> BalanceFacts:
    """Of the whole namespace. Only executors that may be given shards count as room."""
    fleet = see(namespace, mind, now)
    shares = shares_of(fleet)
    capacities, loads = shares.open_rooms, shares.loads
    leaving = moving_out(namespace)
    keys = [key for e in fleet.loads for key in held_keys(namespace, e, leaving)]
    by_shard = {
        key: fleet.median if load is None else load
        for key, load in zip(keys, mind.loads.loads_of(keys), strict=True)
    }
    if len(by_shard) <= HASHED_MAX:
        stack = Stack.of(list(by_shard), list(by_shard.values()))
        mind.yardstick = yardstick([stack], capacities)
    return BalanceFacts(
        figures=shares.figures,
        bound=best_possible(by_shard, list(capacities.values())),
        hashed=mind.yardstick,
        loads=loads,
        capacities=shares.rooms,
        skipped=why_skipped(namespace, mind, now, at_ms),
        last_pass=mind.last_pass,
        in_flight=len(namespace.in_flight),
        moves_total=dict(mind.moves_total),
        unmeasured=sum(mind.loads.smoothed(key) is None for key in namespace.shards),
        saturated=tuple(one for one in sorted(namespace.executors) if mind.loads.is_saturated(one)),
    )
