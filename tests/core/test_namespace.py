"""One namespace's tables: what executors are shown, which indices follow, what is wrong."""

from dataclasses import replace

import pytest

from coordinator.core.events import Event, EventKind, position_at
from coordinator.core.invariants import namespace_faults
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import Fate, Shard, ShardState
from coordinator.core.state import ClusterState
from coordinator.core.types import CloseCause, Executor, TargetKind
from coordinator.core.window import ClaimWindow
from tests.core.builders import (
    applied,
    close,
    cordon,
    drain,
    fleet,
    go,
    join,
    overdue,
    pin,
    release,
    shard,
    space,
    start,
    update,
)

# -- what is read ------------------------------------------------------------------------------


def test_a_set_is_the_full_set_by_key_and_empty_for_who_is_not_on_record() -> None:
    state = fleet(2, 4)
    rows = space(state).assignments("e1", "e1-1")
    assert [key for key, _, _ in rows] == ["0", "2"]
    assert space(state).assignments("e1", "other") == []
    assert space(state).assignments("e9", "e9-1") == []


def test_indices_follow_every_change() -> None:
    state = fleet(2, 2)
    assert list(space(state).owned("e1")) == ["0"]
    start(state, "0", "e2")
    assert (list(space(state).incoming("e2")), list(space(state).in_flight)) == (["0"], ["0"])
    release(state)
    assert sorted(space(state).owned("e2")) == ["0", "1"]
    assert list(space(state).owned("e1")) == list(space(state).incoming("e2")) == []
    assert space(state).has_owners
    applied(state, close("e2"))
    assert not space(state).has_owners
    assert sorted(space(state).vacant) == ["0", "1"]


def test_an_order_on_an_executor_comes_before_one_on_its_host() -> None:
    state = fleet(1, 0)
    record = space(state).executors["e1"]
    for order in (drain("h1", TargetKind.HOST), cordon("h1", TargetKind.HOST)):
        applied(state, order)
    assert space(state).drain_of(record) == space(state).drains[TargetKind.HOST, "h1"]
    assert space(state).cordon_of(record) == space(state).cordons[TargetKind.HOST, "h1"]
    for order in (drain("e1"), cordon("e1")):
        applied(state, order)
    assert space(state).drain_of(record) == space(state).drains[TargetKind.EXECUTOR, "e1"]
    assert space(state).cordon_of(record) == space(state).cordons[TargetKind.EXECUTOR, "e1"]


def test_an_order_covers_an_executor_or_all_of_a_host_by_name() -> None:
    state = fleet(2, 0)
    applied(state, join("e3", host="h1"))
    names = {
        target: [one.id for one in space(state).covered(target)]
        for target in (
            (TargetKind.EXECUTOR, "e2"),
            (TargetKind.EXECUTOR, "e9"),
            (TargetKind.HOST, "h1"),
        )
    }
    assert list(names.values()) == [["e2"], [], ["e1", "e3"]]


def test_overdue_shards_are_listed_by_key_for_their_owner_alone() -> None:
    state = fleet(2, 6)
    for key in ("4", "0", "2"):
        start(state, key, "e2")
    for key in ("4", "0"):
        overdue(state, key)
    assert space(state).overdue_of("e1") == ["0", "4"]
    assert space(state).overdue_of("e2") == []


# -- who is woken ------------------------------------------------------------------------------


def test_only_the_executors_whose_sets_change_are_woken() -> None:
    state = fleet(3, 3)
    before = {e: space(state).assignments_revision(e) for e in ("e1", "e2", "e3")}
    start(state, "0", "e2")
    after = {e: space(state).assignments_revision(e) for e in ("e1", "e2", "e3")}
    assert after["e1"] > before["e1"]
    assert after["e3"] == before["e3"]


@pytest.mark.parametrize("order", [pin("0", "e2"), update("e1", zone="b"), drain("e1")])
def test_what_no_set_shows_wakes_no_executor(order: object) -> None:
    state = fleet(2, 2)
    before = space(state).assignments_revision("e1")
    applied(state, order)  # type: ignore[arg-type]
    assert space(state).assignments_revision("e1") == before


def test_an_executor_hears_that_it_was_superseded_or_closed() -> None:
    state = fleet(2, 2)
    before = space(state).revision
    applied(state, join("e1", "e1-2"))
    assert space(state).assignments_revision("e1") > before
    before = space(state).revision
    applied(state, close("e2"))
    assert space(state).assignments_revision("e2") > before


# -- restored ----------------------------------------------------------------------------------


def test_a_restored_namespace_has_the_same_indices_and_says_that_all_may_have_changed() -> None:
    state = fleet(2, 4)
    start(state, "0", "e2")
    applied(state, pin("1", "e2"))
    twin = NamespaceState.from_image(space(state).image())
    assert namespace_faults(twin) == []
    assert list(twin.in_flight) == ["0"]
    assert list(twin.pinned) == ["1"]
    assert twin.assignments_revision("e1") == space(state).revision
    assert twin.ring.floor == space(state).revision


# -- self-checks -------------------------------------------------------------------------------


def broken(state: ClusterState, *shards: Shard) -> list[str]:
    image = space(state).image()
    rest = tuple(one for one in image.shards if one.key not in {s.key for s in shards})
    return namespace_faults(NamespaceState.from_image(replace(image, shards=(*shards, *rest))))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"executor": None}, "owned with owner None"),
        ({"executor": "e9"}, "owned by the unknown e9"),
        ({"epoch": 0}, "owned without an epoch"),
        ({"state": ShardState.RELEASING, "target": "e9"}, "moving to the unknown e9"),
        ({"target": "e2"}, "owned of e1 with target e2"),
        ({"state": ShardState.RELEASING, "target": "e1"}, "releasing of e1 with target e1"),
        ({"state": ShardState.PREPARING}, "preparing without a target"),
        ({"overdue": True}, "overdue while owned"),
        ({"is_warm": True}, "warm while owned"),
        ({"state": ShardState.PARKED}, "parked with owner e1"),
        ({"fate": Fate.RETIRED}, "owned while being retired"),
        ({"reserved": "e2"}, "owned and kept for e2"),
        ({"state": ShardState.VACANT, "executor": None, "reserved": "e9"}, "and kept for e9"),
        ({"state": ShardState.VACANT, "executor": None, "fate": Fate.PARKED}, "vacant with fate"),
    ],
)
def test_a_shard_that_contradicts_itself_is_found(changes: dict[str, object], what: str) -> None:
    state = fleet(2, 2)
    wrong = shard(state).replace(**changes)
    assert any(what in one for one in broken(state, wrong))


def test_an_epoch_given_twice_is_found() -> None:
    state = fleet(1, 2)
    twice = shard(state, "1").replace(epoch=shard(state, "0").epoch)
    assert any("share an epoch" in one for one in broken(state, twice))


def test_an_index_that_lost_its_table_is_found() -> None:
    state = fleet(1, 1)
    space(state).vacant["9"] = None
    assert namespace_faults(space(state)) == ["index vacant disagrees with the tables"]


def test_an_executor_that_waits_for_itself_or_is_over_and_a_bound_below_the_lease_are_found() -> (
    None
):
    state = fleet(2, 0)
    space(state).executors["e1"] = replace(space(state).executors["e1"], predecessor="e1-1")
    space(state).closed["e2", "e2-1"] = CloseCause.EXPIRED
    space(state).info = replace(space(state).info, lease_bound_s=1.0)
    assert namespace_faults(space(state)) == [
        "leases of 10.0 s beyond the bound 1.0",
        "executor 'e1': waits for itself",
        "executor 'e2': on record although expired",
    ]
    assert isinstance(space(state).executors["e1"], Executor)


def test_what_is_kept_for_one_that_is_there_or_while_claims_are_taken_is_found() -> None:
    state = fleet(2, 2)
    go(state, "e1")
    here = space(state)
    here.executors["e1"] = replace(here.executors["e2"], id="e1", incarnation="e1-2")
    here.info = replace(here.info, window=ClaimWindow(lease_s=10.0, epoch_floor=1))
    assert namespace_faults(here) == [
        "shards are kept for somebody while claims to them are taken",
        "executor 'e1': is back, and shards are still kept for it",
    ]


def test_events_out_of_order_or_ahead_of_their_time_are_found() -> None:
    state = fleet(2, 0)
    ring = space(state).events
    ring.load([*ring])
    assert namespace_faults(space(state)) == ["events share ids or are out of order"]
    state = fleet(1, 0)
    late = Event(id=position_at(99), at_ms=0, kind=EventKind.EXECUTOR_JOINED)
    space(state).events.load([late])
    assert namespace_faults(space(state)) == [f"event {late.id} of a revision that is yet to come"]


def test_the_large_tables_are_named_for_whoever_takes_a_namespace_apart() -> None:
    state = fleet(2, 4)
    start(state, "0", "e2")
    keys = sorted(key for table in space(state).tables() for key in table)
    # In the shards, by owner, and the one that moves among those in flight and coming in.
    assert keys == sorted("0123" + "0123" + "0" + "0")


def test_a_view_of_the_whole_state_stays_as_it_was_while_the_state_goes_on() -> None:
    state = fleet(2, 4)
    before, view = state.image(), state.view()
    start(state, "0", "e2")
    assert tuple(view.namespaces[0].shards) == before.namespaces[0].shards
    assert view.next_revision == before.next_revision
