"""Voluntary moves: one balancing pass, with every reason for which none may be made now.

A pass over many shards takes long, so it goes in slices: a step of the controller does one and asks
to be called again at once. What it planned is then held against the state as it has become.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import fsum
from typing import Final, TypeVar

from coordinator.core.commands import Command, StartHandoffs
from coordinator.core.controller.decisions import (
    INPUT_SHARDS_MAX,
    Decision,
    Inputs,
    PassEntry,
)
from coordinator.core.controller.effects import measure_effects
from coordinator.core.controller.hashed import is_due, measuring_hashes
from coordinator.core.controller.homes import chunks
from coordinator.core.controller.mind import Mind, Pass
from coordinator.core.controller.newcomers import FairShare, Filling, is_mixed, ramping
from coordinator.core.controller.picture import (
    STALE_AFTER_INTERVALS,
    Picture,
    taking_picture,
)
from coordinator.core.controller.words import moved
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import (
    Aims,
    Move,
    Plan,
    Ramp,
    Slices,
    Stop,
    planning,
    rejected,
)
from coordinator.core.planner.slices import SEAT_WORK
from coordinator.core.shard import Cause, ShardState
from coordinator.core.types import BalancerMode, HandoffStart, Placement

T = TypeVar("T")

STALE_RATIO_MAX: Final = 0.05
"""No voluntary moves while more of the shards than this are unmeasured or stale."""

STALE_DATA: Final = "stale_data"

SLICE_WORK: Final = 5_000
"""Shards looked at in one step, or as much: 1 to 2 ms, after which the loop has its turn. Small
namespaces are done in one step."""


def plan_balance(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """A pass, if one is due or under way; its result stays in `mind.last_pass`."""
    if mind.passing is None:
        if now < mind.next_pass_at:
            _measure(mind)
            return []
        mind.next_pass_at = now + namespace.info.policy.balancer.interval_s
        mind.drop_cooled(now)
        mind.failures.forget_old(now)
        mind.forget_retired(namespace)
        measure_effects(namespace, mind, now, at_ms)
        mind.tempo.pass_begins(now)
        mind.passing = _pass(namespace, mind, now, at_ms)
    result = _one_slice(mind.passing)
    if result is None:
        return []
    mind.passing = None
    skipped = result.skipped or why_held_up(namespace, mind, now, at_ms)
    if skipped or result.plan is None:
        mind.last_pass = Pass(at_ms, None, skipped)
        mind.decisions.passed(PassEntry(at_ms, at_ms, 1, skipped))
        mind.tempo.pass_ends(skipped, None, now)
        return []
    if is_due(namespace, mind, now):
        mind.measuring, mind.measured_at = measuring_hashes(namespace, mind, now), now
    plan = _as_things_are(namespace, result.plan)
    mind.last_pass = Pass(at_ms, plan, rejected=result.rejected)
    is_dry = namespace.info.policy.balancer.mode is BalancerMode.DRY_RUN
    mind.is_descending = not is_dry and (plan.stop is Stop.BUDGET or bool(plan.held_back))
    decision = _decided(mind, result, plan, now, at_ms, is_dry=is_dry)
    blocked = "" if plan.blocked is None else f"{plan.blocked.executor}: {plan.blocked.reason}"
    mind.tempo.pass_ends(plan.stop.value, plan, now)
    mind.decisions.passed(
        PassEntry(at_ms, at_ms, 1, plan.stop.value, len(plan.moves), decision, blocked)
    )
    if not plan.moves or is_dry:
        return []
    shards = namespace.shards
    notes = {move.key: f"{moved(move)} (decision {decision})" for move in plan.moves}
    return [
        StartHandoffs(
            namespace=namespace.info.name,
            moves=tuple(
                HandoffStart(
                    home.key,
                    shards[home.key].epoch,
                    home.executor,
                    Cause.BALANCE,
                    note=notes[home.key],
                )
                for home in some
            ),
            at_ms=at_ms,
        )
        for some in chunks([Placement(move.key, move.target) for move in plan.moves])
    ]


def _decided(
    mind: Mind, result: Pass, plan: Plan, now: float, at_ms: int, *, is_dry: bool
) -> str | None:
    """Keep what was decided, if there was anything; gives its name."""
    if result.plan is None or not plan.moves:
        return None
    kept = {move.key for move in plan.moves}
    decision = Decision(
        id=mind.decisions.new_id(at_ms),
        at_ms=at_ms,
        at=now,
        plan=result.plan,
        is_dry=is_dry,
        rejected=result.rejected,
        left_out=tuple(move.key for move in result.plan.moves if move.key not in kept),
        inputs=result.inputs,
    )
    return mind.decisions.add(decision).id


def why_skipped(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> str:
    """Why no voluntary move may be made now; empty when one may. Looks at every shard."""
    held_up = why_held_up(namespace, mind, now, at_ms)
    if held_up:
        return held_up
    older_than_s = STALE_AFTER_INTERVALS * namespace.info.policy.heartbeat_interval_s
    held = [key for executor in namespace.executors for key in namespace.owned(executor)]
    return if_stale(mind.loads.stale_ratio(held, now, older_than_s))


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


def if_stale(ratio: float) -> str:
    """Why no voluntary move may be made on loads of which so many are stale; empty if they may."""
    return STALE_DATA if ratio > STALE_RATIO_MAX else ""


def _pass(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> Slices[Pass]:
    """The whole pass, in slices."""
    skipped = why_held_up(namespace, mind, now, at_ms)
    if skipped:
        return Pass(at_ms, None, skipped)
    picture = yield from taking_picture(namespace, mind, now)
    skipped = if_stale(picture.stale_ratio)
    if skipped:
        return Pass(at_ms, None, skipped)
    aims = aims_of(namespace, mind, picture, now)
    plan = yield from planning(picture.seats, picture.holdings, aims)
    passed_over = tuple(rejected(picture.seats, picture.holdings, aims, plan))
    yield len(picture.seats) * SEAT_WORK + SLICE_WORK // 2
    inputs = Inputs(picture.seats, picture.holdings, aims)
    if plan.moves and inputs.shards <= INPUT_SHARDS_MAX:
        return Pass(at_ms, plan, "", passed_over, inputs)
    # A million names take 30 ms to let go of at once.
    stacks = dict(picture.holdings.stacks)
    del picture, inputs
    while stacks:
        yield len(stacks.popitem()[1].keys) // 2
    return Pass(at_ms, plan, "", passed_over)


def _measure(mind: Mind) -> None:
    """Go on with the yardstick, if it is being measured: nothing else is to be done just now."""
    if mind.measuring is not None and (found := _one_slice(mind.measuring)) is not None:
        mind.yardstick, mind.measuring = found, None


def _one_slice(slices: Slices[T]) -> T | None:
    """Go on for one slice; the result if that was the end of it."""
    done = 0
    while done < SLICE_WORK:
        try:
            done += next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
    return None


def aims_of(namespace: NamespaceState, mind: Mind, picture: Picture, now: float) -> Aims:
    """How far a pass may go now."""
    aims = aims_without_ramps(namespace, mind, now)
    return replace(aims, ramps=_ramps(picture, ramping(namespace, mind, now)))


def aims_without_ramps(namespace: NamespaceState, mind: Mind, now: float) -> Aims:
    """The same, whatever newcomers may be sent."""
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
