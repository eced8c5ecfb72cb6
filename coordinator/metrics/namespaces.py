"""One namespace's figures: from its tables on any node, and from the mind on the leader.

Decides which figure of the core is which metric. Must not change anything it reads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from coordinator.core.controller import Mind
from coordinator.core.controller.fleet import Fleet, see, shares_of
from coordinator.core.controller.poison import parked_for_poison, suspected_of_poison
from coordinator.core.controller.strays import strays
from coordinator.core.controller.tempo import unowned_count
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import BlockedReason
from coordinator.core.planner.whatif import needed
from coordinator.core.shard import ShardState
from coordinator.metrics.families import Families


@dataclass(frozen=True, slots=True)
class Seen:
    """A namespace as it was seen for its sums, for the series of its executors."""

    namespace: NamespaceState
    mind: Mind
    fleet: Fleet
    capacities: dict[str, float]
    silent: frozenset[str]
    now: float


def add_tables(families: Families, name: str, namespace: NamespaceState, at_ms: int) -> None:
    """What every node knows."""
    standings = dict.fromkeys(("active", "cordoned", "draining", "drained"), 0)
    held = 0
    for executor in namespace.executors.values():
        standings[namespace.status_of(executor)] += 1
        held += len(namespace.owned(executor.id))
    families.put_each("executors", standings, name)
    moving = dict.fromkeys((ShardState.PREPARING, ShardState.RELEASING), 0)
    for key in namespace.in_flight:
        moving[namespace.shards[key].state] += 1
    vacant = unowned_count(namespace)
    states = {
        ShardState.VACANT: vacant,
        ShardState.OWNED: held - sum(moving.values()),
        ShardState.PARKED: len(namespace.shards) - held - vacant,
        **moving,
    }
    families.put_each("shards", {state.value: count for state, count in states.items()}, name)
    info = namespace.info
    alarm, pause = info.mass_failure, info.pause
    families.put("shards_unassigned", vacant, name)
    families.put("shards_reserved", vacant - len(namespace.vacant), name)
    families.put("shards_pinned", len(namespace.pinned), name)
    families.put("drains", len(namespace.drains), name)
    families.put("handoffs_open", len(namespace.in_flight), name)
    families.put("mass_failure", alarm is not None and alarm.is_holding, name)
    families.put("claims_open", info.window is not None, name)
    is_paused = pause is not None and (pause.until_ms is None or at_ms < pause.until_ms)
    families.put("balance_paused", is_paused, name)
    families.put("lease_seconds", info.policy.lease_ttl_s, name)
    families.put("shards_parked_for_poison", parked_for_poison(namespace), name)
    families.put("shards_suspected_of_poison", suspected_of_poison(namespace), name)


def add_mind(
    families: Families, name: str, namespace: NamespaceState, mind: Mind, now: float
) -> Seen:
    """What only the leader knows; gives what it was made of."""
    astray = strays(namespace, mind, now)
    doubles = {one.key for one in astray if one.other is not None}
    families.put("shards_double_owned", len(doubles), name)
    families.put("shards_held_astray", len({one.key for one in astray}), name)
    fleet = see(namespace, mind, now)
    _add_leases(families, name, namespace, mind, now)
    _add_balance(families, name, namespace, mind, fleet)
    _add_tempo(families, name, mind, now)
    return Seen(
        namespace,
        mind,
        fleet,
        {seat.executor: seat.capacity for seat in fleet.seats},
        frozenset(mind.leases.silent(namespace.info.policy.lease_ttl_s, now)),
        now,
    )


def _add_leases(
    families: Families, name: str, namespace: NamespaceState, mind: Mind, now: float
) -> None:
    leases, lease_s = mind.leases, namespace.info.policy.lease_ttl_s
    silent = leases.silent(lease_s, now) & namespace.executors.keys()
    families.put("executors_silent", len(silent), name)
    ages_s = [leases.silent_for(executor, now) or 0.0 for executor in namespace.executors]
    left_s = [
        (leases.deadline(one.id, one.incarnation) or now) - now
        for one in namespace.executors.values()
    ]
    families.put("heartbeat_age_max_seconds", max(ages_s, default=0.0), name)
    share = min(left_s, default=inf) / leases.lease_end(0.0, lease_s)
    families.put("lease_left_min_ratio", min(1.0, max(0.0, share)), name)


def _add_balance(
    families: Families, name: str, namespace: NamespaceState, mind: Mind, fleet: Fleet
) -> None:
    """How even the fleet is, how even it could be, and what stands in the way."""
    shares = shares_of(fleet)
    figures = shares.figures
    families.put("fleet_load_max", figures.hottest_utilisation, name)
    families.put("fleet_load_mean", figures.mean, name)
    families.put("fleet_load_min", figures.coldest_utilisation, name)
    families.put("fleet_load_spread_ratio", figures.spread, name)
    saturated = sum(mind.loads.is_saturated(one) for one in namespace.executors)
    families.put("executors_saturated", saturated, name)
    families.put("shards_unmeasured", sum(fleet.unmeasured.values()), name)
    if mind.yardstick is not None:
        hashed = {"modulo": mind.yardstick.modulo.spread, "ring": mind.yardstick.ring.spread}
        families.put_each("fleet_static_hash_spread_ratio", hashed, name)
    plan = mind.tempo.plan
    heaviest = 0.0
    if plan is not None:
        heaviest = max((shard.load for shard in plan.bound.dominant), default=0.0)
        families.put("fleet_load_floor", plan.bound.max, name)
        families.put("fleet_best_possible_spread_ratio", plan.bound.spread, name)
        gap = max(0.0, figures.spread - plan.bound.spread)
        families.put("fleet_spread_gap_ratio", gap, name)
        blocked = None if plan.blocked is None else plan.blocked.reason
        families.put_each("balance_blocked", {one: one is blocked for one in BlockedReason}, name)
    mark = namespace.info.policy.balancer.high_mark
    if mark is not None:
        rooms = list(shares.open_rooms.values())
        executors = needed(figures.total, heaviest, rooms, mark)
        if executors is not None:
            families.put("executors_needed", executors, name)


def _add_tempo(families: Families, name: str, mind: Mind, now: float) -> None:
    """What was counted in this term."""
    tempo = mind.tempo
    since = tempo.unowned_since
    families.put("shards_unassigned_for_seconds", 0.0 if since is None else now - since, name)
    families.put("shards_unowned_seconds", tempo.unowned_shard_s, name)
    families.put("handoff_oldest_seconds", tempo.oldest_handoff_s(now), name)
    families.put("lease_expirations", mind.expirations_total, name)
    families.put_each("moves", mind.moves_total, name)
    families.put_each("moves_blocked", tempo.blocked, name)
    families.put_each("passes", tempo.outcomes, name)
    families.put_each("handoffs", {e.value: n for e, n in tempo.handoff_ends.items()}, name)
    claims = {one.value: count for one, count in mind.claims.totals.items() if count}
    families.put_each("claims", claims, name)
    families.put_times("plan_seconds", tempo.passes, name)
    families.put_times("handoff_seconds", tempo.handoffs, name)


def add_executors(families: Families, seen: Seen, listed: Iterable[str]) -> None:
    """What the leader knows of these executors, one series each; of those that went, nothing."""
    name, fleet, mind = seen.namespace.info.name, seen.fleet, seen.mind
    for executor in listed:
        count = fleet.counts.get(executor)
        if count is None or executor not in seen.namespace.executors:
            continue
        families.put("executor_shards", len(seen.namespace.owned(executor)), name, executor)
        age_s = mind.leases.silent_for(executor, seen.now)
        if age_s is not None:
            families.put("executor_heartbeat_age_seconds", age_s, name, executor)
        is_unmeasured = count > 0 and fleet.unmeasured[executor] == count
        if executor in seen.silent or is_unmeasured:
            continue  # unknown, which is not what it was and not zero either
        load = fleet.loads[executor] / seen.capacities[executor]
        families.put("executor_load", load, name, executor)
        signals = mind.loads.process(executor)
        if signals is not None and signals.event_loop_lag_s is not None:
            lag_s = signals.event_loop_lag_s
            families.put("executor_loop_lag_seconds", lag_s, name, executor)
