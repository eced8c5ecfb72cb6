"""Events: what each command tells, when it tells nothing, and what is kept of it."""

from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.draft import Draft
from coordinator.core.events import (
    EACH_MAX,
    EVENTS_MAX,
    TEXT_CHARS_MAX,
    Event,
    EventKind,
    EventRing,
    position_at,
    revision_of,
    summed,
)
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    BalancerPolicy,
    Claim,
    CloseCause,
    HandoffStart,
    NamespaceKind,
    Placement,
    Policy,
    TargetKind,
)
from tests.core.builders import (
    AT_MS,
    NS,
    WARM,
    abort,
    ack,
    applied,
    close,
    cordon,
    create,
    drain,
    empty,
    epoch,
    evict,
    finish,
    fleet,
    inherit,
    join,
    leaving,
    move,
    overdue,
    park,
    pin,
    refused,
    release,
    retire,
    set_policy,
    space,
    start,
    uncordon,
    undrain,
    unpark,
    unpin,
    update,
)

K = EventKind


def told(state: ClusterState) -> list[Event]:
    return list(space(state).events)


def news(state: ClusterState, *entries: c.Entry) -> list[Event]:
    """What these commands noted."""
    seen = position_at(space(state).revision)
    for entry in entries:
        applied(state, entry)
    return list(space(state).events.after(seen))


def gist(events: list[Event]) -> list[tuple[object, ...]]:
    return [(e.kind, e.shard, e.executor, e.target, e.cause, e.count) for e in events]


# -- executors ---------------------------------------------------------------------------------


def test_a_join_is_told_with_its_host_and_incarnation() -> None:
    state = empty(3)
    (event,) = news(state, join("e1"))
    assert event == Event(
        id=event.id,
        at_ms=AT_MS,
        kind=K.EXECUTOR_JOINED,
        executor="e1",
        host="h1",
        detail="e1-1",
    )
    assert news(state, join("e1")) == []


def test_a_restart_is_told_and_so_is_when_the_shards_passed_over() -> None:
    state = fleet(1, 3)
    restarted = news(state, join("e1", "e1-2"))
    assert gist(restarted) == [(K.EXECUTOR_RESTARTED, None, "e1", None, "", 3)]
    assert restarted[0].detail == "e1-2 after e1-1"
    assert gist(news(state, inherit("e1"))) == [(K.SHARDS_INHERITED, None, "e1", None, "", 3)]
    proven = news(state, join("e1", "e1-3", dead="e1-2"))
    assert [e.kind for e in proven] == [K.EXECUTOR_RESTARTED, K.SHARDS_INHERITED]


def test_a_loss_and_a_farewell_are_one_event_each_whatever_they_owned() -> None:
    state = fleet(3, 9)
    assert gist(news(state, close("e1", ("0", "e2")))) == [
        (K.EXECUTOR_LOST, None, "e1", None, "expired", 3)
    ]
    assert gist(news(state, close("e2", cause=CloseCause.LEFT))) == [
        (K.EXECUTOR_LEFT, None, "e2", None, "left", 4)
    ]


def test_leaving_is_told_once() -> None:
    state = fleet(2, 4)
    assert gist(news(state, leaving("e1"))) == [(K.EXECUTOR_LEAVING, None, "e1", None, "", 2)]
    assert news(state, leaving("e1")) == []
    stays = update("e1")
    assert gist(news(state, stays, stays)) == [(K.EXECUTOR_STAYING, None, "e1", None, "", 2)]


def test_an_eviction_is_told_with_who_and_why_and_again_when_it_is_through() -> None:
    state = fleet(2, 4)
    order = replace(evict("e1"), by="ops", reason="sick", at_ms=7)
    (event,) = news(state, order)
    assert (event.kind, event.by, event.reason, event.at_ms) == (
        K.EXECUTOR_EVICTED,
        "ops",
        "sick",
        7,
    )
    assert news(state, order) == []
    assert gist(news(state, close("e1", cause=CloseCause.EVICTED))) == [
        (K.EXECUTOR_CLOSED, None, "e1", None, "evicted", 2)
    ]


def test_one_evicted_while_it_waits_is_told_closed_when_its_predecessor_is_over() -> None:
    state = fleet(2, 4)
    applied(state, join("e1", "e1-2"))
    applied(state, evict("e1"))
    assert [e.kind for e in news(state, inherit("e1"))] == [K.EXECUTOR_CLOSED]


def test_what_a_lost_target_was_to_get_stays_and_that_is_told() -> None:
    state = fleet(3, 3)
    start(state, "0", "e2")
    lost = news(state, close("e2"))
    assert (K.HANDOFF_ABORTED, "0", "e1", "e2", "balance", 1) in gist(lost)


# -- shards ------------------------------------------------------------------------------------


def test_many_placements_are_one_event_and_a_single_one_names_its_shard() -> None:
    state = fleet(2, 100, are_placed=False)

    def assign(*keys: int) -> c.AssignShards:
        return c.AssignShards(
            namespace=NS,
            placements=tuple(Placement(str(k), f"e{k % 2 + 1}") for k in keys),
            cause=Cause.PLACED,
            at_ms=AT_MS,
        )

    assert gist(news(state, assign(*range(90)))) == [
        (K.SHARDS_PLACED, None, None, None, "placed", 90)
    ]
    single = news(state, assign(91))
    assert gist(single) == [(K.SHARDS_PLACED, "91", None, "e2", "placed", 1)]
    assert single[0].epoch == epoch(state, "91")
    assert news(state, assign(91)) == []


def test_a_handoff_is_told_at_its_start_and_at_its_end() -> None:
    state = fleet(2, 2)
    begun = news(
        state,
        c.StartHandoffs(
            namespace=NS,
            moves=(HandoffStart("0", epoch(state), "e2", Cause.DRAIN),),
            at_ms=AT_MS,
        ),
    )
    assert gist(begun) == [(K.HANDOFF_STARTED, "0", "e1", "e2", "drain", 1)]
    done = news(state, ack("e1", released=[("0", epoch(state))]))
    assert gist(done) == [(K.HANDOFF_FINISHED, "0", "e1", "e2", "drain", 1)]
    assert done[0].epoch == epoch(state)


def test_an_aborted_handoff_says_why() -> None:
    state = fleet(2, 2, policy=WARM)
    start(state, "0", "e2")
    seen = position_at(space(state).revision)
    abort(state, "0")
    (event,) = space(state).events.after(seen)
    assert (event.kind, event.executor, event.target) == (K.HANDOFF_ABORTED, "e1", "e2")
    assert event.detail


def test_a_target_that_closed_or_could_not_warm_up_is_told() -> None:
    state = fleet(2, 2, policy=WARM)
    start(state, "0", "e2")
    failed = news(state, ack("e2", failed=[("0", epoch(state))]))
    assert [e.kind for e in failed] == [K.START_FAILED, K.HANDOFF_ABORTED]
    start(state, "0", "e2")
    applied(state, cordon("e2"))
    refusal = news(state, ack("e2", prepared=[("0", epoch(state))]))
    assert gist(refusal) == [(K.HANDOFF_ABORTED, "0", "e1", "e2", "balance", 1)]


def test_a_failed_start_names_who_failed() -> None:
    state = fleet(2, 2)
    failed = news(state, ack("e1", failed=[("0", epoch(state))]))
    assert gist(failed) == [(K.START_FAILED, "0", "e1", None, "", 1)]


def test_an_overdue_stop_is_told_and_so_is_its_end() -> None:
    state = fleet(2, 2)
    start(state, "0", "e2")
    seen = position_at(space(state).revision)
    overdue(state)
    overdue(state)
    finish(state)
    assert gist(list(space(state).events.after(seen))) == [
        (K.HANDOFF_OVERDUE, "0", "e1", "e2", "balance", 1),
        (K.HANDOFF_FINISHED, "0", "e1", "e2", "balance", 1),
    ]


def test_an_ordered_move_is_told_with_who_and_why() -> None:
    state = fleet(2, 2)
    order = replace(move("0", "e2"), by="ops", reason="hot")
    events = news(state, order)
    assert gist(events) == [
        (K.MOVE_ORDERED, "0", "e1", "e2", "", 1),
        (K.HANDOFF_STARTED, "0", "e1", "e2", "operator", 1),
    ]
    assert (events[0].by, events[0].reason) == ("ops", "hot")
    assert news(state, order) == []


def test_an_ordered_move_of_a_vacant_shard_is_a_placement() -> None:
    state = fleet(2, 2, are_placed=False)
    assert [e.kind for e in news(state, move("0", "e2"))] == [K.MOVE_ORDERED, K.SHARDS_PLACED]


def test_a_park_is_told_once_and_when_the_owner_has_stopped() -> None:
    state = fleet(2, 2)
    parked = replace(park("0", "poison"), by="ops", at_ms=5)
    (event,) = news(state, parked)
    assert (event.kind, event.by, event.reason, event.at_ms) == (
        K.SHARD_PARKED,
        "ops",
        "poison",
        5,
    )
    assert news(state, parked) == []
    seen = position_at(space(state).revision)
    release(state)
    (stopped,) = space(state).events.after(seen)
    assert (stopped.kind, stopped.target, stopped.detail) == (K.HANDOFF_FINISHED, None, "parked")
    (event,) = news(state, replace(unpark("0"), by="ops", reason="fixed"))
    assert (event.kind, event.by, event.reason) == (K.SHARD_UNPARKED, "ops", "fixed")
    assert news(state, unpark("0")) == []


def test_a_retirement_is_told_once() -> None:
    state = fleet(2, 2, kind=NamespaceKind.OPEN)
    (event,) = news(state, replace(retire("0"), by="ops"))
    assert (event.kind, event.shard, event.by) == (K.SHARD_RETIRED, "0", "ops")
    assert news(state, retire("0")) == []
    seen = position_at(space(state).revision)
    release(state)
    (gone,) = space(state).events.after(seen)
    assert (gone.kind, gone.shard, gone.detail) == (K.HANDOFF_FINISHED, "0", "retired")


def test_pins_are_told_with_who_and_why() -> None:
    state = fleet(2, 2)
    (event,) = news(state, replace(pin("0", "e2"), by="ops"))
    assert (event.kind, event.shard, event.executor, event.target, event.by, event.reason) == (
        K.SHARD_PINNED,
        "0",
        "e1",
        "e2",
        "ops",
        "cache",
    )
    assert news(state, pin("0", "e2")) == []
    assert [e.kind for e in news(state, unpin("0"))] == [K.SHARD_UNPINNED]
    assert news(state, unpin("0")) == []


# -- orders ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "kinds"),
    [
        (drain, undrain, (K.DRAIN_STARTED, K.DRAIN_ENDED)),
        (cordon, uncordon, (K.CORDON_STARTED, K.CORDON_ENDED)),
    ],
)
def test_drains_and_cordons_are_told_once_each_with_their_target(begin, end, kinds) -> None:
    state = fleet(2, 4)
    (event,) = news(state, begin("e1"), begin("e1"))
    assert (event.kind, event.executor, event.host, event.by, event.count) == (
        kinds[0],
        "e1",
        None,
        "ops",
        2,
    )
    over = replace(end("e1"), by="ops", reason="done", at_ms=9)
    (event,) = news(state, over, over)
    assert (event.kind, event.by, event.reason, event.at_ms) == (kinds[1], "ops", "done", 9)
    (event,) = news(state, begin("h2", TargetKind.HOST))
    assert (event.executor, event.host, event.count) == (None, "h2", 2)


def test_a_change_of_policy_says_which_fields_became_what() -> None:
    state = empty(1)
    policy = Policy(lease_ttl_s=5.0, balancer=BalancerPolicy(interval_s=9.0))
    (event,) = news(state, replace(set_policy(policy), by="ops"))
    assert (event.kind, event.by) == (K.POLICY_CHANGED, "ops")
    assert event.detail == "lease_ttl_s 10.0 -> 5.0, balancer.interval_s 5.0 -> 9.0"
    assert news(state, set_policy(policy)) == []


def test_pauses_are_told() -> None:
    state = empty(1)
    pause = c.PauseBalancer(namespace=NS, reason="fair", by="ops", at_ms=1)
    resume = c.ResumeBalancer(namespace=NS, reason="over", by="ops", at_ms=2)
    assert [(e.kind, e.by, e.reason) for e in news(state, pause, pause, resume, resume)] == [
        (K.BALANCER_PAUSED, "ops", "fair"),
        (K.BALANCER_RESUMED, "ops", "over"),
    ]


# -- when nothing is told ----------------------------------------------------------------------


def test_refusals_and_dry_runs_leave_no_event() -> None:
    state = fleet(2, 2)
    before = told(state)
    refused(state, move("0", "e9"))
    refused(state, close("e9"))
    for entry in (move("0", "e2"), park("0"), drain("e1"), join("e9")):
        assert isinstance(state.check(entry), c.Applied)
    assert told(state) == before


def test_an_order_repeated_under_its_key_is_told_once() -> None:
    state = fleet(2, 2)
    once = c.Once(key="k", digest="d", command=move("0", "e2"))
    assert len(news(state, once)) == 2
    assert news(state, once) == []


# -- numbers and bounds ------------------------------------------------------------------------


def test_ids_grow_and_no_two_events_ever_share_one() -> None:
    state = fleet(3, 6)
    start(state, "0", "e2")
    release(state)
    first = told(state)
    applied(state, c.DeleteNamespace(namespace=NS, force=True))
    applied(state, create(NamespaceKind.FIXED, 2))
    applied(state, join("e1"))
    ids = [event.id for event in first + told(state)]
    assert ids == sorted(set(ids))
    assert all(revision_of(event.id) <= space(state).revision for event in told(state))


def test_a_commit_has_a_number_for_as_many_of_each_kind_as_it_may_tell() -> None:
    assert len(EventKind) * EACH_MAX <= position_at(0) + 1


def noted(kind: EventKind, number: int, **changes: object) -> Event:
    return Event(at_ms=AT_MS, kind=kind, shard=str(number), executor="e1", **changes)  # type: ignore[arg-type]


def test_too_many_of_one_kind_become_one_that_says_what_they_share() -> None:
    some = [noted(K.HANDOFF_STARTED, n, target=f"e{n}") for n in range(EACH_MAX)]
    assert summed(some) == some
    one_more = noted(K.HANDOFF_STARTED, EACH_MAX, target="e2")
    other = noted(K.START_FAILED, 1)
    assert summed([*some, other, one_more]) == [
        Event(at_ms=AT_MS, kind=K.HANDOFF_STARTED, executor="e1", count=EACH_MAX + 1),
        other,
    ]


def test_a_command_that_moves_very_many_notes_one_event() -> None:
    state = fleet(2, 500)
    moves = tuple(HandoffStart(k, epoch(state, k), "e2", Cause.DRAIN) for k in held_by(state, "e1"))
    command = c.StartHandoffs(namespace=NS, moves=moves, at_ms=AT_MS)
    assert gist(news(state, command)) == [(K.HANDOFF_STARTED, None, "e1", "e2", "drain", 250)]
    claims = tuple(Claim(k, epoch(state, k)) for k in held_by(state, "e1"))
    done = replace(ack("e1"), released=claims)
    assert gist(news(state, done)) == [(K.HANDOFF_FINISHED, None, "e1", "e2", "drain", 250)]


def held_by(state: ClusterState, executor: str) -> list[str]:
    return sorted(space(state).owned(executor))


def test_what_happens_all_day_does_not_push_out_what_happens_seldom() -> None:
    ring = EventRing()
    ring.add(1, [noted(K.DRAIN_STARTED, 0)])
    for revision in range(2, EVENTS_MAX + 3):
        ring.add(revision, [noted(K.HANDOFF_STARTED, revision)])
    assert len(ring) == EVENTS_MAX + 1
    kinds = [event.kind for event in ring]
    assert kinds[0] is K.DRAIN_STARTED
    assert revision_of(ring.forgotten) == 2
    assert ring.last_revision == EVENTS_MAX + 2
    for revision in range(EVENTS_MAX + 3, 2 * EVENTS_MAX + 3):
        ring.add(revision, [noted(K.DRAIN_STARTED, revision)])
    assert len(ring) == 2 * EVENTS_MAX
    assert revision_of(ring.forgotten) == 2


def test_events_after_a_position_are_those_of_later_commits() -> None:
    ring = EventRing()
    for revision in (5, 9):
        ring.add(revision, [noted(K.SHARD_PARKED, 1), noted(K.HANDOFF_STARTED, 2)])
    ids = [event.id for event in ring]
    assert [revision_of(one) for one in ids] == [5, 5, 9, 9]
    assert [event.id for event in ring.after(ids[0])] == ids[1:]
    assert [event.id for event in ring.after(position_at(5))] == ids[2:]
    assert list(ring.after(position_at(9))) == []


def test_long_texts_are_cut() -> None:
    state = fleet(1, 1)
    draft = Draft(space(state), 1)
    draft.note(K.SHARD_PARKED, AT_MS, reason="x" * 5000, detail="y" * 5000)
    (event,) = draft.events
    assert (len(event.reason), len(event.detail)) == (TEXT_CHARS_MAX, TEXT_CHARS_MAX)


def test_a_namespace_restored_has_its_events_and_knows_that_some_fell_out() -> None:
    state = fleet(2, 4)
    ring = space(state).events
    ring.forgotten = 3
    restored = NamespaceState.from_image(space(state).image())
    assert list(restored.events) == told(state)
    assert (restored.events.forgotten, restored.events.last_revision) == (3, ring.last_revision)
    assert len(restored.events) == len(ring) == 3
