"""How evenly the load lies, and pausing the balancer."""

from typing import Any, Final

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.operators.orders import ordered, until_ms
from coordinator.api.operators.records import (
    BalanceAnswer,
    DominantShard,
    ExecutorShare,
    PassView,
    PauseRequest,
    PauseView,
    PlannedMove,
    ReasonRequest,
)
from coordinator.api.problems import Refusal
from coordinator.core.commands import PauseBalancer, ResumeBalancer
from coordinator.core.controller import Pass, words
from coordinator.core.controller.facts import BalanceFacts
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Move, Plan

SHOWN_MAX: Final = 100
"""Of a list that may be long: enough to see what it is about."""


async def show(call: Call[None]) -> web.Response:
    """The balance as the leader sees it now."""
    return await _shown(call)


async def pause(call: Call[PauseRequest]) -> web.Response:
    """No voluntary moves; owed moves (drains, losses, pins) go on."""
    at_ms, expires_in_s = call.desk.clock.wall_ms(), call.body.expires_in_s
    command = PauseBalancer(
        namespace=call.namespace.info.name,
        reason=call.body.reason,
        by=call.by,
        at_ms=at_ms,
        until_ms=until_ms(at_ms, expires_in_s),
    )
    return await ordered(
        call, command, lambda _: _shown(call), would="make no voluntary moves until resumed"
    )


async def resume(call: Call[ReasonRequest]) -> web.Response:
    """Voluntary moves again."""
    command = ResumeBalancer(
        namespace=call.namespace.info.name,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call, command, lambda _: _shown(call), would="let voluntary moves be made again"
    )


async def _shown(call: Call[Any]) -> web.Response:
    desk = call.desk
    found = desk.leader.view(call.namespace_name)
    if found is None:
        raise Refusal("namespace_not_found", f"no namespace {call.namespace_name!r}")
    at_ms = desk.clock.wall_ms()
    facts = await desk.forecasts.facts(*found, at_ms)
    return call.answer_read(_answer(found[0], facts, at_ms), found[0])


def _answer(namespace: NamespaceState, facts: BalanceFacts, at_ms: int) -> BalanceAnswer:
    figures, bound = facts.figures, facts.bound
    paused = pause_view(namespace, at_ms)
    plan = None if facts.last_pass is None else facts.last_pass.plan
    return BalanceAnswer(
        mode=namespace.info.policy.balancer.mode,
        paused=paused is not None,
        paused_reason="" if paused is None else paused.reason,
        pause=paused,
        executors=_shares(namespace, facts),
        hottest=figures.hottest_utilisation,
        hottest_executor=figures.hottest,
        mean=figures.mean,
        coldest=figures.coldest_utilisation,
        coldest_executor=figures.coldest,
        max_over_mean=figures.max_over_mean,
        spread=figures.spread,
        best_possible=bound.spread,
        gap=max(0.0, figures.spread - bound.spread),
        static_hash=None if facts.hashed is None else facts.hashed.modulo.spread,
        static_ring=None if facts.hashed is None else facts.hashed.ring.spread,
        static_hash_hottest=None
        if facts.hashed is None
        else facts.hashed.modulo.hottest_utilisation,
        dominant=[
            DominantShard(key=shard.key, load=shard.load) for shard in bound.dominant[:SHOWN_MAX]
        ],
        blocked=None if plan is None or plan.blocked is None else plan.blocked.reason.value,
        blocked_why=blocked_why(plan),
        skipped=facts.skipped or None,
        skipped_why=words.SKIPS.get(facts.skipped),
        saturated=list(facts.saturated),
        last_pass=None if facts.last_pass is None else _pass(facts.last_pass),
        in_flight=facts.in_flight,
        unmeasured=facts.unmeasured,
        moves=facts.moves_total,
    )


def pause_view(namespace: NamespaceState, at_ms: int) -> PauseView | None:
    """The pause in force; one that has run out stays on record until resumed or replaced."""
    paused = namespace.info.pause
    if paused is None or (paused.until_ms is not None and paused.until_ms <= at_ms):
        return None
    return PauseView(
        reason=paused.reason,
        by=paused.by,
        since=timestamp(paused.since_ms),
        until=None if paused.until_ms is None else timestamp(paused.until_ms),
    )


def _shares(namespace: NamespaceState, facts: BalanceFacts) -> list[ExecutorShare]:
    total = sum(facts.loads.values())
    return [
        ExecutorShare(
            executor=executor,
            load=load,
            share=load / total if total > 0 else 0.0,
            utilisation=load / facts.capacities[executor],
            shards=len(namespace.owned(executor)),
        )
        for load, executor in sorted(
            ((load, executor) for executor, load in facts.loads.items()), reverse=True
        )
    ]


def _pass(last: Pass) -> PassView:
    plan = last.plan
    return PassView(
        at=timestamp(last.at_ms),
        moves=0 if plan is None else len(plan.moves),
        moved=[] if plan is None else [move_view(move) for move in plan.moves[:SHOWN_MAX]],
        moved_load=0.0 if plan is None else plan.moved_load,
        stopped=last.skipped if plan is None else plan.stop.value,
        spread_before=None if plan is None else plan.before.spread,
        spread_after=None if plan is None else plan.after.spread,
    )


def move_view(move: Move) -> PlannedMove:
    """A move, with what it does in figures and in words."""
    return PlannedMove(
        key=move.key,
        source=move.source,
        target=move.target,
        load=move.load,
        reason=move.reason.value,
        gain=move.gain,
        source_before=move.source_before,
        source_after=move.source_after,
        target_before=move.target_before,
        target_after=move.target_after,
        swap_with=move.swap_with,
        why=words.moved(move),
    )


def blocked_why(plan: Plan | None) -> str | None:
    """Why the hottest executor of a plan stays as hot, in words."""
    if plan is None or plan.blocked is None:
        return None
    return f"{plan.blocked.executor} is not relieved: {words.BLOCKS[plan.blocked.reason]}"
