"""The life cycle of shards, event by event."""

import sys
import threading
from typing import Any

import pytest

from client import lives
from client.lifecycle import (
    Acknowledge,
    Adopt,
    AssignmentSet,
    CallbackEnded,
    Closed,
    Cursor,
    Leaving,
    Lost,
    Outcome,
    Prepare,
    Renewed,
    Revoke,
    SetArrived,
    Start,
    Stop,
    Suspended,
    TimePassed,
)
from client.lives import ERROR_TEXT_MAX, HUNG_STOP, PREPARED_LINGER_S, START_TRIES_MAX
from client.reconcile import Reconciler

CLUSTER = "c1"


def at(revision, cluster=CLUSTER):
    return Cursor(cluster, revision)


def assigned(revision, cluster=CLUSTER, **duties):
    return SetArrived(AssignmentSet(at(revision, cluster), duties))


def released(key, epoch):
    return Acknowledge(Outcome.RELEASED, key, epoch)


def prepared(key, epoch):
    return Acknowledge(Outcome.PREPARED, key, epoch)


def failed(key, epoch, error):
    return Acknowledge(Outcome.FAILED, key, epoch, error)


class Bench:
    """A machine with a time of its own."""

    def __init__(self, *, has_prepare=False):
        self.machine = Reconciler(has_prepare=has_prepare)
        self.now = 0.0

    def tell(self, *events: Any):
        """The actions that the last of these events led to."""
        actions = []
        for event in events:
            actions = self.machine.step(event, self.now)
        return actions


def connected(**options):
    bench = Bench(**options)
    bench.tell(Renewed(at(1)))
    return bench


def running(key="a", epoch=5, **options):
    bench = connected(**options)
    bench.tell(assigned(2, **{key: (epoch, "run")}), CallbackEnded(key))
    assert bench.machine.held() == {key: epoch}
    return bench


# ------------------------------------------------------------------------------------ starts


def test_nothing_starts_before_the_first_acknowledged_heartbeat():
    bench = Bench()
    assert bench.tell(assigned(1, a=(5, "run"))) == []
    assert bench.machine.cursor is None


def test_an_assigned_shard_is_held_from_its_start_and_runs_once_that_ended():
    bench = connected()
    assert bench.tell(assigned(2, a=(5, "run"))) == [Start("a", 5)]
    assert bench.machine.held() == {"a": 5}  # it may be acted on from now on
    assert bench.machine.running() == {}
    assert bench.tell(CallbackEnded("a")) == []
    assert bench.machine.held() == bench.machine.running() == {"a": 5}


def test_the_same_set_again_changes_nothing():
    bench = running()
    assert bench.tell(assigned(2, a=(5, "run"))) == []


def test_a_set_below_the_cursor_of_the_granting_heartbeat_is_dropped():
    bench = Bench()
    bench.tell(Renewed(at(9)))
    assert bench.tell(assigned(8, a=(5, "run"))) == []
    assert bench.tell(assigned(9, a=(5, "run"))) == [Start("a", 5)]


def test_an_older_set_is_dropped():
    bench = running()
    assert bench.tell(assigned(1)) == []
    assert bench.machine.held() == {"a": 5}


def test_a_set_of_another_cluster_is_dropped():
    bench = running()
    assert bench.tell(assigned(99, "c2")) == []
    assert bench.machine.held() == {"a": 5}


def test_while_suspended_nothing_starts_and_the_next_renewal_makes_up_for_it():
    bench = connected()
    bench.tell(Suspended())
    assert bench.tell(assigned(2, a=(5, "run"))) == []
    assert bench.tell(Renewed(at(2))) == [Start("a", 5)]


def test_suspension_does_not_follow_a_loss():
    bench = running()
    bench.tell(Lost(), Suspended(), CallbackEnded("a"))
    assert bench.tell(Renewed(at(3)), assigned(3, a=(5, "run"))) == [Start("a", 5)]


def test_a_start_that_waited_too_long_is_given_up_without_blame():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")), Suspended())
    assert not bench.machine.is_wanted("a")
    assert bench.tell(CallbackEnded("a", was_begun=False)) == []
    assert bench.machine.live_count == 0
    assert bench.tell(Renewed(at(2))) == [Start("a", 5)]


def test_a_start_is_wanted_until_its_set_says_otherwise():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")))
    assert bench.machine.is_wanted("a")
    bench.tell(assigned(3))
    assert not bench.machine.is_wanted("a")
    assert not bench.machine.is_wanted("unknown")
    assert bench.tell(CallbackEnded("a", was_begun=False)) == []


# ------------------------------------------------------------------------------------- stops


def test_a_released_shard_stops_first_and_is_acknowledged_then():
    bench = running()
    assert bench.tell(assigned(3, a=(5, "release"))) == [Stop("a", 5)]
    assert bench.machine.held() == {"a": 5}
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]
    assert bench.machine.held() == {}


def test_an_empty_set_means_hold_nothing():
    bench = running()
    assert bench.tell(assigned(3)) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]
    assert bench.machine.is_empty


def test_a_stop_that_raised_has_ended_too():
    bench = running()
    bench.tell(assigned(3, a=(5, "release")))
    assert bench.tell(CallbackEnded("a", "OSError: disk")) == [released("a", 5)]


def test_a_start_under_way_ends_before_its_stop_begins():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")))
    assert bench.tell(assigned(3, a=(5, "release"))) == []
    assert bench.tell(CallbackEnded("a")) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]


def test_a_shard_that_comes_back_starts_after_its_stop_ended():
    bench = running()
    bench.tell(assigned(3, a=(5, "release")))
    assert bench.tell(assigned(4, a=(6, "run"))) == []
    assert bench.tell(CallbackEnded("a")) == [released("a", 5), Start("a", 6)]


def test_an_epoch_that_was_released_is_never_started_again():
    bench = running()
    bench.tell(assigned(3, a=(5, "release")), CallbackEnded("a"))
    assert bench.tell(assigned(4, a=(5, "run"))) == []
    assert bench.tell(assigned(5, a=(6, "run"))) == [Start("a", 6)]


def test_a_release_of_what_does_not_run_is_acknowledged_with_each_set():
    bench = connected()
    assert bench.tell(assigned(2, a=(5, "release"))) == [released("a", 5)]
    assert bench.tell(assigned(2, a=(5, "release"))) == [released("a", 5)]
    assert bench.tell(TimePassed()) == []


def test_a_higher_epoch_is_adopted_without_stop_and_start():
    bench = running()
    assert bench.tell(assigned(3, a=(8, "run"))) == [Adopt("a", 8)]
    assert bench.machine.held() == {"a": 8}


def test_a_higher_epoch_is_adopted_while_the_start_is_under_way():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")))
    assert bench.tell(assigned(3, a=(8, "run"))) == [Adopt("a", 8)]
    bench.tell(CallbackEnded("a"))
    assert bench.machine.held() == {"a": 8}


def test_a_release_of_a_later_epoch_is_acknowledged_under_that_as_soon_as_the_stop_ended():
    bench = running()
    assert bench.tell(assigned(3, a=(8, "release"))) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [released("a", 8)]


def test_a_release_that_was_asked_for_while_an_orphan_stopped_is_acknowledged_at_its_end():
    bench = running()
    bench.tell(Closed(), Renewed(at(4)), assigned(4, a=(9, "release")))
    assert bench.tell(CallbackEnded("a")) == [released("a", 9)]


def test_a_lower_epoch_is_never_run():
    bench = running()
    assert bench.tell(assigned(3, a=(4, "run"))) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]


def test_an_overdue_shard_stops_even_if_its_set_still_says_run():
    bench = running()
    assert bench.tell(Renewed(at(3), frozenset({"a"}))) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]
    assert bench.tell(Renewed(at(4))) == []
    assert bench.tell(assigned(4, a=(6, "run"))) == [Start("a", 6)]


def test_an_overdue_shard_is_not_started_by_a_set_from_before():
    bench = connected()
    bench.tell(Renewed(at(3), frozenset({"a"})))
    assert bench.tell(assigned(2, a=(5, "run"))) == []
    assert bench.tell(Renewed(at(4))) == []
    assert bench.tell(assigned(3, a=(6, "run"))) == [Start("a", 6)]


def test_an_overdue_shard_that_is_named_no_more_is_not_started_again_by_its_old_set():
    # Its stop hung until another executor had got the shard; the polls have not heard of it yet.
    bench = running()
    bench.tell(Renewed(at(3), frozenset({"a"})), Renewed(at(9)))
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]
    assert bench.tell(assigned(2, a=(5, "run")), Renewed(at(10))) == []
    assert bench.machine.live_count == 0


def test_a_start_under_way_loses_its_permission_when_its_release_is_overdue():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")), assigned(3, a=(5, "release")))
    assert bench.tell(Renewed(at(4), frozenset({"a"}))) == [Revoke("a", 5)]
    assert bench.tell(Renewed(at(5), frozenset({"a"}))) == []
    assert bench.machine.held() == {}
    # Another executor has it by now: permission does not come back with the end of the list.
    assert bench.tell(Renewed(at(6))) == []
    assert bench.tell(CallbackEnded("a")) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]


def test_a_list_that_is_older_than_the_grant_takes_nothing_away():
    bench = running()
    bench.tell(assigned(9, a=(8, "run")))
    assert bench.machine.withheld(at(8), ["a", "b"]) == ["b"]
    assert bench.tell(Renewed(at(8), frozenset({"a"}))) == []
    assert bench.tell(Renewed(at(9), frozenset({"a"}))) == [Stop("a", 8)]


def test_a_renewal_that_comes_late_starts_nothing_but_takes_away():
    bench = running()
    bench.tell(Suspended())
    assert bench.tell(Renewed(at(3), frozenset({"a"}), is_late=True)) == [Stop("a", 5)]
    assert bench.tell(assigned(4, a=(6, "run"), b=(7, "run"))) == []
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]
    assert bench.tell(Renewed(at(4))) == [Start("a", 6), Start("b", 7)]


# ------------------------------------------------------------------------------------- lease


def test_a_lost_lease_stops_everything_and_releases_nothing():
    bench = running()
    assert bench.tell(Lost()) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == []


def test_after_a_lost_lease_nothing_starts_below_the_cursor_that_restored_it():
    bench = running()
    bench.tell(Lost(), CallbackEnded("a"))
    assert bench.tell(Renewed(at(7))) == []
    assert bench.machine.cursor is None
    assert bench.tell(assigned(6, a=(5, "run"))) == []
    assert bench.tell(assigned(7, a=(5, "run"))) == [Start("a", 5)]


def test_a_set_that_arrives_without_a_lease_is_dropped():
    bench = running()
    bench.tell(Lost(), CallbackEnded("a"))
    assert bench.tell(assigned(9, a=(5, "run"))) == []


def test_a_lease_won_back_before_the_stop_ended_starts_again_after_it():
    bench = running()
    bench.tell(Lost(), Renewed(at(3)), assigned(3, a=(5, "run")))
    assert bench.tell(CallbackEnded("a")) == [Start("a", 5)]


def test_a_stop_for_want_of_a_lease_is_acknowledged_when_a_set_asks_for_it():
    bench = running()
    bench.tell(Lost(), CallbackEnded("a"), Renewed(at(3)))
    assert bench.tell(assigned(3, a=(5, "release"))) == [released("a", 5)]


def test_a_start_under_way_is_not_acted_on_again_after_a_loss():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")))
    assert bench.tell(Lost()) == [Revoke("a", 5)]
    # Nothing says yet that nobody else was given it meanwhile.
    assert bench.tell(Renewed(at(7))) == []
    assert bench.machine.held() == {}
    assert bench.tell(assigned(7, a=(9, "run"))) == []
    assert not bench.machine.is_wanted("a")  # were its callback still waiting for its turn
    assert bench.tell(CallbackEnded("a")) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a"))[-1] == Start("a", 9)
    bench.tell(CallbackEnded("a"))
    assert bench.machine.running() == {"a": 9}


def test_a_start_that_failed_after_a_loss_is_tried_again_with_permission():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")), Lost(), Renewed(at(7)), assigned(7, a=(5, "run")))
    bench.tell(CallbackEnded("a", "boom"))
    bench.now += 60.0
    assert bench.tell(TimePassed()) == [Start("a", 5)]
    assert bench.machine.held() == {"a": 5}


def test_a_start_that_was_prepared_and_given_up_after_a_loss_has_permission_again():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), CallbackEnded("a"), assigned(3, a=(6, "run")))
    bench.tell(Lost(), Renewed(at(4)))
    bench.tell(assigned(4, a=(6, "run")))
    assert bench.tell(CallbackEnded("a", was_begun=False)) == [Start("a", 6)]
    assert bench.machine.held() == {"a": 6}


def test_what_was_given_up_for_want_of_a_lease_is_known_until_a_set_says_what_to_hold():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run"), b=(6, "run"), c=(7, "run")))
    bench.tell(CallbackEnded("a"), CallbackEnded("b"))
    assert bench.machine.last_held() == {}
    bench.tell(Lost())
    # What is not yet stopped is held; the start under way lost its permission.
    assert bench.machine.held() == {"a": 5, "b": 6}
    assert bench.machine.last_held() == {"c": 7}
    bench.tell(CallbackEnded("a"), CallbackEnded("b"))
    assert bench.machine.last_held() == {"a": 5, "b": 6, "c": 7}
    bench.tell(Lost(), Renewed(at(1, "c2")), assigned(9, a=(5, "run")))
    assert bench.machine.last_held() == {"a": 5, "b": 6, "c": 7}
    bench.tell(assigned(1, "c2", a=(40, "run")))
    assert bench.machine.last_held() == {}


def test_what_was_given_up_is_still_known_to_the_next_incarnation():
    bench = running()
    bench.tell(Closed(), CallbackEnded("a"))
    assert bench.machine.last_held() == {"a": 5}


def test_what_was_released_was_not_given_up_for_want_of_a_lease():
    bench = running()
    bench.tell(assigned(3, a=(5, "release")), CallbackEnded("a"), Lost())
    assert bench.machine.last_held() == {}


def test_a_closed_incarnation_stops_everything_and_its_shards_are_held_no_more():
    bench = running()
    assert bench.tell(Closed()) == [Stop("a", 5)]
    assert bench.machine.held() == {}
    bench.tell(Renewed(at(4)), assigned(4, a=(9, "run")))
    assert bench.tell(CallbackEnded("a")) == [Start("a", 9)]


def test_a_start_of_a_closed_incarnation_is_stopped_before_the_next_start():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")), Closed(), Renewed(at(4)))
    assert bench.tell(assigned(4, a=(9, "run"))) == []
    assert bench.tell(CallbackEnded("a")) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [Start("a", 9)]


def test_a_new_cluster_changes_nothing_until_its_set_arrives():
    bench = running()
    assert bench.tell(Renewed(at(1, "c2"))) == []
    assert bench.machine.held() == {"a": 5}
    assert bench.tell(assigned(2, "c1", a=(5, "release"))) == []
    assert bench.tell(assigned(1, "c2", a=(40, "run"))) == [Adopt("a", 40)]


# ------------------------------------------------------------------------------ failed starts


def test_a_failed_start_is_tried_again_and_reported_when_the_tries_are_used_up():
    bench = connected()
    actions = bench.tell(assigned(2, a=(5, "run")))
    tries = 0
    while actions == [Start("a", 5)]:
        tries += 1
        actions = bench.tell(CallbackEnded("a", "boom"))
        if bench.machine.wake_at() is not None:
            assert bench.tell(TimePassed()) == []
            bench.now = bench.machine.wake_at()
            actions = bench.tell(TimePassed())
    assert tries == START_TRIES_MAX
    assert actions == [failed("a", 5, "boom")]
    assert bench.machine.wake_at() is None
    assert bench.machine.live_count == 0


def worn_out():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")))
    for _ in range(START_TRIES_MAX):
        bench.tell(CallbackEnded("a", "boom"))
        bench.now += 10.0
        bench.tell(TimePassed())
    return bench


def test_a_start_that_failed_for_good_is_reported_with_each_set_that_still_wants_it():
    bench = worn_out()
    assert bench.tell(assigned(2, a=(5, "run"))) == [failed("a", 5, "boom")]


def test_a_start_that_failed_for_good_is_not_tried_again_after_a_loss_but_reported():
    # The report may be on its way still: whoever hears it gives the shard to somebody else.
    bench = worn_out()
    assert bench.tell(Lost(), Renewed(at(7)), TimePassed()) == []
    assert bench.tell(assigned(7, a=(5, "run"))) == [failed("a", 5, "boom")]
    assert bench.tell(assigned(8, a=(9, "run"))) == [Start("a", 9)]


def test_a_start_that_failed_for_good_is_forgotten_with_its_incarnation():
    bench = worn_out()
    assert bench.tell(Closed(), Renewed(at(7)), assigned(7, a=(9, "run"))) == [Start("a", 9)]


def test_a_start_that_failed_for_good_is_tried_under_a_new_epoch():
    assert worn_out().tell(assigned(3, a=(6, "run"))) == [Start("a", 6)]


def test_a_failed_start_that_is_released_is_acknowledged_as_released():
    assert worn_out().tell(assigned(3, a=(5, "release"))) == [released("a", 5)]


def test_no_failed_start_is_tried_again_without_a_lease():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")), CallbackEnded("a", "boom"), Lost())
    bench.now = 100.0
    assert bench.machine.wake_at() is None
    assert bench.tell(TimePassed()) == []


def test_a_long_error_is_cut():
    bench = connected()
    bench.tell(assigned(2, a=(5, "run")))
    for _ in range(START_TRIES_MAX - 1):
        bench.tell(CallbackEnded("a", "x" * 10_000))
        bench.now += 10.0
        bench.tell(TimePassed())
    assert bench.tell(CallbackEnded("a", "x" * 10_000)) == [failed("a", 5, "x" * ERROR_TEXT_MAX)]


# ----------------------------------------------------------------------------------- prepare


def test_without_a_prepare_callback_a_shard_counts_as_prepared():
    bench = connected()
    assert bench.tell(assigned(2, a=(5, "prepare"))) == [prepared("a", 5)]


def test_a_prepared_shard_is_acknowledged_and_starts_warm():
    bench = connected(has_prepare=True)
    assert bench.tell(assigned(2, a=(5, "prepare"))) == [Prepare("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [prepared("a", 5)]
    assert bench.machine.held() == {}
    assert bench.tell(assigned(3, a=(6, "run"))) == [Start("a", 6)]


def test_a_grant_that_comes_while_preparing_starts_after_it():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")))
    assert bench.tell(assigned(3, a=(6, "run"))) == []
    assert bench.tell(CallbackEnded("a")) == [Start("a", 6)]


def test_a_prepared_shard_stays_warm_while_its_owner_releases_it():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), CallbackEnded("a"))
    assert bench.tell(assigned(3)) == []
    bench.now = PREPARED_LINGER_S - 0.1
    assert bench.tell(TimePassed(), assigned(4, a=(6, "run"))) == [Start("a", 6)]


def test_a_prepared_shard_that_goes_elsewhere_is_stopped_but_not_released():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), CallbackEnded("a"), assigned(3))
    bench.now = bench.machine.wake_at()
    assert bench.now == PREPARED_LINGER_S
    assert bench.tell(TimePassed()) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == []
    assert bench.machine.is_empty


def test_a_prepared_shard_stays_warm_for_the_next_handoff():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), CallbackEnded("a"))
    assert bench.tell(assigned(2, a=(5, "prepare"))) == []
    assert bench.tell(assigned(3, a=(7, "prepare"))) == [prepared("a", 7)]


def test_a_prepared_shard_waits_for_its_lease_before_it_starts():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), CallbackEnded("a"), Suspended())
    assert bench.tell(assigned(3, a=(6, "run"))) == []
    assert bench.tell(Renewed(at(3))) == [Start("a", 6)]


def test_a_prepared_shard_whose_start_was_given_up_stays_prepared():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), CallbackEnded("a"), assigned(3, a=(6, "run")))
    bench.tell(Suspended())
    assert bench.tell(CallbackEnded("a", was_begun=False)) == []
    assert bench.tell(Lost()) == [Stop("a", 6)]


def test_a_failed_prepare_is_reported_and_does_not_hinder_the_start():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")))
    assert bench.tell(CallbackEnded("a", "boom")) == [failed("a", 5, "boom")]
    assert bench.tell(assigned(3, a=(6, "run"))) == [Start("a", 6)]


def test_a_prepare_that_ends_after_its_lease_was_lost_is_stopped():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), Lost())
    assert bench.tell(CallbackEnded("a")) == [Stop("a", 5)]


# ----------------------------------------------------------------------------------- leaving


def test_a_leaving_executor_starts_nothing_and_runs_on_until_released():
    bench = running()
    assert bench.tell(Leaving()) == []
    assert bench.tell(assigned(3, a=(5, "run"), b=(6, "run"))) == []
    assert bench.tell(assigned(4, a=(5, "release"))) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == [released("a", 5)]


def test_at_the_end_of_its_patience_a_leaving_executor_stops_the_rest_unreleased():
    bench = running()
    bench.tell(Leaving())
    assert bench.tell(Leaving(stops_all=True)) == [Stop("a", 5)]
    assert bench.tell(CallbackEnded("a")) == []
    assert bench.machine.live_count == 0


def test_a_leaving_executor_lets_go_of_what_it_prepared():
    bench = connected(has_prepare=True)
    bench.tell(assigned(2, a=(5, "prepare")), CallbackEnded("a"))
    assert bench.tell(Leaving()) == [Stop("a", 5)]


# ------------------------------------------------------------------------------------ misuse


def test_the_end_of_a_callback_that_was_not_asked_for_is_an_error():
    bench = running()
    with pytest.raises(LookupError):
        bench.tell(CallbackEnded("a"))
    with pytest.raises(LookupError):
        bench.tell(CallbackEnded("a", was_begun=False))


@pytest.mark.parametrize("text", ["", "c1", ":7", "c1:", "c1:x", "c1:-1", "c1:²", "c1:" + "9" * 21])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(ValueError, match="not a cursor"):
        Cursor.parse(text)


def test_a_cursor_survives_its_text():
    assert Cursor.parse("a:b:17") == Cursor("a:b", 17)
    assert str(Cursor("a:b", 17)) == "a:b:17"


def test_memory_of_releases_is_bounded(monkeypatch):
    monkeypatch.setattr(lives, "RELEASED_MAX", 3)
    bench = connected()
    for number in range(10):
        bench.tell(assigned(2 + number, **{f"k{number}": (5, "release")}))
    assert list(bench.machine._forgone._released) == ["k7", "k8", "k9"]


def test_a_release_is_remembered_though_sets_without_the_shard_came_since():
    bench = running()
    bench.tell(assigned(3, a=(5, "release")), CallbackEnded("a"), assigned(4))
    assert bench.tell(assigned(5, a=(5, "run"))) == []
    assert bench.tell(assigned(6, a=(6, "run"))) == [Start("a", 6)]


def test_what_runs_may_be_asked_for_on_another_thread():
    machine = Reconciler(has_prepare=False)
    machine.step(Renewed(at(1)), 0.0)
    duties = {str(key): (5, "run") for key in range(300)}
    is_over = threading.Event()

    def sets():
        for revision in range(2, 40):
            duties[f"new-{revision}"] = (revision, "run")
            for action in machine.step(assigned(revision, **duties), 0.0):
                machine.step(CallbackEnded(action.key), 0.0)
        is_over.set()

    coming = threading.Thread(target=sets)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        coming.start()
        while not is_over.is_set():
            assert len(machine.running()) <= 400
    finally:
        sys.setswitchinterval(before)
        coming.join()


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_assignment_that_waits_for_a_stop_that_hangs_is_given_up(is_closed):
    bench = running("a", 5)
    if is_closed:
        bench.tell(Closed(), Renewed(at(3), ttl_s=10.0))
    else:
        bench.tell(assigned(2, a=(5, "release")), Renewed(at(3), frozenset("a"), ttl_s=10.0))
    assert bench.tell(assigned(4, a=(9, "run"))) == []
    assert bench.machine.wake_at() == 10.0  # a lease, as that is longer than the patience
    bench.now = 10.0
    assert bench.tell(TimePassed()) == [failed("a", 9, HUNG_STOP)]
    assert bench.machine.wake_at() is None
    assert bench.tell(assigned(5, a=(9, "run"))) == []
    # The stop ends after all: what was given up does not start, what is assigned next does.
    bench.tell(CallbackEnded("a"))
    assert bench.tell(assigned(6, a=(9, "run"))) == []
    assert bench.tell(assigned(7, a=(11, "run"))) == [Start("a", 11)]


@pytest.mark.parametrize("epoch", [5, 9])
def test_a_stop_that_hangs_over_a_lost_lease_keeps_the_shard_from_nobody_when_it_is_won_again(
    epoch,
):
    bench = running("a", 5)
    assert bench.tell(Lost()) == [Stop("a", 5)]
    bench.tell(Renewed(at(3), ttl_s=10.0))
    assert bench.tell(assigned(4, a=(epoch, "run"))) == []
    bench.now = 9.0
    assert bench.tell(TimePassed()) == []  # a stop that is only slow is waited for
    bench.now = 10.0
    assert bench.tell(TimePassed()) == [failed("a", epoch, HUNG_STOP)]
    assert bench.tell(assigned(5, a=(epoch, "run"))) == []
    bench.tell(CallbackEnded("a"))
    assert bench.tell(assigned(6, a=(epoch, "run"))) == []
    assert bench.tell(assigned(7, a=(11, "run"))) == [Start("a", 11)]


def test_a_stop_that_ends_soon_after_the_lease_was_won_again_lets_its_epoch_run_again():
    bench = running("a", 5)
    bench.tell(Lost(), Renewed(at(3), ttl_s=10.0), assigned(4, a=(5, "run")))
    bench.now = 9.0
    assert bench.tell(CallbackEnded("a")) == [Start("a", 5)]


def test_a_stop_under_a_lease_that_holds_is_waited_for_whatever_is_assigned():
    bench = running("a", 5)
    bench.tell(assigned(2, a=(5, "release")), assigned(3, a=(9, "run")))
    bench.now = 1000.0
    assert bench.machine.wake_at() is None
    assert bench.tell(TimePassed()) == []
