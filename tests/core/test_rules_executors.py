"""How executors come, restart and go, and what becomes of their shards."""

import pytest

from coordinator.core import namespace as namespace_module
from coordinator.core.commands import Command, Reason
from coordinator.core.rules.executors import EXECUTORS_MAX
from coordinator.core.shard import Cause, ShardState
from coordinator.core.state import ClusterState
from coordinator.core.types import CloseCause, ExecutorStatus
from tests.core.builders import (
    WARM,
    ack,
    applied,
    close,
    cordon,
    drain,
    empty,
    epoch,
    evict,
    fleet,
    held,
    inherit,
    join,
    move,
    owners,
    park,
    refused,
    release,
    shard,
    space,
    start,
    update,
)


def restarted(*, warmup: bool = False) -> ClusterState:
    """e1 owns 0 and 1, e2 owns nothing, and e1-2 waits for e1-1."""
    state = fleet(2, 2, are_placed=False, policy=WARM) if warmup else fleet(2, 2, are_placed=False)
    for key in ("0", "1"):
        applied(state, move(key, "e1"))
    applied(state, join("e1", "e1-2"))
    return state


# -- joining -----------------------------------------------------------------------------------


def test_a_new_name_joins_and_owns_nothing() -> None:
    state = empty(4)
    assert applied(state, join("e1")).created
    assert held(state, "e1") == {}


def test_joining_again_is_no_change() -> None:
    state = fleet(1, 2)
    revision = space(state).revision
    assert not applied(state, join("e1")).created
    assert space(state).revision == revision


def test_joining_again_with_news_of_itself_tells_them() -> None:
    state = fleet(1, 0)
    applied(state, join("e1", capacity=4.0))
    assert space(state).executors["e1"].profile.capacity == 4.0


def test_no_more_executors_than_the_bound_may_join() -> None:
    state = empty(1)
    template = join("e0")
    for number in range(EXECUTORS_MAX):
        state.apply(join(f"x{number}", "1"))
    assert refused(state, template).reason is Reason.QUOTA_EXCEEDED
    state.apply(close("x0", incarnation="1"))
    applied(state, template)


def test_a_closed_incarnation_never_comes_back() -> None:
    state = fleet(1, 1)
    applied(state, close("e1", cause=CloseCause.LEFT))
    answer = refused(state, join("e1"))
    assert (answer.reason, answer.cause) == (Reason.INCARNATION_CLOSED, "left")


# -- supersession ------------------------------------------------------------------------------


def test_a_restart_closes_the_older_incarnation_and_owns_nothing_while_that_may_act() -> None:
    state = restarted()
    assert space(state).closed["e1", "e1-1"] is CloseCause.SUPERSEDED
    assert held(state, "e1", "e1-1") == held(state, "e1", "e1-2") == {}
    assert owners(state) == {"0": "e1", "1": "e1"}
    assert refused(state, ack("e1", "e1-1")).cause == "superseded"


def test_a_restart_moves_nothing_and_gives_new_epochs_once_the_older_one_is_over() -> None:
    state = restarted()
    before = epoch(state, "0"), epoch(state, "1")
    assert applied(state, inherit("e1")).count == 2
    assert held(state, "e1", "e1-2") == {"0": "run", "1": "run"}
    assert min(epoch(state, "0"), epoch(state, "1")) > max(before)
    assert shard(state).cause is Cause.RESTART
    assert shard(state).previous is None


def test_a_restart_after_a_proven_death_has_its_shards_at_once() -> None:
    state = fleet(1, 2)
    applied(state, join("e1", "e1-2", dead="e1-1"))
    assert held(state, "e1", "e1-2") == {"0": "run", "1": "run"}


def test_the_death_of_another_incarnation_proves_nothing() -> None:
    state = fleet(1, 2)
    applied(state, join("e1", "e1-2", dead="e1-0"))
    assert held(state, "e1", "e1-2") == {}


def test_a_third_incarnation_waits_for_the_first_which_alone_may_act() -> None:
    state = restarted()
    applied(state, join("e1", "e1-3", dead="e1-2"))
    assert space(state).executors["e1"].predecessor == "e1-1"
    assert refused(state, inherit("e1", "e1-2")).reason is Reason.CONFLICT
    applied(state, inherit("e1", "e1-1"))
    assert held(state, "e1", "e1-3") == {"0": "run", "1": "run"}


def test_a_restart_with_nothing_owned_waits_for_nobody() -> None:
    state = fleet(2, 2, are_placed=False)
    applied(state, join("e1", "e1-2"))
    assert space(state).executors["e1"].predecessor is None


def test_who_is_waited_for_cannot_rejoin_even_when_its_end_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(namespace_module, "CLOSED_MAX", 1)
    state = restarted()
    applied(state, close("e2"))
    assert ("e1", "e1-1") not in space(state).closed
    assert refused(state, join("e1", "e1-1")).cause == "superseded"


def test_a_handoff_away_from_a_restarting_owner_goes_through_when_the_older_one_is_over() -> None:
    state = restarted()
    assert start(state, "0", "e2") == 1
    applied(state, inherit("e1"))
    assert owners(state) == {"0": "e2", "1": "e1"}
    assert shard(state, "0").cause is Cause.BALANCE


def test_a_warm_up_elsewhere_is_dropped_when_the_owner_restarts() -> None:
    state = restarted(warmup=True)
    assert start(state, "0", "e2") == 1
    applied(state, inherit("e1"))
    assert owners(state) == {"0": "e1", "1": "e1"}
    assert held(state, "e2") == {}


def test_a_shard_parked_meanwhile_stays_parked_when_the_owner_restarts() -> None:
    state = restarted()
    applied(state, park("0"))
    applied(state, inherit("e1"))
    assert shard(state, "0").state is ShardState.PARKED


def test_a_successor_cannot_speak_for_the_shards_of_its_predecessor() -> None:
    state = restarted()
    start(state, "0", "e2")
    claim = [("0", epoch(state, "0"))]
    assert applied(state, ack("e1", "e1-2", released=claim, failed=claim)).count == 0
    assert shard(state, "0").state is ShardState.RELEASING


# -- telling news ------------------------------------------------------------------------------


def test_a_live_incarnation_tells_something_new_and_the_same_again_is_no_change() -> None:
    state = fleet(1, 0)
    applied(state, update("e1", zone="b"))
    revision = space(state).revision
    applied(state, update("e1", zone="b"))
    assert space(state).executors["e1"].profile.zone == "b"
    assert space(state).revision == revision


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        (join("e1", "e1-2"), "superseded"),
        (evict("e1"), "evicted"),
        (close("e1"), "expired"),
        (close("e1", cause=CloseCause.LEFT), "left"),
    ],
)
def test_a_closed_incarnation_is_told_its_cause_whatever_it_says(
    ending: Command, cause: str
) -> None:
    state = fleet(2, 2)
    applied(state, ending)
    for word in (update("e1", zone="b"), ack("e1", released=[("0", epoch(state))])):
        answer = refused(state, word)
        assert (answer.reason, answer.cause) == (Reason.INCARNATION_CLOSED, cause)


def test_an_incarnation_never_heard_of_is_told_that_it_expired() -> None:
    state = fleet(1, 0)
    assert refused(state, update("e1", "other")).cause == "expired"
    assert refused(state, ack("e9")).cause == "expired"


# -- eviction ----------------------------------------------------------------------------------


def test_an_evicted_executor_is_shown_nothing_and_owns_on_until_its_lease_is_over() -> None:
    state = fleet(2, 2)
    applied(state, evict("e1"))
    assert held(state, "e1") == {}
    assert "e1" in owners(state).values()
    assert refused(state, move("1", "e1")).reason is Reason.CONFLICT
    applied(state, close("e1", ("0", "e2"), ("1", "e2"), cause=CloseCause.EVICTED))
    assert set(owners(state).values()) == {"e2"}


def test_evicting_twice_is_evicting_once_and_who_is_unknown_cannot_be_evicted() -> None:
    state = fleet(1, 0)
    applied(state, evict("e1"))
    revision = space(state).revision
    applied(state, evict("e1"))
    assert space(state).revision == revision
    assert refused(state, evict("e9")).reason is Reason.EXECUTOR_NOT_FOUND


def test_an_eviction_that_means_an_incarnation_spares_the_one_that_followed() -> None:
    state = fleet(1, 0)
    seen = space(state).executors["e1"].incarnation
    applied(state, join("e1", "e1-2"))
    late = refused(state, evict("e1", seen))
    assert late.reason is Reason.CONFLICT
    assert "e1-2" in late.detail
    assert not space(state).executors["e1"].evicted
    applied(state, evict("e1", "e1-2"))
    assert space(state).executors["e1"].evicted


def test_an_evicted_incarnation_cannot_rejoin_even_when_its_end_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(namespace_module, "CLOSED_MAX", 1)
    state = fleet(2, 2)
    applied(state, evict("e1"))
    applied(state, evict("e2"))
    assert ("e1", "e1-1") not in space(state).closed
    assert refused(state, join("e1")).cause == "evicted"


def test_a_fresh_incarnation_of_an_evicted_name_waits_like_any_other() -> None:
    state = fleet(1, 1)
    applied(state, evict("e1"))
    applied(state, join("e1", "e1-2"))
    assert space(state).closed["e1", "e1-1"] is CloseCause.EVICTED
    assert held(state, "e1", "e1-2") == {}
    applied(state, inherit("e1"))
    assert held(state, "e1", "e1-2") == {"0": "run"}


def test_a_successor_evicted_while_it_waits_leaves_its_shards_to_others_at_once() -> None:
    state = restarted()
    start(state, "1", "e2")
    applied(state, evict("e1"))
    applied(state, inherit("e1"))
    assert owners(state) == {"0": None, "1": "e2"}
    assert "e1" not in space(state).executors
    assert refused(state, join("e1", "e1-2")).cause == "evicted"


# -- the end -----------------------------------------------------------------------------------


def test_a_lost_executors_shards_move_with_its_end_and_no_others() -> None:
    state = fleet(3, 6)
    before = owners(state)
    mine = [key for key, owner in before.items() if owner == "e1"]
    assert applied(state, close("e1", *((key, "e2") for key in mine))).count == 2
    after = owners(state)
    assert {key for key in after if after[key] != before[key]} == set(mine)
    assert all(after[key] == "e2" for key in mine)
    assert shard(state, mine[0]).cause is Cause.LOST
    assert shard(state, mine[0]).previous == "e1"


def test_what_the_command_has_no_room_for_turns_vacant() -> None:
    state = fleet(2, 4)
    mine = [key for key, owner in owners(state).items() if owner == "e1"]
    applied(state, close("e1", (mine[0], "e2")))
    assert owners(state)[mine[0]] == "e2"
    assert sorted(space(state).vacant) == [mine[1]]


def test_a_home_that_takes_no_shards_leaves_the_shard_vacant() -> None:
    state = fleet(2, 2)
    applied(state, cordon("e2"))
    applied(state, close("e1", ("0", "e2"), ("1", "e2")))
    assert None in owners(state).values()


def test_a_shard_on_its_way_arrives_when_its_owner_is_lost() -> None:
    state = fleet(3, 3)
    key = next(k for k, owner in owners(state).items() if owner == "e1")
    start(state, key, "e3")
    applied(state, close("e1"))
    assert owners(state)[key] == "e3"


def test_a_shard_on_its_way_to_a_lost_executor_stays_under_a_new_epoch_if_it_was_stopping() -> None:
    state = fleet(2, 2)
    key = next(k for k, owner in owners(state).items() if owner == "e1")
    start(state, key, "e2")
    before = epoch(state, key)
    applied(state, close("e2"))
    assert held(state, "e1")[key] == "run"
    assert epoch(state, key) > before
    assert applied(state, ack("e1", released=[(key, before)])).count == 0


def test_a_shard_that_never_stopped_keeps_its_epoch_when_its_target_is_lost() -> None:
    state = fleet(2, 2, policy=WARM)
    key = next(k for k, owner in owners(state).items() if owner == "e1")
    start(state, key, "e2")
    before = epoch(state, key)
    applied(state, close("e2"))
    assert held(state, "e1") == {key: "run"}
    assert epoch(state, key) == before


def test_a_parked_shard_is_nobodys_once_its_owner_is_lost() -> None:
    state = fleet(2, 2)
    key = next(k for k, owner in owners(state).items() if owner == "e1")
    applied(state, park(key))
    applied(state, close("e1", (key, "e2")))
    assert shard(state, key).state is ShardState.PARKED


def test_who_left_is_remembered_as_the_reason_of_the_move() -> None:
    state = fleet(2, 2)
    key = next(k for k, owner in owners(state).items() if owner == "e1")
    applied(state, close("e1", (key, "e2"), cause=CloseCause.LEFT))
    assert shard(state, key).cause is Cause.LEAVING


def test_only_the_incarnation_on_record_can_be_closed_and_not_while_another_may_act() -> None:
    state = restarted()
    assert refused(state, close("e1", incarnation="e1-1")).reason is Reason.CONFLICT
    assert refused(state, close("e1", incarnation="e1-2")).reason is Reason.CONFLICT
    assert refused(state, close("e9")).reason is Reason.CONFLICT


def test_the_oldest_ends_are_forgotten_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_module, "CLOSED_MAX", 3)
    state = fleet(1, 0)
    for number in range(2, 8):
        applied(state, join("e1", f"e1-{number}"))
    assert [incarnation for _, incarnation in space(state).closed] == ["e1-4", "e1-5", "e1-6"]


def test_a_restart_inherits_even_while_it_is_drained_or_says_that_it_leaves() -> None:
    for order in (drain("e1"), update("e1", "e1-2", status=ExecutorStatus.LEAVING)):
        state = restarted()
        applied(state, order)
        applied(state, inherit("e1"))
        assert held(state, "e1", "e1-2") == {"0": "run", "1": "run"}


def test_a_released_shard_whose_target_waits_for_its_predecessor_turns_vacant() -> None:
    state = fleet(2, 2)
    key = next(k for k, owner in owners(state).items() if owner == "e1")
    start(state, key, "e2")
    applied(state, join("e2", "e2-2"))
    assert release(state, key) == 1
    assert sorted(space(state).vacant) == [key]
