"""What a picture of a fleet is drawn from: where everything lies, and how even it has been.

Decides how much of it is told: the heaviest shards of each executor, so many in all, and the rest
as a sum. A fleet of any size is one bounded answer.
"""

from collections.abc import Mapping
from heapq import nsmallest
from typing import Any, Final

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.encoding import JSON, encoded
from coordinator.api.operators.balance import blocked_why, pause_view
from coordinator.api.operators.picture_records import (
    Cell,
    ExecutorColumn,
    PlacementAnswer,
    SeriesAnswer,
    SeriesPoint,
)
from coordinator.api.operators.shards import mind_of
from coordinator.api.problems import Refusal
from coordinator.api.query import instant_ms
from coordinator.core.balance_series import BalancePoint
from coordinator.core.controller import Mind, words
from coordinator.core.controller.balance import if_stale, why_held_up
from coordinator.core.controller.facts import HASHED_MAX
from coordinator.core.controller.hashed import is_due
from coordinator.core.controller.picture import Picture
from coordinator.core.controller.sampling import BOUND_MAX, SAMPLE_S, note_figures
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import FleetFigures, Hold, Slices, Stack, fleet_figures, measuring
from coordinator.core.planner.bound import bound_slices
from coordinator.core.planner.slices import SEAT_WORK
from coordinator.forecasts import in_turns

CELLS_MAX: Final = 3_000
"""Shards that are told one by one: some 100 KB, and more than a screen shows apart."""

CELLS_EACH_MAX: Final = 400
"""Of one executor: a fleet of few is not told more than can be told apart either."""


async def placement(call: Call[None]) -> web.Response:
    """Where everything lies now; the same answer for all who ask within a moment."""
    found = call.desk.leader.view(call.namespace_name)
    if found is None:
        raise Refusal("namespace_not_found", f"no namespace {call.namespace_name!r}")
    namespace, mind = found
    name = (namespace.info.name, namespace.info.created_revision)
    body = await call.desk.kept.of(name, lambda: _drawn(call, namespace, mind))
    headers = {"Content-Type": JSON, **call.freshness(namespace)}
    return web.Response(body=body, headers=headers)


async def series(call: Call[None]) -> web.Response:
    """How even it has been; without a leader as far as every node knows."""
    namespace = call.namespace
    text = call.query.get("since")
    since_ms = -1 if text is None else instant_ms(text, "since")
    past = namespace.loads.past
    mind = mind_of(call, namespace)
    if mind is None:
        points = [one for one in past if one.at_ms > since_ms]
    else:
        points = mind.recent.behind(past, since_ms)
    return call.answer_read(SeriesAnswer(points=[_point(one) for one in points]), namespace)


def _point(point: BalancePoint) -> SeriesPoint:
    return SeriesPoint(
        at=timestamp(point.at_ms),
        hottest=point.hottest,
        mean=point.mean,
        coldest=point.coldest,
        spread=point.spread,
        best_possible=point.best_possible,
        static_hash=point.static_hash,
        executors=point.executors,
    )


# -- drawing -------------------------------------------------------------------------------------


async def _drawn(call: Call[Any], namespace: NamespaceState, mind: Mind) -> bytes:
    """The answer as bytes, made in slices: heartbeats are answered in between."""
    picture = await call.desk.forecasts.picture(namespace, mind)
    answer = await in_turns(_drawing(call, namespace, mind, picture))
    return encoded(answer, as_msgpack=False)


def _drawing(
    call: Call[Any], namespace: NamespaceState, mind: Mind, picture: Picture
) -> Slices[PlacementAnswer]:
    clock = call.desk.clock
    now, at_ms = clock.monotonic(), clock.wall_ms()
    stacks = picture.holdings.stacks
    rooms = {seat.executor: seat.capacity for seat in picture.seats if seat.is_open}
    if _is_worth_hashing(namespace, mind, now):
        measured = yield from measuring(stacks.values(), rooms)
        mind.yardstick, mind.measured_at = measured, now
    bound = yield from bound_slices([*stacks.values()], [*rooms.values()])
    columns = yield from _columns(namespace, mind, picture, now)
    figures = _figures(picture)
    if len(mind.loads):
        note_figures(namespace, mind, figures, bound.max, now=now, at_ms=at_ms)
    holds = [*picture.holdings.holds.values()]
    policy = namespace.info.policy.balancer
    plan = None if mind.last_pass is None else mind.last_pass.plan
    held_up = why_held_up(namespace, mind, now, at_ms)
    skipped = held_up or if_stale(picture.stale_ratio)
    reserved = sum(len(namespace.reserved(one)) for one in namespace.reservations)
    vacant = len(namespace.vacant) + reserved
    held = sum(len(namespace.owned(one)) for one in namespace.executors)
    return PlacementAnswer(
        at=timestamp(at_ms),
        hottest=figures.hottest_utilisation,
        hottest_executor=figures.hottest,
        mean=figures.mean,
        coldest=figures.coldest_utilisation,
        coldest_executor=figures.coldest,
        spread=figures.spread,
        best_possible=bound.spread,
        best_possible_hottest=bound.max,
        static_hash_hottest=None
        if mind.yardstick is None
        else mind.yardstick.modulo.hottest_utilisation,
        start_gap=policy.start_gap,
        high_mark=policy.high_mark,
        quiet_mark=policy.quiet_mark,
        mode=policy.mode,
        pause=pause_view(namespace, at_ms),
        skipped=skipped or None,
        skipped_why=words.SKIPS.get(skipped),
        blocked=None if plan is None or plan.blocked is None else plan.blocked.reason.value,
        blocked_why=blocked_why(plan),
        shards=len(namespace.shards),
        vacant=vacant,
        reserved=reserved,
        parked=len(namespace.shards) - held - vacant,
        pinned=len(namespace.pinned),
        in_flight=len(namespace.in_flight),
        cooling=holds.count(Hold.COOLDOWN),
        unmeasured=holds.count(Hold.UNMEASURED),
        moves=dict(mind.moves_total),
        executors=columns,
    )


def _is_worth_hashing(namespace: NamespaceState, mind: Mind, now: float) -> bool:
    """Of few shards whenever somebody looks; of more once a minute; of many, passes measure it."""
    if not len(mind.loads) or len(namespace.shards) > HASHED_MAX:
        return False
    is_old = now - mind.measured_at >= SAMPLE_S
    return (is_old and len(namespace.shards) <= BOUND_MAX) or is_due(namespace, mind, now)


def _columns(
    namespace: NamespaceState, mind: Mind, picture: Picture, now: float
) -> Slices[list[ExecutorColumn]]:
    each = max(1, min(CELLS_EACH_MAX, CELLS_MAX // max(1, len(picture.seats))))
    ttl_s = namespace.info.policy.lease_ttl_s
    columns: list[ExecutorColumn] = []
    for seat in picture.seats:
        record = namespace.executors.get(seat.executor)
        if record is None:  # gone since its picture was taken
            continue
        stack = picture.holdings.stacks[seat.executor]
        cells = _cells(stack, picture.holdings.holds, each)
        columns.append(
            ExecutorColumn(
                executor=seat.executor,
                host=record.profile.host,
                status=namespace.status_of(record),
                capacity=seat.capacity,
                load=stack.total,
                utilisation=stack.total / seat.capacity,
                shards=len(stack.keys),
                heartbeat_age_s=mind.leases.silent_for(seat.executor, now),
                silent=mind.leases.is_silent(seat.executor, ttl_s, now),
                may_receive=seat.is_open,
                saturated=mind.loads.is_saturated(seat.executor),
                cells=cells,
                rest=len(stack.keys) - len(cells),
                rest_load=max(0.0, stack.total - sum(load for _, load, _ in cells)),
            )
        )
        yield _SORTING * len(stack.keys) + SEAT_WORK
    return columns


_SORTING: Final = 4
"""To find the heaviest of an executor's shards takes so many times as long as to count them."""


def _cells(stack: Stack, holds: Mapping[str, Hold], count: int) -> list[Cell]:
    """The heaviest shards of an executor, heaviest first, those as heavy by key."""
    pairs = ((-load, key) for load, key in zip(stack.loads, stack.keys, strict=True))
    heaviest = sorted(pairs) if len(stack.keys) <= count else nsmallest(count, pairs)
    return [(key, -load, holds[key].value if key in holds else "") for load, key in heaviest]


def _figures(picture: Picture) -> FleetFigures:
    """How even it is, counting whom `GET …/balance` counts."""
    totals = {seat.executor: picture.holdings.stacks[seat.executor].total for seat in picture.seats}
    counted = [seat for seat in picture.seats if seat.is_open or totals[seat.executor] > 0]
    return fleet_figures(
        {seat.executor: totals[seat.executor] for seat in counted},
        {seat.executor: seat.capacity for seat in counted},
    )
