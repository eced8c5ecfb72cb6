"""Shards kept for an executor that restarts: made, used, and ended by time or by an order."""

import pytest

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.rules import reservations
from coordinator.core.shard import Cause, ShardState
from coordinator.core.state import ClusterState
from coordinator.core.types import CloseCause, ExecutorStatus, NamespaceKind, Policy, TargetKind
from tests.core.builders import (
    applied,
    assign,
    close,
    cordon,
    drain,
    end_reservation,
    epoch,
    evict,
    fleet,
    go,
    held,
    join,
    leaving,
    move,
    owners,
    park,
    pin,
    refused,
    retire,
    shard,
    space,
    start,
    undrain,
    unpark,
    update,
)

MINE = ("0", "2")
"""Of two executors and four shards, these are e1's."""


def away(policy: Policy | None = None) -> ClusterState:
    """e1 went and said that it will be back."""
    state = fleet(2, 4, policy=policy or Policy(), kind=NamespaceKind.OPEN)
    assert go(state, "e1").count == 2
    return state


def kept(state: ClusterState) -> list[str]:
    return sorted(space(state).reserved("e1"))


# -- made --------------------------------------------------------------------------------------


def test_the_shards_of_one_that_will_be_back_are_kept_and_nobody_runs_them() -> None:
    state = away()
    assert kept(state) == list(MINE)
    assert owners(state) == {"0": None, "1": "e2", "2": None, "3": "e2"}
    assert not space(state).vacant
    assert {shard(state, key).state for key in MINE} == {ShardState.VACANT}
    reservation = space(state).reservations["e1"]
    assert (reservation.incarnation, reservation.window_s) == ("e1-1", 30.0)


def test_nothing_is_moved_away_from_one_that_will_be_back() -> None:
    state = fleet(2, 4)
    applied(state, leaving("e1", 10))
    record = space(state).executors["e1"]
    assert not space(state).is_emptied(record)
    assert not space(state).accepts(record)
    assert space(state).status_of(record) == "cordoned"
    assert space(state).return_window_s(record) == 10


@pytest.mark.parametrize(
    ("status", "back_within_s", "window_s", "expected"),
    [
        (ExecutorStatus.LEAVING, 10.0, 30.0, 10.0),
        (ExecutorStatus.LEAVING, 600.0, 30.0, 30.0),
        (ExecutorStatus.LEAVING, 10.0, 0.0, 0.0),
        (ExecutorStatus.LEAVING, 0.0, 30.0, 0.0),
        (ExecutorStatus.ACTIVE, 10.0, 30.0, 0.0),
    ],
)
def test_the_window_is_what_was_said_up_to_what_the_policy_allows(
    status: ExecutorStatus, back_within_s: float, window_s: float, expected: float
) -> None:
    state = fleet(1, 1, policy=Policy(return_window_s=window_s))
    applied(state, update("e1", status=status, back_within_s=back_within_s))
    record = space(state).executors["e1"]
    assert space(state).return_window_s(record) == expected
    is_emptied = status is ExecutorStatus.LEAVING and expected == 0.0
    assert space(state).is_emptied(record) is is_emptied


def test_nothing_is_kept_for_one_that_did_not_say_that_it_will_be_back() -> None:
    state = fleet(2, 4)
    applied(state, leaving("e1"))
    applied(state, close("e1", cause=CloseCause.LEFT, reserve_s=30.0))
    assert not space(state).reservations
    assert sorted(space(state).vacant) == list(MINE)


def test_nothing_is_kept_for_one_that_is_drained_or_evicted() -> None:
    for order in (drain("e1"), drain("h1", TargetKind.HOST), evict("e1")):
        state = fleet(2, 4)
        applied(state, leaving("e1", 30))
        applied(state, order)
        cause = CloseCause.EVICTED if order == evict("e1") else CloseCause.LEFT
        applied(state, close("e1", cause=cause, reserve_s=30.0))
        assert not space(state).reservations
        assert sorted(space(state).vacant) == list(MINE)


def test_nothing_is_kept_where_there_is_nothing_to_keep() -> None:
    state = fleet(2, 1)
    applied(state, join("e3"))
    assert go(state, "e3").count == 0
    assert not space(state).reservations


def test_what_was_on_its_way_to_another_arrives_there_and_what_has_a_new_home_goes_there() -> None:
    state = fleet(2, 6)
    start(state, "0", "e2")
    applied(state, leaving("e1", 30))
    applied(state, close("e1", ("2", "e2"), cause=CloseCause.LEFT, reserve_s=30.0))
    assert kept(state) == ["4"]
    assert {shard(state, key).executor for key in MINE} == {"e2"}


def test_a_shard_that_is_parked_or_pinned_elsewhere_is_not_kept() -> None:
    state = fleet(2, 6)
    applied(state, park("0"))
    applied(state, pin("2", "e2"))
    applied(state, pin("4", "e1"))
    go(state, "e1")
    assert kept(state) == ["4"]
    assert sorted(space(state).vacant) == ["2"]
    assert shard(state, "0").state is ShardState.PARKED


def test_there_is_an_end_to_how_many_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "RESERVATIONS_MAX", 1)
    state = away()
    go(state, "e2")
    assert list(space(state).reservations) == ["e1"]
    assert sorted(space(state).vacant) == ["1", "3"]


# -- used --------------------------------------------------------------------------------------


def test_who_is_back_has_its_shards_at_once_under_new_epochs() -> None:
    state = away()
    before = epoch(state)
    applied(state, join("e1", "e1-2"))
    assert held(state, "e1", "e1-2") == dict.fromkeys(MINE, "run")
    assert epoch(state) > before
    assert shard(state).cause is Cause.RESTART
    assert shard(state).previous is None
    assert not space(state).reservations


def test_the_incarnation_that_went_does_not_come_back() -> None:
    state = away()
    assert refused(state, join("e1", "e1-1")).cause == CloseCause.LEFT
    assert kept(state) == list(MINE)


def test_a_cordon_does_not_keep_its_own_shards_from_who_is_back() -> None:
    state = away()
    applied(state, cordon("h1", TargetKind.HOST))
    applied(state, join("e1", "e1-2"))
    assert held(state, "e1", "e1-2") == dict.fromkeys(MINE, "run")


def test_who_is_back_on_a_drained_host_gets_nothing() -> None:
    state = away()
    applied(state, drain("h9", TargetKind.HOST))
    applied(state, join("e1", "e1-2", host="h9"))
    assert held(state, "e1", "e1-2") == {}
    assert sorted(space(state).vacant) == list(MINE)
    assert not space(state).reservations


# -- ended -------------------------------------------------------------------------------------


def test_when_the_window_is_over_anyone_may_have_them() -> None:
    state = away()
    assert applied(state, end_reservation("e1")).count == 2
    assert sorted(space(state).vacant) == list(MINE)
    assert shard(state).previous == "e1"
    assign(state, ("0", "e2"))
    assert shard(state).executor == "e2"


def test_the_end_of_a_window_means_one_incarnation_only() -> None:
    state = away()
    for command in (end_reservation("e1", "e1-0"), end_reservation("e2")):
        assert refused(state, command).reason is c.Reason.CONFLICT
    applied(state, join("e1", "e1-2"))
    assert refused(state, end_reservation("e1")).reason is c.Reason.CONFLICT


def test_a_kept_shard_is_given_to_nobody_else_by_mistake() -> None:
    state = away()
    assert assign(state, ("0", "e2")).count == 0
    assert kept(state) == list(MINE)


@pytest.mark.parametrize(
    "order",
    [drain("e1"), drain("h1", TargetKind.HOST), evict("e1")],
    ids=["drain", "host drain", "evict"],
)
def test_an_order_about_the_executor_ends_its_reservation(order: c.Command) -> None:
    state = away()
    go(state, "e2")
    applied(state, order)
    assert list(space(state).reservations) == ["e2"]
    assert sorted(space(state).vacant) == list(MINE)


def test_a_drain_of_one_that_is_away_holds_when_it_is_back() -> None:
    state = away()
    applied(state, drain("e1"))
    applied(state, join("e1", "e1-2"))
    assert not space(state).accepts(space(state).executors["e1"])
    applied(state, undrain("e1"))
    assert refused(state, drain("e7")).reason is c.Reason.EXECUTOR_NOT_FOUND


def test_an_order_about_a_shard_ends_its_being_kept_and_nothing_elses() -> None:
    state = away()
    applied(state, move("0", "e2"))
    assert (shard(state).executor, shard(state).previous) == ("e2", "e1")
    assert kept(state) == ["2"]
    applied(state, pin("2", "e2"))
    assert kept(state) == []
    assert sorted(space(state).vacant) == ["2"]


def test_a_shard_that_is_parked_or_retired_meanwhile_is_not_kept() -> None:
    state = away()
    applied(state, park("0"))
    applied(state, unpark("0"))
    applied(state, retire("2"))
    assert kept(state) == []
    assert sorted(space(state).vacant) == ["0"]


def test_a_pin_to_who_is_away_keeps_the_shard_for_it() -> None:
    state = away()
    applied(state, pin("0", "e1"))
    assert kept(state) == list(MINE)
    applied(state, join("e1", "e1-2"))
    assert shard(state).executor == "e1"


# -- versions ----------------------------------------------------------------------------------


def newest(state: ClusterState) -> str:
    return space(state).info.newest_version


def test_the_version_that_came_last_is_the_newest_also_when_it_goes_back() -> None:
    state = fleet(0, 2)
    applied(state, join("e1", version="v1"))
    applied(state, join("e2", version="v1"))
    assert newest(state) == "v1"
    applied(state, join("e1", "e1-2", version="v2"))
    assert newest(state) == "v2"
    applied(state, join("e1", "e1-3", version="v1"))
    assert newest(state) == "v1"


def test_a_restart_under_the_same_version_says_nothing_of_what_is_rolled_out() -> None:
    state = fleet(0, 4)
    applied(state, join("e1", version="v1"))
    assign(state, ("0", "e1"))
    applied(state, join("e2", version="v2"))
    applied(state, join("e1", "e1-2", version="v1"))
    assert newest(state) == "v2"
    applied(state, c.InheritShards(namespace="ns", executor="e1", predecessor="e1-1", at_ms=0))
    applied(
        state,
        update("e1", "e1-2", status=ExecutorStatus.LEAVING, back_within_s=9.0, version="v1"),
    )
    applied(state, close("e1", incarnation="e1-2", cause=CloseCause.LEFT, reserve_s=9.0))
    applied(state, join("e1", "e1-3", version="v1"))
    assert newest(state) == "v2"


def test_who_names_no_version_changes_nothing() -> None:
    state = fleet(0, 1)
    applied(state, join("e1", version="v1"))
    applied(state, join("e1", "e1-2"))
    assert newest(state) == "v1"


def test_an_eviction_that_means_another_incarnation_leaves_a_reservation_alone() -> None:
    state = away()
    assert refused(state, evict("e1", "of-before")).reason is Reason.CONFLICT
    assert "e1" in space(state).reservations
    applied(state, evict("e1", space(state).reservations["e1"].incarnation))
    assert not space(state).reservations
