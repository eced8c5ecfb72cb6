"""What look-ups and operators do to single shards: declare, retire, park, pin."""

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.shard import Cause, Fate, ShardState
from coordinator.core.types import NamespaceKind, Policy
from tests.core.builders import (
    applied,
    assign,
    close,
    declare,
    empty,
    epoch,
    fleet,
    held,
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
    unpin,
)

OPEN = NamespaceKind.OPEN


# -- declaring ---------------------------------------------------------------------------------


def test_a_declared_key_is_known_once_however_often_it_is_declared() -> None:
    state = empty()
    outcome = applied(state, declare("a", "b", "a"))
    assert (outcome.count, outcome.created) == (2, True)
    revision = space(state).revision
    assert applied(state, declare("b", "a")).count == 0
    assert space(state).revision == revision
    assert sorted(space(state).vacant) == ["a", "b"]


def test_a_fixed_namespace_knows_its_keys_and_no_others() -> None:
    state = empty(2)
    assert applied(state, declare("0", "1")).count == 0
    assert refused(state, declare("0", "2")).reason is Reason.SHARD_NOT_FOUND


def test_declaring_beyond_max_shards_declares_nothing() -> None:
    state = empty(policy=Policy(max_shards=2))
    assert refused(state, declare("a", "b", "c")).reason is Reason.QUOTA_EXCEEDED
    applied(state, declare("a", "b"))
    assert "room for 0" in refused(state, declare("c")).detail
    applied(state, set_policy(Policy(max_shards=1)))
    assert "room for 0" in refused(state, declare("c")).detail


# -- retiring ----------------------------------------------------------------------------------


def test_an_unowned_shard_is_forgotten_at_once_and_may_be_born_again() -> None:
    state = empty()
    applied(state, declare("a"))
    applied(state, retire("a"))
    assert refused(state, retire("a")).reason is Reason.SHARD_NOT_FOUND
    assert applied(state, declare("a")).created


def test_an_owned_shard_is_forgotten_only_when_its_owner_has_stopped_it() -> None:
    state = fleet(1, 1, kind=OPEN)
    first = epoch(state)
    applied(state, retire("0"))
    assert held(state, "e1") == {"0": "release"}
    applied(state, retire("0"))
    release(state)
    assert space(state).shards == {}
    applied(state, declare("0"))
    assign(state, ("0", "e1"))
    assert epoch(state) > first


def test_a_parked_shard_can_be_retired_before_and_after_its_owner_stopped() -> None:
    state = fleet(1, 2, kind=OPEN)
    applied(state, park("0"))
    release(state, "0")
    applied(state, retire("0"))
    applied(state, park("1"))
    applied(state, retire("1"))
    assert refused(state, park("1")).reason is Reason.CONFLICT
    assert applied(state, unpark("1")).count == 0
    release(state, "1")
    assert space(state).shards == {}


def test_a_shard_being_retired_is_forgotten_when_its_owner_is_lost() -> None:
    state = fleet(2, 2, kind=OPEN)
    applied(state, retire("0"))
    applied(state, close("e1", ("0", "e2")))
    assert owners(state) == {"1": "e2"}


def test_shards_of_a_fixed_namespace_cannot_be_retired() -> None:
    state = fleet(1, 1)
    assert refused(state, retire("0")).reason is Reason.CONFLICT


# -- parking -----------------------------------------------------------------------------------


def test_a_parked_shard_is_stopped_by_its_owner_and_run_by_nobody() -> None:
    state = fleet(1, 1)
    applied(state, park("0", "poison"))
    assert held(state, "e1") == {"0": "release"}
    release(state)
    after = shard(state)
    assert (after.state, after.fate, after.note) == (ShardState.PARKED, Fate.PARKED, "poison")
    assert assign(state, ("0", "e1")).count == 0


def test_a_vacant_shard_is_parked_at_once() -> None:
    state = empty(1)
    applied(state, park("0"))
    assert (shard(state).state, shard(state).cause) == (ShardState.PARKED, Cause.OPERATOR)


def test_a_vacant_shard_that_is_parked_still_knows_who_had_it_last() -> None:
    state = fleet(2, 2)
    applied(state, close("e1"))
    applied(state, park("0"))
    assert shard(state).previous == "e1"


def test_parking_twice_is_parking_once_and_keeps_the_first_reason() -> None:
    state = empty(1)
    applied(state, park("0", "first"))
    applied(state, park("0", "second"))
    assert shard(state).note == "first"


def test_an_unparked_shard_is_vacant_and_unparking_another_is_no_change() -> None:
    state = empty(2)
    applied(state, park("0"))
    assert applied(state, unpark("0")).count == 1
    assert (shard(state).state, shard(state).note) == (ShardState.VACANT, "")
    assert applied(state, unpark("1")).count == 0


def test_unknown_shards_are_named() -> None:
    state = fleet(1, 1, kind=OPEN)
    orders: tuple[c.Command, ...] = (retire("9"), park("9"), unpark("9"), pin("9", "e1"))
    for order in (*orders, unpin("9")):
        assert refused(state, order).reason is Reason.SHARD_NOT_FOUND


# -- pinning -----------------------------------------------------------------------------------


def test_a_pin_binds_a_shard_without_moving_it_by_itself() -> None:
    state = fleet(2, 1)
    applied(state, pin("0", "e2", "cache"))
    assert (shard(state).pin, shard(state).pin_note) == ("e2", "cache")
    assert owners(state) == {"0": "e1"}
    assert list(space(state).pinned) == ["0"]
    revision = space(state).revision
    applied(state, pin("0", "e2", "cache"))
    assert space(state).revision == revision


def test_a_shard_is_pinned_only_to_an_executor_that_is_there() -> None:
    state = fleet(1, 1)
    assert refused(state, pin("0", "e9")).reason is Reason.EXECUTOR_NOT_FOUND


def test_an_unpinned_shard_is_free_and_unpinning_twice_is_no_change() -> None:
    state = fleet(1, 1)
    applied(state, pin("0", "e1"))
    applied(state, unpin("0"))
    assert (shard(state).pin, shard(state).pin_note) == (None, "")
    revision = space(state).revision
    applied(state, unpin("0"))
    assert space(state).revision == revision


def test_the_reasons_of_a_park_and_of_a_pin_do_not_mix() -> None:
    state = fleet(1, 1)
    applied(state, park("0", "poison"))
    applied(state, pin("0", "e1", "cache"))
    applied(state, unpin("0"))
    assert shard(state).note == "poison"
    applied(state, pin("0", "e1", "cache"))
    applied(state, unpark("0"))
    assert shard(state).pin_note == "cache"


def test_a_pin_outlives_moves_and_the_loss_of_its_executor() -> None:
    state = fleet(2, 1)
    applied(state, pin("0", "e1"))
    assert start(state, "0", "e2", Cause.OPERATOR) == 1
    release(state)
    applied(state, close("e1"))
    assert (owners(state), shard(state).pin) == ({"0": "e2"}, "e1")
