"""Drains that are through and orders whose time is over, in the rules and in the leader's mind."""

from dataclasses import replace

from coordinator.core import commands as c
from coordinator.core.controller.endings import plan_endings
from coordinator.core.events import Event, EventKind
from coordinator.core.rules.expiry import EXPIRED_MAX
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import TargetKind
from tests.core.builders import (
    AT_MS,
    NS,
    abort,
    applied,
    assign,
    close,
    cordon,
    drain,
    empty,
    fleet,
    join,
    pin,
    release,
    shard,
    space,
    start,
    undrain,
)

ENDS = AT_MS + 1_000
HOST = TargetKind.HOST


def step(state: ClusterState, at_ms: int = AT_MS) -> list[Event]:
    """Do what the leader finds to be over; the events of that."""
    before = len(list(space(state).events))
    for command in plan_endings(space(state), at_ms):
        applied(state, command)
    assert plan_endings(space(state), at_ms) == []
    return list(space(state).events)[before:]


def test_a_drain_is_told_to_be_through_once_and_only_when_nothing_is_left() -> None:
    state = fleet(2, 2)
    applied(state, drain("e1"))
    assert step(state) == []
    start(state, "0", "e2", Cause.DRAIN)
    assert step(state) == []
    release(state)
    (event,) = step(state, AT_MS + 7)
    assert (event.kind, event.executor, event.count) == (EventKind.DRAIN_FINISHED, "e1", 1)
    assert event.detail == space(state).drains[TargetKind.EXECUTOR, "e1"].id
    assert space(state).drains[TargetKind.EXECUTOR, "e1"].finished_ms == AT_MS + 7
    assert step(state) == []


def test_a_host_is_through_when_all_on_it_are_and_a_shard_on_its_way_in_counts() -> None:
    state = fleet(3, 3)
    applied(state, join("e4", host="h1"))
    start(state, "1", "e4")
    applied(state, drain("h1", HOST))
    start(state, "0", "e3", Cause.DRAIN)
    release(state)
    assert step(state) == []
    abort(state, "1")
    (event,) = step(state)
    assert (event.kind, event.host, event.executor) == (EventKind.DRAIN_FINISHED, "h1", None)


def c_claim(state: ClusterState, key: str):
    from coordinator.core.types import Claim

    return Claim(key, shard(state, key).epoch)


def test_a_drain_whose_executor_is_gone_is_through() -> None:
    state = fleet(2, 2)
    applied(state, drain("e1"))
    applied(state, close("e1", ("0", "e2")))
    assert [one.kind for one in step(state)] == [EventKind.DRAIN_FINISHED]


def test_what_is_not_through_when_the_word_comes_is_passed_over() -> None:
    state = fleet(2, 2)
    applied(state, drain("e1"))
    applied(state, drain("h9", HOST))
    targets = ((TargetKind.EXECUTOR, "e1"), (HOST, "h9"), (HOST, "nowhere"))
    finish = c.FinishDrains(namespace=NS, targets=targets, at_ms=AT_MS)
    assert applied(state, finish).count == 1
    assert applied(state, finish).count == 0


def test_orders_end_when_their_time_has_come_and_not_before() -> None:
    state = fleet(2, 2)
    applied(state, replace(drain("e1"), until_ms=ENDS))
    applied(state, replace(cordon("h2", HOST), until_ms=ENDS))
    applied(state, replace(pin("0", "e1", "cache"), until_ms=ENDS))
    applied(state, c.PauseBalancer(namespace=NS, reason="r", by="o", at_ms=AT_MS, until_ms=ENDS))
    assert step(state, ENDS - 1) == []
    told = {one.kind: one for one in step(state, ENDS)}
    assert list(told) == [
        EventKind.DRAIN_ENDED,
        EventKind.CORDON_ENDED,
        EventKind.SHARD_UNPINNED,
        EventKind.BALANCER_RESUMED,
    ]
    assert {(one.cause, one.by) for one in told.values()} == {("expired", "")}
    assert told[EventKind.SHARD_UNPINNED].reason == "cache"
    assert (told[EventKind.CORDON_ENDED].host, told[EventKind.DRAIN_ENDED].executor) == ("h2", "e1")
    assert not [*space(state).drains, *space(state).cordons, *space(state).pinned]
    assert space(state).info.pause is None
    assert not space(state).expiring


def test_orders_without_an_end_stay() -> None:
    state = fleet(2, 2)
    for order in (drain("e1"), cordon("e2"), pin("0", "e1")):
        applied(state, order)
    applied(state, c.PauseBalancer(namespace=NS, reason="r", by="o", at_ms=AT_MS))
    assert applied(state, c.ExpireOrders(namespace=NS, at_ms=2**50)).count == 0
    assert [one.kind for one in step(state, 2**50)] == []


def test_a_pin_that_was_given_anew_has_the_new_end() -> None:
    state = fleet(2, 2)
    applied(state, replace(pin("0", "e1"), until_ms=ENDS))
    applied(state, pin("0", "e1"))
    assert step(state, ENDS) == []
    assert shard(state).pin == "e1"


def test_a_drain_that_was_ended_and_given_again_has_a_finish_of_its_own() -> None:
    state = fleet(2, 2)
    applied(state, drain("h9", HOST))
    assert len(step(state)) == 1
    applied(state, undrain("h9", HOST))
    applied(state, drain("h9", HOST))
    assert len(step(state)) == 1


def test_one_command_ends_so_many_of_each_and_the_next_one_the_rest() -> None:
    state = empty()
    keys = tuple(f"k{number}" for number in range(EXPIRED_MAX + 1))
    applied(state, c.DeclareShards(namespace=NS, keys=keys))
    applied(state, join("e1"))
    assign(state, *((key, "e1") for key in keys))
    for key in keys:
        state.apply(replace(pin(key, "e1"), until_ms=ENDS))
    expire = c.ExpireOrders(namespace=NS, at_ms=ENDS)
    assert [applied(state, expire).count for _ in range(3)] == [EXPIRED_MAX, 1, 0]
