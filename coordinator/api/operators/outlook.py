"""What the planner would do: now, on another fleet, with other settings; and what it did, and why.

Decides what a question means. Calculations are the core's, and `forecasts` keeps them from holding
anything up. Nothing here moves a shard.
"""

from dataclasses import replace
from math import ceil
from typing import Any, Final

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.outlook_answers import (
    capacity_row,
    decision_view,
    pass_row,
    plan_answer,
    seat_view,
)
from coordinator.api.operators.outlook_records import (
    EXECUTORS_MAX,
    CapacityAnswer,
    DecisionAnswer,
    HistoryAnswer,
    WhatIfAnswer,
    WhatIfRequest,
)
from coordinator.api.problems import Refusal, invalid
from coordinator.api.query import choice
from coordinator.core.controller import Mind
from coordinator.core.controller.balance import aims_of, why_skipped
from coordinator.core.controller.decisions import again
from coordinator.core.controller.picture import Picture
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import (
    Aims,
    MoveBudget,
    Outlook,
    Plan,
    Rejection,
    Scene,
    plan_pass,
    rejected,
)
from coordinator.core.planner.whatif import (
    at_rest,
    executors_needed,
    outlook,
    outlooks,
    resized,
    unlimited,
    without,
)
from coordinator.core.types import Policy
from coordinator.forecasts import WORK_MAX, BusyError
from coordinator.policy import PolicyFields, contradictions, merged

LEVELS: Final = {"default": None, "level": (0.20, 0.05), "tight": (0.006, 0.006)}
"""Start and stop gap. `level` is half of the default stop gap; `tight` shows what could be reached
if churn cost nothing."""

TABLE_MAX: Final = 64
"""Rows of a capacity table."""

AROUND: Final = 2
"""Without a range the table has so many executors less and more than there are."""

HELD_MAX: Final = 1_000


async def plan(call: Call[None]) -> web.Response:
    """A pass as it would be now; nothing is moved."""
    namespace, mind = _view(call)
    gaps = LEVELS[choice(call.query, "level", tuple(LEVELS)) or "default"]
    picture = await _picture(call, namespace, mind)
    aims = aims_of(namespace, mind, picture, call.desk.clock.monotonic())
    if gaps is not None:
        aims = replace(aims, start_gap=gaps[0], stop_gap=gaps[1])
    seats, holdings = picture.seats, picture.holdings

    def work() -> tuple[Plan, list[Rejection]]:
        made = plan_pass(seats, holdings, aims)
        return made, rejected(seats, holdings, aims, made)

    made, passed_over = await _beside(call, work)
    desk = call.desk
    skipped = why_skipped(namespace, mind, desk.clock.monotonic(), desk.clock.wall_ms())
    answer = plan_answer(made, aims, passed_over, len(picture.seats), skipped=skipped)
    return call.answer_read(answer, namespace)


async def what_if(call: Call[WhatIfRequest]) -> web.Response:
    """What the planner would do on a fleet that is not there, given time."""
    namespace, mind = _view(call)
    body = call.body
    policy = merged(namespace.info.policy, PolicyFields(balancer=body.policy.balancer))
    for path, message in contradictions(policy):
        raise invalid(f"policy.{path}", message)
    gone = _gone(namespace, body)
    picture = await _picture(call, namespace, mind)
    scene = at_rest(Scene(picture.seats, picture.holdings))
    aims = unlimited(_aims(policy, picture), scene.shards)

    def work() -> tuple[Scene, Outlook, list[Rejection]]:
        changed = without(scene, gone)
        if body.executors is not None:
            changed = resized(changed, body.executors)
        owed = _owed(scene, changed)
        found = outlook(changed, aims, owed=owed)
        return changed, found, rejected(changed.seats, changed.holdings, aims, found.plan)

    changed, found, passed_over = await _beside(call, work)
    balancer = policy.balancer
    budget = MoveBudget(balancer.move_budget_ratio, balancer.budget_window_s, 0.0)
    allowance = budget.allowance(scene.shards)
    moves = len(found.plan.moves)
    answer = WhatIfAnswer(
        executors=found.executors,
        owed=found.owed,
        unplaced=changed.unplaced,
        passes=ceil(moves / allowance) if allowance else 0,
        static_hash=found.hashed.modulo.hottest_utilisation,
        plan=plan_answer(found.plan, aims, passed_over, len(changed.seats)),
    )
    return call.answer_read(answer, namespace)


async def capacity(call: Call[None]) -> web.Response:
    """How many executors it takes, by the same planner."""
    namespace, mind = _view(call)
    picture = await _picture(call, namespace, mind)
    scene = Scene(picture.seats, picture.holdings)
    counts = _counts(call.query.get("executors"), max(1, len(scene.open_seats)), scene.shards)
    aims = _aims(namespace.info.policy, picture)
    table = await _beside(call, lambda: list(outlooks(scene, counts, aims)))
    mark = namespace.info.policy.balancer.high_mark
    rows = [capacity_row(one, mark) for one in table]
    rooms = [seat.capacity for seat in scene.open_seats]
    saturated = [one for one in sorted(namespace.executors) if mind.loads.is_saturated(one)]
    fair = scene.load / len(rooms) if rooms else 0.0
    answer = CapacityAnswer(
        demand=scene.load,
        executors=len(rooms),
        capacity=sum(rooms),
        fair_share=fair,
        floor=max(fair, scene.heaviest),
        heaviest_shard=scene.heaviest,
        high_mark=mark,
        needed=None if mark is None else executors_needed(scene, mark),
        needed_planned=next((row.executors for row in rows if row.is_enough), None),
        lower_bound=bool(saturated),
        saturated=saturated,
        unmeasured_ratio=picture.stale_ratio,
        table=rows,
    )
    return call.answer_read(answer, namespace)


async def history(call: Call[None]) -> web.Response:
    """Passes and decisions of this leader, newest first."""
    namespace, mind = _view(call)
    book = mind.decisions
    answer = HistoryAnswer(
        passes=[pass_row(entry) for entry in reversed(book.history)],
        decisions=[decision_view(one) for one in book.all()],
    )
    return call.answer_read(answer, namespace)


async def decision(call: Call[None]) -> web.Response:
    """One decision, made once more from its inputs."""
    namespace, mind = _view(call)
    wanted = call.path["decision"]
    found = mind.decisions.find(wanted)
    if found is None:
        raise Refusal("decision_not_found", f"no decision {wanted[:64]!r}")
    inputs = found.inputs
    replayed = None
    if inputs is not None:
        replayed = await _beside(call, lambda: again(inputs) == found.plan)
    seats = () if inputs is None else inputs.seats
    aims = Aims(start_gap=0.0, stop_gap=0.0, budget=0) if inputs is None else inputs.aims
    answer = DecisionAnswer(
        decision=decision_view(found),
        plan=plan_answer(found.plan, aims, list(found.rejected), len(seats)),
        left_out=list(found.left_out),
        executors=None if inputs is None else [seat_view(inputs, seat) for seat in inputs.seats],
        held=None
        if inputs is None
        else {key: hold.value for key, hold in sorted(inputs.holdings.holds.items())[:HELD_MAX]},
        replayed=replayed,
    )
    return call.answer_read(answer, namespace)


# -- asking --------------------------------------------------------------------------------------


def _view(call: Call[Any]) -> tuple[NamespaceState, Mind]:
    found = call.desk.leader.view(call.namespace_name)
    if found is None:
        raise Refusal("namespace_not_found", f"no namespace {call.namespace_name!r}")
    return found


async def _picture(call: Call[Any], namespace: NamespaceState, mind: Mind) -> Picture:
    return await call.desk.forecasts.picture(namespace, mind)


async def _beside(call: Call[Any], work: Any) -> Any:
    try:
        return await call.desk.forecasts.beside(work)
    except BusyError:
        raise Refusal("rate_limited", "another calculation is under way", retry_after_s=1) from None


def _gone(namespace: NamespaceState, body: WhatIfRequest) -> frozenset[str]:
    """The executors that are taken away; a name that is nobody's is a mistake."""
    hosts = {record.profile.host for record in namespace.executors.values()}
    for path, names, known in (
        ("without_hosts", body.without_hosts, hosts),
        ("without_executors", body.without_executors, namespace.executors.keys()),
    ):
        for name in names:
            if name not in known:
                raise invalid(path, f"nobody is {name!r}")
    return frozenset(
        record.id
        for record in namespace.executors.values()
        if record.id in body.without_executors or record.profile.host in body.without_hosts
    )


def _counts(text: str | None, present: int, shards: int) -> list[int]:
    """The numbers of executors in the table: `8`, `8-16`, or some around those there are."""
    if text is None:
        lower, upper = max(1, present - AROUND), present + AROUND
    else:
        ends = text.split("-")
        numbers = [int(end) for end in ends if end.isascii() and end.isdigit() and len(end) <= 5]
        if len(numbers) != len(ends) or len(ends) > 2 or not 1 <= numbers[0] <= numbers[-1]:
            raise invalid("executors", "must be a number or a range such as 8-16")
        lower, upper = numbers[0], numbers[-1]
    if upper > EXECUTORS_MAX or upper - lower >= TABLE_MAX:
        raise invalid("executors", f"at most {TABLE_MAX} numbers up to {EXECUTORS_MAX}")
    if (upper - lower + 1) * shards > WORK_MAX and upper > lower:
        most = max(1, WORK_MAX // max(1, shards))
        raise invalid("executors", f"with {shards} shards at most {most} numbers at once")
    return list(range(lower, upper + 1))


def _aims(policy: Policy, picture: Picture) -> Aims:
    """The gaps and costs of a policy; limits of time do not matter to who asks about a fleet."""
    balancer = policy.balancer
    return Aims(
        start_gap=balancer.start_gap,
        stop_gap=balancer.stop_gap,
        budget=len(picture.seats),
        load_cost=balancer.load_cost,
        quiet_mark=balancer.quiet_mark,
    )


def _owed(before: Scene, after: Scene) -> int:
    left = {seat.executor for seat in after.seats}
    stacks = before.holdings.stacks
    return sum(len(stack.keys) for name, stack in stacks.items() if name not in left)
