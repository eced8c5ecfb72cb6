"""Voluntary moves: one balancing pass, with every reason for which none may be made now."""

from dataclasses import replace
from math import fsum

from coordinator.core.commands import Command, StartHandoffs
from coordinator.core.controller.fleet import balance_pieces, see
from coordinator.core.controller.mind import Mind, Pass
from coordinator.core.controller.newcomers import FairShare, is_mixed
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Plan, Stop, level_idle, settle
from coordinator.core.types import BalancerMode, Cause, HandoffStart

STALE_RATIO_MAX = 0.05
"""No voluntary moves while more of the shards than this are unmeasured or stale."""

STALE_AFTER_INTERVALS = 5
"""A load not reported for this many heartbeat intervals is stale."""


def plan_balance(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """A pass, if one is due; its result stays in `mind.last_pass`."""
    balancer = namespace.info.policy.balancer
    if now < mind.next_pass_at:
        return []
    mind.next_pass_at = now + balancer.interval_s
    mind.drop_cooled(now)
    mind.failures.forget_old(now)
    mind.forget_retired(namespace)
    skipped = why_skipped(namespace, mind, now, at_ms)
    if skipped:
        mind.last_pass = Pass(at_ms, None, skipped)
        return []
    plan = make_plan(namespace, mind, now)
    mind.is_descending = plan.stop is Stop.BUDGET or bool(plan.held_back)
    mind.last_pass = Pass(at_ms, plan)
    if not plan.moves:
        return []
    return [
        StartHandoffs(
            namespace=namespace.info.name,
            moves=tuple(
                HandoffStart(move.key, namespace.shards[move.key].epoch, move.target, Cause.BALANCE)
                for move in plan.moves
            ),
            at_ms=at_ms,
        )
    ]


def why_skipped(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> str:
    """Why no voluntary move may be made now; empty when one may."""
    info = namespace.info
    if info.policy.balancer.mode is BalancerMode.OFF:
        return "off"
    if info.pause is not None and (info.pause.until_ms is None or at_ms < info.pause.until_ms):
        return "paused"
    if not namespace.executors:
        return "no_executors"
    if info.mass_failure is not None:
        return "mass_failure"
    if mind.leases.silent(now, info.policy.lease_ttl_s / 2):
        return "suspect_executor"
    if is_mixed(namespace, mind, now):
        return "mixed_versions"
    older_than_s = STALE_AFTER_INTERVALS * info.policy.heartbeat_interval_s
    if mind.loads.stale_ratio(namespace.shards, now, older_than_s) > STALE_RATIO_MAX:
        return "stale_data"
    return ""


def make_plan(namespace: NamespaceState, mind: Mind, now: float) -> Plan:
    """What a pass would move now: steps that pay by load, else idle shards that pile up."""
    balancer = namespace.info.policy.balancer
    fleet = see(namespace, mind, now)
    pieces = balance_pieces(fleet, mind, now)
    in_flight = sum(
        namespace.shards[key].next_cause is Cause.BALANCE for key in namespace.in_flight
    )
    allowed = mind.budget.available(len(namespace.shards), now)
    budget = max(0, min(allowed, balancer.max_in_flight - in_flight))
    fair = FairShare.of(fsum(fleet.loads.values()), sum(fleet.counts.values()), fleet.seats)
    ramps = {
        name: fair.ramp(seat, fleet.ramping[name], fleet.loads[name], fleet.counts[name])
        for seat in fleet.seats
        if (name := seat.executor) in fleet.ramping
    }
    plan = settle(
        fleet.seats,
        pieces,
        # A descent that was cut short by a limit goes on: the gate is for starting one.
        start_gap=balancer.stop_gap if mind.is_descending else balancer.start_gap,
        stop_gap=balancer.stop_gap,
        budget=budget,
        per_executor=balancer.max_in_flight_per_executor,
        ramps=ramps,
        load_cost=balancer.load_cost,
        quiet_mark=balancer.quiet_mark,
    )
    if plan.moves or plan.stop is Stop.BUDGET:
        return plan
    idle = level_idle(
        fleet.seats,
        pieces,
        stop_gap=balancer.stop_gap,
        budget=budget,
        per_executor=balancer.max_in_flight_per_executor,
        ramps=ramps,
    )
    return replace(plan, moves=idle)
