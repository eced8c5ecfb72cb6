"""Voluntary moves: one balancing pass, with every reason for which none may be made now.

A pass over many shards takes long, so it goes in slices: a step of the controller does one and asks
to be called again at once. What it planned is then held against the state as it has become.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import fsum
from typing import Final

from coordinator.core.commands import Command, StartHandoffs
from coordinator.core.controller.homes import chunks
from coordinator.core.controller.mind import Mind, Pass
from coordinator.core.controller.newcomers import FairShare, Filling, is_mixed, ramping
from coordinator.core.controller.picture import (
    STALE_AFTER_INTERVALS,
    Picture,
    taking_picture,
)
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Aims, Move, Plan, Ramp, Slices, Stop, planning
from coordinator.core.types import BalancerMode, Cause, HandoffStart, Placement, ShardState

STALE_RATIO_MAX: Final = 0.05
"""No voluntary moves while more of the shards than this are unmeasured or stale."""

SLICE_WORK: Final = 8_000
"""Shards looked at in one step, or as much: 1 to 3 ms, after which the loop has its turn. Small
namespaces are done in one step."""


def plan_balance(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """A pass, if one is due or under way; its result stays in `mind.last_pass`."""
    if mind.passing is None:
        if now < mind.next_pass_at:
            return []
        mind.next_pass_at = now + namespace.info.policy.balancer.interval_s
        mind.drop_cooled(now)
        mind.failures.forget_old(now)
        mind.forget_retired(namespace)
        mind.passing = _pass(namespace, mind, now, at_ms)
    result = _one_slice(mind.passing)
    if result is None:
        return []
    mind.passing = None
    skipped = result.skipped or why_held_up(namespace, mind, now, at_ms)
    if skipped or result.plan is None:
        mind.last_pass = Pass(at_ms, None, skipped)
        return []
    plan = _as_things_are(namespace, result.plan)
    mind.is_descending = plan.stop is Stop.BUDGET or bool(plan.held_back)
    mind.last_pass = Pass(at_ms, plan)
    if not plan.moves:
        return []
    shards = namespace.shards
    return [
        StartHandoffs(
            namespace=namespace.info.name,
            moves=tuple(
                HandoffStart(home.key, shards[home.key].epoch, home.executor, Cause.BALANCE)
                for home in some
            ),
            at_ms=at_ms,
        )
        for some in chunks([Placement(move.key, move.target) for move in plan.moves])
    ]


def why_skipped(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> str:
    """Why no voluntary move may be made now; empty when one may. Looks at every shard."""
    older_than_s = STALE_AFTER_INTERVALS * namespace.info.policy.heartbeat_interval_s
    held = [key for executor in namespace.executors for key in namespace.owned(executor)]
    return why_held_up(namespace, mind, now, at_ms) or _if_stale(
        mind.loads.stale_ratio(held, now, older_than_s)
    )


def why_held_up(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> str:
    """The same but for the loads, which take long to look at."""
    info = namespace.info
    if info.window is not None:
        return "recovering"
    if info.policy.balancer.mode is BalancerMode.OFF:
        return "off"
    if info.pause is not None and (info.pause.until_ms is None or at_ms < info.pause.until_ms):
        return "paused"
    if not namespace.executors:
        return "no_executors"
    if info.mass_failure is not None:
        return "mass_failure"
    if mind.leases.silent(info.policy.lease_ttl_s, now):
        return "suspect_executor"
    if is_mixed(namespace, mind, now):
        return "mixed_versions"
    return ""


def _if_stale(ratio: float) -> str:
    return "stale_data" if ratio > STALE_RATIO_MAX else ""


def _pass(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> Slices[Pass]:
    """The whole pass, in slices."""
    skipped = why_held_up(namespace, mind, now, at_ms)
    if skipped:
        return Pass(at_ms, None, skipped)
    picture = yield from taking_picture(namespace, mind, now)
    skipped = _if_stale(picture.stale_ratio)
    if skipped:
        return Pass(at_ms, None, skipped)
    aims = _aims(namespace, mind, picture, now)
    plan = yield from planning(picture.seats, picture.holdings, aims)
    # A million names take 30 ms to let go of at once.
    stacks = dict(picture.holdings.stacks)
    del picture
    while stacks:
        yield len(stacks.popitem()[1].keys) // 2
    return Pass(at_ms, plan)


def _one_slice(passing: Slices[Pass]) -> Pass | None:
    """Go on for one slice; the pass if that was the end of it."""
    done = 0
    while done < SLICE_WORK:
        try:
            done += next(passing)
        except StopIteration as end:
            result: Pass = end.value
            return result
    return None


def _aims(namespace: NamespaceState, mind: Mind, picture: Picture, now: float) -> Aims:
    balancer = namespace.info.policy.balancer
    in_flight = sum(
        namespace.shards[key].next_cause is Cause.BALANCE for key in namespace.in_flight
    )
    allowed = mind.budget.available(len(namespace.shards), now)
    return Aims(
        # A descent that was cut short by a limit goes on: the gate is for starting one.
        start_gap=balancer.stop_gap if mind.is_descending else balancer.start_gap,
        stop_gap=balancer.stop_gap,
        budget=max(0, min(allowed, balancer.max_in_flight - in_flight)),
        per_executor=balancer.max_in_flight_per_executor,
        ramps=_ramps(picture, ramping(namespace, mind, now)),
        load_cost=balancer.load_cost,
        quiet_mark=balancer.quiet_mark,
    )


def _ramps(picture: Picture, fillings: Mapping[str, Filling]) -> dict[str, Ramp]:
    """What each newcomer may be sent now."""
    stacks = picture.holdings.stacks
    fair = FairShare.of(
        fsum(stack.total for stack in stacks.values()),
        sum(len(stack.keys) for stack in stacks.values()),
        picture.seats,
    )
    return {
        name: fair.ramp(seat, fillings[name], stacks[name].total, len(stacks[name].keys))
        for seat in picture.seats
        if (name := seat.executor) in fillings
    }


def _as_things_are(namespace: NamespaceState, plan: Plan) -> Plan:
    """The plan without moves whose shard has changed hands, or is to, since the pass began."""
    gone = {move.key for move in plan.moves if not _is_still_there(namespace, move)}
    if not gone:
        return plan
    moves = (m for m in plan.moves if m.key not in gone and m.swap_with not in gone)
    return replace(plan, moves=tuple(moves))


def _is_still_there(namespace: NamespaceState, move: Move) -> bool:
    shard = namespace.shards.get(move.key)
    if shard is None or shard.state is not ShardState.OWNED or shard.pin is not None:
        return False
    return shard.executor == move.source and move.target in namespace.executors
