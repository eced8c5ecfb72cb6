"""Orders that are taken back: the state is as before, or the reason why not is said."""

from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.events import Event, EventKind
from coordinator.core.shard import Cause, ShardState
from coordinator.core.state import ClusterState
from coordinator.core.types import Pause, Policy, TargetKind
from tests.core.builders import (
    AT_MS,
    NS,
    WARM,
    applied,
    assign,
    close,
    cordon,
    drain,
    empty,
    epoch,
    evict,
    fleet,
    join,
    move,
    park,
    pin,
    refused,
    release,
    retire,
    set_policy,
    shard,
    space,
    start,
    uncordon,
    undrain,
    unpark,
    unpin,
)

LATER = AT_MS + 60_000


def order(state: ClusterState, entry: c.Entry) -> Event:
    """Give an order; the event that tells of it."""
    applied(state, entry)
    return next(one for one in reversed(list(space(state).events)) if one.former is not None)


def undo(event: Event | int, reason: str = "") -> c.UndoOrder:
    number = event if isinstance(event, int) else event.id
    return c.UndoOrder(namespace=NS, event=number, reason=reason, by="ops", at_ms=LATER)


def taken_back(state: ClusterState, event: Event, reason: str = "") -> Event:
    """Take an order back; the event that tells of that."""
    told = order(state, undo(event, reason))
    assert (told.undoes, told.by, told.at_ms) == (event.id, "ops", LATER)
    return told


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (drain("e1"), EventKind.DRAIN_ENDED),
        (drain("h1", TargetKind.HOST), EventKind.DRAIN_ENDED),
        (cordon("e1"), EventKind.CORDON_ENDED),
        (cordon("h1", TargetKind.HOST), EventKind.CORDON_ENDED),
    ],
)
def test_a_drain_or_a_cordon_is_ended_and_given_again(given: c.Command, kind: EventKind) -> None:
    state = fleet(2, 2)
    event = order(state, given)
    stood = (dict(space(state).drains), dict(space(state).cordons))
    told = taken_back(state, event, "wrong host")
    assert (told.kind, told.reason) == (kind, "wrong host")
    assert not space(state).drains
    assert not space(state).cordons
    again = taken_back(state, told)
    assert (again.executor, again.host, again.reason) == (event.executor, event.host, event.reason)
    for before, now in zip(stood, (space(state).drains, space(state).cordons), strict=True):
        assert {t: replace(one, by="", since_ms=0) for t, one in before.items()} == {
            t: replace(one, by="", since_ms=0) for t, one in now.items()
        }


def test_an_undrain_taken_back_drains_under_the_same_id() -> None:
    state = fleet(2, 2)
    first = order(state, drain("e1"))
    ended = order(state, undrain("e1"))
    assert first.detail == ended.detail
    taken_back(state, ended)
    assert space(state).drains[TargetKind.EXECUTOR, "e1"].id == first.detail


@pytest.mark.parametrize(("begin", "end"), [(drain, undrain), (cordon, uncordon)])
def test_what_would_be_over_by_now_is_not_begun_again(begin, end) -> None:
    state = fleet(2, 2)
    applied(state, replace(begin("e1"), until_ms=LATER))
    ended = order(state, end("e1"))
    refusal = refused(state, undo(ended))
    assert refusal.reason is Reason.CONFLICT
    assert "over by now" in refusal.detail


def test_a_parked_shard_runs_again_and_is_parked_again() -> None:
    state = fleet(2, 2)
    event = order(state, park("0", "poison"))
    release(state)
    told = taken_back(state, event)
    assert told.kind is EventKind.SHARD_UNPARKED
    assert shard(state).state is ShardState.VACANT
    again = taken_back(state, told)
    assert (again.kind, shard(state).note) == (EventKind.SHARD_PARKED, "poison")


def test_a_pin_gives_way_to_the_one_before_it_or_to_none() -> None:
    state = fleet(3, 3)
    first = order(state, replace(pin("0", "e2", "cache"), until_ms=LATER + 1))
    second = order(state, pin("0", "e3", "wrong"))
    told = taken_back(state, second)
    now = shard(state)
    assert (told.kind, told.target) == (EventKind.SHARD_PINNED, "e2")
    assert (now.pin, now.pin_note, now.pin_until_ms) == ("e2", "cache", LATER + 1)
    assert "came after it" in refused(state, undo(first)).detail
    off = order(state, unpin("0"))
    assert taken_back(state, off).kind is EventKind.SHARD_PINNED
    assert shard(state).pin == "e2"
    alone = order(state, pin("1", "e1"))
    assert taken_back(state, alone).kind is EventKind.SHARD_UNPINNED
    assert shard(state, "1").pin is None


def test_a_pin_that_would_be_over_or_whose_executor_is_gone_is_not_put_back() -> None:
    state = fleet(3, 3)
    applied(state, replace(pin("0", "e2"), until_ms=LATER))
    assert "over by now" in refused(state, undo(order(state, unpin("0")))).detail
    applied(state, pin("0", "e3"))
    off = order(state, unpin("0"))
    applied(state, close("e3"))
    assert refused(state, undo(off)).reason is Reason.EXECUTOR_NOT_FOUND


def test_a_move_goes_back_by_handoff_when_it_is_through() -> None:
    state = fleet(2, 2)
    owner = shard(state).executor
    assert owner == "e1"
    event = order(state, move("0", "e2"))
    release(state)
    assert shard(state).executor == "e2"
    told = taken_back(state, event, "it was fine there")
    assert (told.kind, told.executor, told.target) == (EventKind.MOVE_ORDERED, "e2", "e1")
    release(state)
    assert shard(state).executor == "e1"


@pytest.mark.parametrize("policy", [Policy(), WARM])
def test_a_move_under_way_ends_in_favour_of_its_owner(policy: Policy) -> None:
    state = fleet(2, 2, policy=policy)
    before = epoch(state)
    event = order(state, move("0", "e2"))
    told = taken_back(state, event)
    assert (told.executor, told.target) == ("e2", "e1")
    assert (shard(state).state, shard(state).executor) == (ShardState.OWNED, "e1")
    # Who may have stopped it starts it anew, under an epoch that says so.
    assert (epoch(state) > before) == (policy is not WARM)
    assert [one.kind for one in list(space(state).events)[-2:]] == [
        EventKind.MOVE_ORDERED,
        EventKind.HANDOFF_ABORTED,
    ]


def test_a_move_is_not_taken_back_when_the_shard_is_elsewhere_by_now() -> None:
    state = fleet(3, 3)
    event = order(state, move("0", "e2"))
    release(state)
    start(state, "0", "e3", Cause.BALANCE)
    release(state)
    refusal = refused(state, undo(event))
    assert (refusal.reason, refusal.detail) == (
        Reason.CONFLICT,
        "'0' is on 'e3' by now, not on 'e2'",
    )
    applied(state, close("e3"))
    assert "'0' is vacant by now" in refused(state, undo(event)).detail


def test_a_move_is_not_taken_back_to_nobody_or_to_who_is_gone() -> None:
    state = fleet(2, 2, are_placed=False)
    event = order(state, move("0", "e2"))
    assert "nobody owned '0'" in refused(state, undo(event)).detail
    assign(state, ("1", "e1"))
    event = order(state, move("1", "e2"))
    release(state, "1")
    applied(state, close("e1"))
    assert refused(state, undo(event)).reason is Reason.EXECUTOR_NOT_FOUND


def test_orders_about_a_shard_that_was_retired_cannot_be_taken_back() -> None:
    state = empty()
    applied(state, c.DeclareShards(namespace=NS, keys=("a",)))
    applied(state, join("e1"))
    applied(state, join("e2"))
    assign(state, ("a", "e1"))
    events = [order(state, pin("a", "e1")), order(state, unpin("a")), order(state, move("a", "e2"))]
    events += [order(state, park("a"))]
    release(state, "a")
    events += [order(state, unpark("a"))]
    applied(state, retire("a"))
    for event in events[1:3] + events[4:]:
        assert refused(state, undo(event)).reason is Reason.SHARD_NOT_FOUND


def pause(until_ms: int | None = None, at_ms: int = AT_MS, reason: str = "r") -> c.PauseBalancer:
    return c.PauseBalancer(namespace=NS, reason=reason, by="me", at_ms=at_ms, until_ms=until_ms)


RESUME = c.ResumeBalancer(namespace=NS, by="me", at_ms=AT_MS)


def test_a_pause_and_a_resume_are_taken_back() -> None:
    state = empty()
    event = order(state, pause())
    told = taken_back(state, event)
    assert (told.kind, space(state).info.pause) == (EventKind.BALANCER_RESUMED, None)
    taken_back(state, told)
    assert space(state).info.pause == Pause(reason="r", by="ops", since_ms=LATER)


def test_a_pause_gives_way_to_the_one_before_it_unless_that_would_be_over() -> None:
    state = empty()
    applied(state, pause(LATER + 1, reason="long"))
    event = order(state, pause(None, AT_MS + 1))
    taken_back(state, event)
    assert space(state).info.pause == Pause(
        reason="long", by="ops", since_ms=LATER, until_ms=LATER + 1
    )
    applied(state, pause(LATER, reason="short"))
    event = order(state, pause(None, AT_MS + 2))
    assert taken_back(state, event).kind is EventKind.BALANCER_RESUMED
    applied(state, pause(LATER))
    assert "over by now" in refused(state, undo(order(state, RESUME))).detail


def test_a_policy_is_as_before_unless_it_was_changed_since() -> None:
    state = empty(policy=Policy(lease_ttl_s=10.0))
    event = order(state, set_policy(Policy(lease_ttl_s=5.0)))
    told = taken_back(state, event, "too short")
    assert space(state).info.policy == Policy(lease_ttl_s=10.0)
    assert (told.reason, told.detail) == ("too short", "lease_ttl_s 5.0 -> 10.0")
    assert space(state).info.policy_version == 3
    refusal = refused(state, undo(event))
    assert (refusal.reason, f"event {told.id}" in refusal.detail) == (Reason.CONFLICT, True)


def test_only_orders_are_taken_back_and_only_such_as_can_be() -> None:
    state = fleet(2, 2)
    assert refused(state, undo(1)).reason is Reason.EVENT_NOT_FOUND
    joined = next(iter(space(state).events))
    assert refused(state, undo(joined)).reason is Reason.CONFLICT
    applied(state, evict("e1"))
    evicted = list(space(state).events)[-1]
    assert evicted.kind is EventKind.EXECUTOR_EVICTED
    assert "no order that can be taken back" in refused(state, undo(evicted)).detail


def test_an_order_that_ended_by_itself_is_not_taken_back() -> None:
    state = fleet(2, 2)
    event = order(state, replace(drain("e1"), until_ms=AT_MS + 1))
    applied(state, c.ExpireOrders(namespace=NS, at_ms=AT_MS + 1))
    assert "(drain_ended) came after it" in refused(state, undo(event)).detail


def test_orders_about_other_things_in_between_do_not_matter() -> None:
    state = fleet(2, 4)
    event = order(state, pin("0", "e1"))
    for other in (pin("1", "e1"), park("0"), cordon("e1"), drain("e2"), pause(), move("2", "e2")):
        state.apply(other)
    taken_back(state, event)
    assert shard(state).pin is None


def test_a_dry_run_of_an_undo_changes_nothing() -> None:
    state = fleet(2, 2)
    event = order(state, pin("0", "e1"))
    before = state.image()
    assert state.check(undo(event)) == c.Applied(resource="0")
    assert state.image() == before


def test_what_was_ordered_and_is_over_in_some_other_way_is_said_to_be() -> None:
    state = fleet(2, 2)
    event = order(state, park("0"))
    release(state)
    space(state).shards["0"] = shard(state).replace(fate=None, state=ShardState.VACANT)
    space(state).vacant["0"] = None
    assert "is over" in refused(state, undo(event)).detail
