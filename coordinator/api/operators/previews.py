"""What an order would come to, before it is given: load that moves, and room for it.

Decides when a drain is refused for want of room, and which figures a dry run shows. Totals and
placements are the core's; nothing here changes anything.
"""

from collections.abc import Collection
from typing import Any

from coordinator.api.call import Call
from coordinator.api.operators.dry_run_records import RoomView
from coordinator.api.operators.orders import Effect
from coordinator.api.problems import Refusal
from coordinator.api.query import idempotency_key
from coordinator.core.controller import Mind
from coordinator.core.controller.fleet import see
from coordinator.core.controller.room import Room, room_without
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner.whatif import Scene, at_rest, without
from coordinator.forecasts import BusyError


def refuse_overload(call: Call[Any], gone: Collection[str], *, force: bool) -> None:
    """A refusal, if the others have no room for what these executors hold.

    Not of an order that was carried out already: its key has an answer, whatever has changed since.
    """
    key = idempotency_key(call.request.headers)
    if key is not None and call.desk.replica.state.remembers(key):
        return
    overload = _room(call, gone).overload
    if overload and not force:
        raise Refusal("would_overload", overload)


async def emptied(call: Call[Any], gone: Collection[str]) -> Effect:
    """What it comes to when these executors are emptied."""
    room = _room(call, gone)
    before, after, hottest, unplaced = await _placed(call, gone)
    return Effect(
        shards=room.shards,
        moved_load=room.load,
        room=RoomView(
            executors=room.executors,
            capacity=room.capacity,
            mean_before=room.mean_before,
            mean_after=room.mean_after,
            hottest_before=before,
            hottest_after=after,
            hottest_executor=hottest,
            mark=room.mark,
            pinned=room.pinned,
            unplaced=unplaced,
        ),
    )


async def brought(call: Call[Any], key: str, target: str) -> Effect:
    """What it comes to when one shard is brought to an executor."""
    namespace, mind = _view(call)
    fleet = see(namespace, mind, call.desk.clock.monotonic())
    shard, record = namespace.shards.get(key), namespace.executors.get(target)
    if shard is None or record is None:
        return Effect(shards=1)  # the order will be refused, or the executor is away
    load = mind.load_of(shard, fleet.median)
    before = fleet.loads[target]
    is_there = target == (shard.target or shard.executor)
    return Effect(
        shards=1,
        moved_load=0.0 if is_there else load,
        target_before=before / record.profile.capacity,
        target_after=(before if is_there else before + load) / record.profile.capacity,
    )


async def taken_off(call: Call[Any], key: str) -> Effect:
    """What it comes to when nobody runs a shard any more."""
    namespace, mind = _view(call)
    shard = namespace.shards.get(key)
    if shard is None:
        return Effect(shards=1)
    fleet = see(namespace, mind, call.desk.clock.monotonic())
    return Effect(shards=1, moved_load=mind.load_of(shard, fleet.median))


def _view(call: Call[Any]) -> tuple[NamespaceState, Mind]:
    found = call.desk.leader.view(call.namespace_name)
    if found is None:
        raise Refusal("namespace_not_found", f"no namespace {call.namespace_name!r}")
    return found


def _room(call: Call[Any], gone: Collection[str]) -> Room:
    return room_without(*_view(call), gone, call.desk.clock.monotonic())


async def _placed(call: Call[Any], gone: Collection[str]) -> tuple[float, float, str | None, int]:
    """Utilisation of the hottest before and after, who that is, and shards nobody is left for."""
    namespace, mind = _view(call)
    picture = await call.desk.forecasts.picture(namespace, mind)
    scene = at_rest(Scene(picture.seats, picture.holdings))
    try:
        changed = await call.desk.forecasts.beside(lambda: without(scene, gone))
    except BusyError:
        raise Refusal("rate_limited", "a calculation is under way", retry_after_s=1) from None
    before, _ = _hottest(scene)
    after, hottest = _hottest(changed)
    return before, after, hottest, changed.unplaced


def _hottest(scene: Scene) -> tuple[float, str | None]:
    stacks = scene.holdings.stacks
    loads = [
        (stacks[seat.executor].total / seat.capacity, seat.executor)
        for seat in scene.seats
        if seat.executor in stacks
    ]
    return max(loads, key=lambda one: one[0], default=(0.0, None))
