"""How a shard gets an owner and changes hands, and that late or strange words change nothing."""

import pytest

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.shard import Cause, ShardState
from coordinator.core.state import ClusterState
from coordinator.core.types import Claim, HandoffStart, NamespaceKind
from tests.core.builders import (
    AT_MS,
    NS,
    PLAIN,
    WARM,
    abort,
    ack,
    applied,
    assign,
    cordon,
    drain,
    epoch,
    evict,
    finish,
    fleet,
    held,
    move,
    overdue,
    owners,
    park,
    pin,
    refused,
    release,
    retire,
    set_policy,
    shard,
    space,
    start,
    unpark,
)


def handing_over(*, warmup: bool = False) -> ClusterState:
    """Shard 0 goes from e1 to e2; e3 stands by."""
    state = fleet(3, 1, policy=WARM if warmup else PLAIN)
    assert owners(state) == {"0": "e1"}
    assert start(state, "0", "e2") == 1
    return state


# -- assignment --------------------------------------------------------------------------------


def test_vacant_shards_get_owners_and_growing_epochs() -> None:
    state = fleet(2, 3, are_placed=False)
    outcome = assign(state, ("0", "e1"), ("1", "e2"), ("2", "e1"))
    assert outcome.count == 3
    assert owners(state) == {"0": "e1", "1": "e2", "2": "e1"}
    assert epoch(state, "0") < epoch(state, "1") < epoch(state, "2")


def test_a_placement_that_fits_no_more_is_skipped_and_the_others_are_made() -> None:
    state = fleet(2, 3, are_placed=False)
    assign(state, ("0", "e1"))
    applied(state, cordon("e2"))
    before = epoch(state)
    outcome = assign(state, ("0", "e2"), ("9", "e1"), ("1", "e2"), ("2", "e1"), ("2", "e1"))
    assert outcome.count == 1
    assert owners(state) == {"0": "e1", "1": None, "2": "e1"}
    assert epoch(state) == before


def test_an_assignment_that_changes_nothing_makes_no_revision() -> None:
    state = fleet(1, 1)
    revision = space(state).revision
    assert assign(state, ("0", "e1")).count == 0
    assert space(state).revision == revision


# -- the ordinary handoff ----------------------------------------------------------------------


def test_without_warm_up_the_owner_is_asked_to_stop_and_the_target_waits() -> None:
    state = handing_over()
    assert held(state, "e1") == {"0": "release"}
    assert held(state, "e2") == {}


def test_with_warm_up_the_owner_serves_on_until_the_target_is_ready() -> None:
    state = handing_over(warmup=True)
    assert (held(state, "e1"), held(state, "e2")) == ({"0": "run"}, {"0": "prepare"})
    assert applied(state, ack("e2", prepared=[("0", epoch(state))])).count == 1
    assert (held(state, "e1"), held(state, "e2")) == ({"0": "release"}, {"0": "prepare"})
    release(state)
    assert (held(state, "e1"), held(state, "e2")) == ({}, {"0": "run"})


def test_the_acknowledged_stop_gives_the_shard_to_the_target_under_a_new_epoch() -> None:
    state = handing_over()
    before = epoch(state)
    assert release(state) == 1
    after = shard(state)
    assert (after.state, after.executor, after.target) == (ShardState.OWNED, "e2", None)
    assert (after.cause, after.next_cause, after.previous) == (Cause.BALANCE, None, "e1")
    assert after.epoch > before


def test_a_move_begins_only_for_the_epoch_it_was_planned_for() -> None:
    state = fleet(2, 1)
    stale = HandoffStart("0", epoch(state) - 1, "e2", Cause.BALANCE)
    unknown = HandoffStart("9", 1, "e2", Cause.BALANCE)
    outcome = applied(state, c.StartHandoffs(namespace=NS, moves=(stale, unknown)))
    assert outcome.count == 0
    assert shard(state).state is ShardState.OWNED


@pytest.mark.parametrize("order", [cordon("e2"), drain("e2"), evict("e2")])
def test_no_move_begins_towards_an_executor_that_takes_no_shards(order: c.Command) -> None:
    state = fleet(2, 1)
    applied(state, order)
    assert start(state, "0", "e2") == 0
    assert start(state, "0", "e1") == 0


def test_a_pinned_shard_is_never_moved_for_balance_but_is_for_a_drain_or_towards_its_pin() -> None:
    state = fleet(3, 1)
    applied(state, pin("0", "e1"))
    assert start(state, "0", "e2", Cause.BALANCE) == 0
    assert start(state, "0", "e2", Cause.DRAIN) == 1
    release(state)
    assert start(state, "0", "e1", Cause.BALANCE) == 1


def test_a_target_that_was_closed_to_shards_while_it_warmed_up_gets_nothing() -> None:
    state = handing_over(warmup=True)
    before = epoch(state)
    applied(state, cordon("e2"))
    applied(state, ack("e2", prepared=[("0", before)]))
    assert held(state, "e1") == {"0": "run"}
    assert epoch(state) == before


def test_a_target_that_was_closed_to_shards_during_the_stop_leaves_the_shard_vacant() -> None:
    state = handing_over()
    applied(state, cordon("e2"))
    release(state)
    assert sorted(space(state).vacant) == ["0"]
    assert shard(state).previous == "e1"


def test_a_policy_that_changes_during_a_handoff_changes_nobodys_set() -> None:
    warm, cold = handing_over(warmup=True), handing_over()
    applied(warm, ack("e2", prepared=[("0", epoch(warm))]))
    for state, policy in ((warm, PLAIN), (cold, WARM)):
        before = held(state, "e1"), held(state, "e2")
        applied(state, set_policy(policy))
        assert (held(state, "e1"), held(state, "e2")) == before
    assert held(warm, "e2") == {"0": "prepare"}
    applied(warm, park("0"))
    assert held(warm, "e2") == {}


# -- words that count for nothing --------------------------------------------------------------


def test_an_acknowledgement_repeated_or_late_changes_nothing() -> None:
    state = handing_over()
    old = epoch(state)
    release(state)
    image = space(state).image()
    assert applied(state, ack("e1", released=[("0", old)])).count == 0
    assert applied(state, ack("e2", prepared=[("0", old)])).count == 0
    assert applied(state, ack("e1", failed=[("0", old)])).count == 0
    assert space(state).image() == image


def test_only_the_owners_word_ends_its_ownership() -> None:
    state = handing_over()
    claim = [("0", epoch(state))]
    assert applied(state, ack("e2", released=claim)).count == 0
    assert applied(state, ack("e3", released=claim, prepared=claim, failed=claim)).count == 0
    assert shard(state).executor == "e1"


def test_a_stop_that_nobody_asked_for_is_not_taken_for_one() -> None:
    state = fleet(1, 1)
    assert applied(state, ack("e1", released=[("0", epoch(state))])).count == 0
    state = handing_over(warmup=True)
    assert applied(state, ack("e1", released=[("0", epoch(state))])).count == 0
    assert shard(state).state is ShardState.PREPARING


def test_a_warm_up_acknowledged_twice_or_by_another_does_not_count() -> None:
    state = handing_over(warmup=True)
    claim = [("0", epoch(state))]
    assert applied(state, ack("e3", prepared=claim)).count == 0
    assert applied(state, ack("e2", prepared=[*claim, *claim])).count == 1
    assert shard(state).state is ShardState.RELEASING


def test_words_on_a_shard_that_is_no_more_change_nothing() -> None:
    state = fleet(1, 0)
    claim = [("9", 1)]
    assert applied(state, ack("e1", released=claim, prepared=claim, failed=claim)).count == 0


# -- failures ----------------------------------------------------------------------------------


def test_a_failed_start_sets_the_shard_free_and_remembers_where_it_failed() -> None:
    state = fleet(2, 1)
    owner = shard(state).executor or ""
    assert applied(state, ack(owner, failed=[("0", epoch(state))])).count == 1
    after = shard(state)
    assert (after.state, after.cause, after.previous) == (ShardState.VACANT, Cause.FAILED, owner)


def test_a_failed_warm_up_leaves_the_shard_where_it_serves() -> None:
    state = handing_over(warmup=True)
    before = epoch(state)
    assert applied(state, ack("e2", failed=[("0", before)])).count == 1
    assert held(state, "e1") == {"0": "run"}
    assert epoch(state) == before


@pytest.mark.parametrize("warmup", [True, False])
def test_an_owner_that_could_not_start_has_nothing_to_stop(warmup: bool) -> None:  # noqa: FBT001 - a parameter of the test
    state = handing_over(warmup=warmup)
    assert applied(state, ack("e1", failed=[("0", epoch(state))])).count == 1
    assert owners(state) == {"0": "e2"}


def test_a_target_cannot_fail_what_it_has_not_been_given() -> None:
    state = handing_over()
    assert applied(state, ack("e2", failed=[("0", epoch(state))])).count == 0
    assert shard(state).state is ShardState.RELEASING


# -- ends without an acknowledgement -----------------------------------------------------------


def test_an_aborted_warm_up_keeps_the_epoch_and_an_aborted_stop_gets_a_new_one() -> None:
    state = handing_over(warmup=True)
    before = epoch(state)
    assert abort(state) == 1
    assert (held(state, "e1"), epoch(state)) == ({"0": "run"}, before)
    state = handing_over()
    before = epoch(state)
    assert abort(state) == 1
    assert held(state, "e1") == {"0": "run"}
    assert epoch(state) > before
    assert shard(state).cause is Cause.PLACED


def test_only_the_handoff_that_is_meant_is_aborted() -> None:
    state = handing_over()
    claims = (Claim("0", epoch(state) - 1), Claim("9", 1))
    outcome = applied(state, c.AbortHandoffs(namespace=NS, claims=claims, at_ms=AT_MS))
    assert outcome.count == 0
    release(state)
    assert abort(state) == 0


def test_a_stop_towards_a_park_cannot_be_aborted() -> None:
    state = fleet(1, 1)
    applied(state, park("0"))
    assert abort(state) == 0
    assert shard(state).state is ShardState.RELEASING


def test_a_hung_stop_ends_only_after_it_was_marked_overdue() -> None:
    state = handing_over()
    assert finish(state) == 0
    assert overdue(state) == 1
    assert space(state).overdue_of("e1") == ["0"]
    assert overdue(state) == 0
    assert finish(state) == 1
    assert owners(state) == {"0": "e2"}
    assert not shard(state).overdue


def test_a_warm_up_has_no_lease_of_its_own_to_run_out() -> None:
    state = handing_over(warmup=True)
    assert overdue(state) == 0


def test_an_overdue_stop_can_still_be_acknowledged_or_aborted() -> None:
    state = handing_over()
    overdue(state)
    assert release(state) == 1
    assert owners(state) == {"0": "e2"}
    state = handing_over()
    overdue(state)
    assert abort(state) == 1
    assert (owners(state), shard(state).overdue) == ({"0": "e1"}, False)


def test_a_hung_stop_that_is_parked_meanwhile_stays_overdue_and_ends_parked() -> None:
    state = handing_over()
    overdue(state)
    applied(state, park("0"))
    assert shard(state).overdue
    assert finish(state) == 1
    assert shard(state).state is ShardState.PARKED


# -- orders during a handoff -------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [True, False])
def test_parking_during_a_handoff_ends_it_and_nobody_runs_the_shard(warmup: bool) -> None:  # noqa: FBT001 - a parameter of the test
    state = handing_over(warmup=warmup)
    applied(state, park("0"))
    assert (held(state, "e1"), held(state, "e2")) == ({"0": "release"}, {})
    release(state)
    assert shard(state).state is ShardState.PARKED
    assert shard(state).executor is None


def test_a_park_undone_before_the_stop_has_ended_leaves_the_shard_to_be_placed() -> None:
    state = handing_over()
    applied(state, park("0"))
    assert applied(state, unpark("0")).count == 1
    assert held(state, "e1") == {"0": "release"}
    release(state)
    assert sorted(space(state).vacant) == ["0"]


def test_a_drain_of_the_target_does_not_stop_a_handoff_from_ending() -> None:
    state = handing_over()
    applied(state, drain("e2"))
    assert space(state).status_of(space(state).executors["e2"]) == "draining"
    release(state)
    assert sorted(space(state).vacant) == ["0"]
    assert space(state).status_of(space(state).executors["e2"]) == "drained"


# -- an operator's move ------------------------------------------------------------------------


def test_an_operator_moves_an_owned_shard_by_handoff_and_a_vacant_one_at_once() -> None:
    state = fleet(2, 2, are_placed=False)
    applied(state, move("0", "e1"))
    assert (owners(state)["0"], shard(state).cause) == ("e1", Cause.OPERATOR)
    applied(state, move("0", "e2"))
    assert (shard(state).state, shard(state).target) == (ShardState.RELEASING, "e2")


def test_a_move_to_where_the_shard_is_or_already_goes_is_no_change() -> None:
    state = handing_over()
    image = space(state).image()
    applied(state, move("0", "e2"))
    assert space(state).image() == image
    release(state)
    image = space(state).image()
    applied(state, move("0", "e2"))
    assert space(state).image() == image


def test_every_obstacle_to_a_move_is_named() -> None:
    state = handing_over()
    assert refused(state, move("9", "e1")).reason is Reason.SHARD_NOT_FOUND
    assert refused(state, move("0", "e9")).reason is Reason.EXECUTOR_NOT_FOUND
    assert "being moved" in refused(state, move("0", "e3")).detail
    assert "being moved" in refused(state, move("0", "e1")).detail
    release(state)
    applied(state, pin("0", "e2"))
    assert "pinned to 'e2'" in refused(state, move("0", "e1")).detail
    applied(state, cordon("e3"))
    assert "closed to new ones" in refused(state, move("0", "e3")).detail
    applied(state, park("0"))
    assert refused(state, move("0", "e1")).reason is Reason.SHARD_PARKED


def test_a_shard_being_retired_cannot_be_moved() -> None:
    state = fleet(2, 2, kind=NamespaceKind.OPEN)
    applied(state, retire("0"))
    assert refused(state, move("0", "e1")).reason is Reason.SHARD_PARKED
