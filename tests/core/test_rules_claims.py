"""What a claim is worth, in which order claims count, and what a window forbids."""

from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.claims import EPOCH_SLACK_S, epoch_ceiling, rank
from coordinator.core.commands import Reason
from coordinator.core.events import EventKind
from coordinator.core.shard import Cause, Fate, ShardState
from coordinator.core.state import NAMESPACES_MAX, ClusterState
from coordinator.core.types import EPOCH_MAX, EPOCH_SHIFT_BITS, NamespaceKind, Policy, TargetKind
from coordinator.core.window import ClaimWindow
from tests.core.builders import (
    AT_MS,
    EPOCH_BASE,
    NS,
    applied,
    assign,
    claim,
    close,
    close_window,
    cordon,
    create,
    drain,
    empty,
    epoch,
    evict,
    fleet,
    held,
    inherit,
    join,
    leaving,
    move,
    owners,
    park,
    refused,
    retire,
    set_policy,
    shard,
    space,
    unpark,
)

OLD = 7
"""An epoch of the cluster that is no more."""


def recovering(
    executors: int = 2, shards: int = 3, *, kind: NamespaceKind = NamespaceKind.FIXED
) -> ClusterState:
    """Executors that have joined a namespace whose window is open; nobody owns anything."""
    state = empty(shards, kind=kind, is_recovering=True)
    for number in range(1, executors + 1):
        applied(state, join(f"e{number}"))
    return state


def survivor(executors: int = 2, shards: int = 2) -> ClusterState:
    """A table that is older than what executors know: its window is opened again."""
    state = fleet(executors, shards)
    image = state.image()
    former = image.namespaces[0].info
    info = replace(former, window=ClaimWindow(lease_s=10.0, epoch_floor=state.next_epoch))
    return ClusterState.from_image(
        replace(image, namespaces=(replace(image.namespaces[0], info=info),))
    )


def kinds(state: ClusterState) -> list[EventKind]:
    return [event.kind for event in space(state).events]


def later_join(executor: str, claimed: int, number: int = 2) -> c.JoinExecutor:
    command = join(executor, f"{executor}-{number}")
    return c.JoinExecutor(
        namespace=NS,
        executor=executor,
        incarnation=command.incarnation,
        profile=command.profile,
        at_ms=AT_MS,
        claimed=claimed,
    )


# -- a window ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(NamespaceKind))
def test_a_namespace_begins_with_a_window_of_its_own_lease(kind: NamespaceKind) -> None:
    state = empty(2, kind=kind, policy=Policy(lease_ttl_s=30), is_recovering=True)
    assert space(state).info.window == ClaimWindow(lease_s=30, epoch_floor=EPOCH_BASE)


def test_a_longer_lease_in_a_window_does_not_make_it_longer() -> None:
    state = recovering()
    applied(state, set_policy(Policy(lease_ttl_s=300)))
    window = space(state).info.window
    assert window is not None
    assert window.lease_s == Policy().lease_ttl_s


def test_nobody_is_placed_or_moved_while_a_window_is_open() -> None:
    state = recovering(shards=2)
    assert assign(state, ("0", "e1")).count == 0
    assert refused(state, move("0", "e1")).reason is Reason.RECOVERING
    applied(state, claim("e1", ("0", OLD)))
    assert refused(state, move("0", "e2")).reason is Reason.RECOVERING
    applied(state, close("e1", ("0", "e2")))
    assert owners(state) == {"0": None, "1": None}
    close_window(state)
    assert assign(state, ("0", "e1"), ("1", "e2")).count == 1
    applied(state, move("0", "e2"))


def test_a_window_is_closed_once_and_only_that_of_the_namespace_that_is_meant() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    created = space(state).info.created_revision
    other = c.CloseWindow(namespace=NS, created_revision=created + 1, at_ms=AT_MS)
    assert refused(state, other).reason is Reason.CONFLICT
    close_window(state)
    assert space(state).info.window is None
    revision = space(state).revision
    close_window(state)
    assert space(state).revision == revision
    assert kinds(state).count(EventKind.CLAIMS_CLOSED) == 1


def test_claims_after_the_window_come_too_late() -> None:
    state = recovering()
    close_window(state)
    assert refused(state, claim("e1", ("0", OLD))).reason is Reason.CONFLICT


# -- one claim -----------------------------------------------------------------------------------


def test_a_held_shard_goes_on_under_a_new_epoch() -> None:
    state = recovering()
    assert applied(state, claim("e1", ("0", OLD), ("2", OLD + 1))).count == 2
    assert owners(state) == {"0": "e1", "1": None, "2": "e1"}
    assert (epoch(state), shard(state).claimed_epoch) == (EPOCH_BASE, OLD)
    assert shard(state).cause is Cause.CLAIM
    assert kinds(state)[-1] is EventKind.CLAIMS_ADOPTED
    assert list(space(state).events)[-1].count == 2


def test_saying_it_again_changes_nothing() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    revision = space(state).revision
    assert applied(state, claim("e1", ("0", OLD))).count == 0
    assert applied(state, claim("e1", ("0", OLD - 1))).count == 0
    assert space(state).revision == revision


def test_the_counter_is_lifted_above_every_epoch_that_is_claimed() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", 5_000), ("1", OLD)))
    assert epoch(state, "0") == 5_001
    assert epoch(state, "1") == 5_002
    assert state.next_epoch == 5_003


def test_a_claim_cannot_lift_the_counter_beyond_what_a_cluster_can_have_given_by_now() -> None:
    state = recovering()
    ceiling = epoch_ceiling(AT_MS)
    assert ceiling == AT_MS // 1000 + EPOCH_SLACK_S << EPOCH_SHIFT_BITS
    assert applied(state, claim("e1", ("0", ceiling + 1))).count == 0
    assert state.next_epoch == EPOCH_BASE
    assert kinds(state)[-1] is EventKind.CLAIMS_REFUSED
    assert applied(state, claim("e1", ("0", ceiling))).count == 1
    assert epoch(state) == ceiling + 1


def test_no_claim_takes_the_last_epoch() -> None:
    assert epoch_ceiling(2**62) == EPOCH_MAX - 1


def test_claimed_shards_of_an_open_namespace_are_born_up_to_its_bound() -> None:
    state = empty(policy=Policy(max_shards=2), is_recovering=True)
    applied(state, join("e1"))
    assert applied(state, claim("e1", ("a", 1), ("b", 2), ("c", 3))).count == 2
    assert owners(state) == {"a": "e1", "b": "e1"}
    assert kinds(state)[-2:] == [EventKind.CLAIMS_ADOPTED, EventKind.CLAIMS_REFUSED]


@pytest.mark.parametrize("key", ["", "k" * 257, "a\nb", "\u0085", "é" * 129])
def test_what_may_not_be_a_key_is_not_born(key: str) -> None:
    state = empty(is_recovering=True)
    applied(state, join("e1"))
    assert applied(state, claim("e1", (key, 1), ("é", 1))).count == 1
    assert list(space(state).shards) == ["é"]


def test_a_fixed_namespace_takes_no_other_keys() -> None:
    state = recovering(shards=2)
    assert applied(state, claim("e1", ("1", OLD), ("2", OLD))).count == 1
    assert list(space(state).shards) == ["0", "1"]


def test_who_is_not_on_record_claims_nothing() -> None:
    state = recovering()
    assert refused(state, claim("e9", ("0", OLD))).reason is Reason.INCARNATION_CLOSED
    assert refused(state, claim("e1", ("0", OLD), incarnation="x")).cause == "expired"
    applied(state, evict("e1"))
    assert refused(state, claim("e1", ("0", OLD))).cause == "evicted"


def test_what_a_successor_says_of_its_predecessors_shards_counts_for_nothing() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    applied(state, join("e1", "e1-2"))
    assert applied(state, claim("e1", ("1", OLD), incarnation="e1-2")).count == 0
    applied(state, inherit("e1"))
    assert owners(state) == {"0": "e1", "1": None, "2": None}


# -- who held it until its lease was lost --------------------------------------------------------


def test_what_was_last_held_goes_back_where_it_was() -> None:
    state = recovering()
    assert applied(state, claim("e1", ("0", OLD), is_held=False)).count == 1
    assert owners(state)["0"] == "e1"


@pytest.mark.parametrize(
    "order",
    [leaving("e1"), drain("e1"), cordon("h1", TargetKind.HOST)],
    ids=["leaving", "drained", "cordoned"],
)
def test_what_runs_is_adopted_of_everybody_what_ran_only_of_who_may_get_shards(
    order: c.Command,
) -> None:
    state = recovering()
    applied(state, order)
    assert applied(state, claim("e1", ("0", OLD), is_held=False)).count == 0
    assert applied(state, claim("e1", ("0", OLD))).count == 1


def test_who_holds_it_keeps_it_before_who_held_it_later_but_above_that_epoch() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    assert applied(state, claim("e2", ("0", OLD + 1), is_held=False)).count == 0
    assert (owners(state)["0"], epoch(state)) == ("e1", EPOCH_BASE)
    assert applied(state, claim("e2", ("0", 9_000), is_held=False)).count == 0
    assert (owners(state)["0"], epoch(state)) == ("e1", 9_001)


# -- two claims ----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["e1", "e2"])
def test_of_two_claims_the_higher_epoch_wins_whichever_comes_first(first: str) -> None:
    state = recovering()
    epochs = {"e1": OLD, "e2": OLD + 1}
    for name in (first, "e2" if first == "e1" else "e1"):
        applied(state, claim(name, ("0", epochs[name])))
    assert owners(state)["0"] == "e2"
    (conflict,) = [e for e in space(state).events if e.kind is EventKind.CLAIM_CONFLICT]
    assert (conflict.executor, conflict.target, conflict.shard) == ("e1", "e2", "0")


def test_of_equal_claims_the_first_stays() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    applied(state, claim("e2", ("0", OLD)))
    assert owners(state)["0"] == "e1"


def test_a_restart_in_between_does_not_make_an_old_claim_young() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    applied(state, join("e1", "e1-2", dead="e1-1"))
    assert (owners(state)["0"], shard(state).claimed_epoch) == ("e1", OLD)
    applied(state, claim("e2", ("0", OLD + 1)))
    assert owners(state)["0"] == "e2"


def test_a_vacant_shard_remembers_how_late_its_last_claim_was() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    applied(state, close("e1"))
    assert applied(state, claim("e2", ("0", OLD - 1))).count == 0
    assert EventKind.CLAIM_CONFLICT not in kinds(state)
    assert applied(state, claim("e2", ("0", OLD))).count == 1


def test_outside_of_a_window_no_claim_is_remembered() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    close_window(state)
    applied(state, close("e1", ("0", "e2")))
    assert (owners(state)["0"], shard(state).claimed_epoch) == ("e2", 0)
    assert rank(None, shard(state)) == epoch(state)


# -- orders in a window --------------------------------------------------------------------------


def test_a_parked_shard_that_somebody_holds_is_stopped_first() -> None:
    state = recovering()
    applied(state, park("0"))
    applied(state, claim("e1", ("0", OLD)))
    assert (shard(state).state, shard(state).executor) == (ShardState.RELEASING, "e1")
    assert held(state, "e1") == {"0": "release"}
    applied(state, unpark("0"))
    assert shard(state).fate is None


def test_a_shard_that_is_being_retired_stays_so_when_its_owner_claims_it_again() -> None:
    state = recovering(kind=NamespaceKind.OPEN)
    applied(state, claim("e1", ("0", OLD)))
    applied(state, retire("0"))
    applied(state, claim("e1", ("0", OLD + 1)))
    assert (shard(state).fate, shard(state).state) == (Fate.RETIRED, ShardState.RELEASING)


def test_a_shard_retired_before_it_was_claimed_is_born_again() -> None:
    state = recovering(kind=NamespaceKind.OPEN)
    applied(state, retire("0"))
    applied(state, claim("e1", ("0", OLD)))
    assert owners(state)["0"] == "e1"


# -- incarnations that live on -------------------------------------------------------------------


def test_an_incarnation_that_lives_on_comes_in_under_its_name() -> None:
    state = recovering(executors=0)
    assert applied(state, later_join("e1", OLD)).created
    assert not applied(state, later_join("e1", OLD)).created


def test_after_the_window_an_unknown_incarnation_is_over() -> None:
    state = recovering(executors=0)
    close_window(state)
    assert refused(state, later_join("e1", OLD)).cause == "expired"
    applied(state, join("e1", "e1-2"))
    assert not applied(state, later_join("e1", OLD)).created


def test_a_process_just_started_is_not_superseded_by_one_that_lives_on() -> None:
    state = recovering()
    assert refused(state, later_join("e1", 9_000)).cause == "superseded"


def test_of_two_that_live_on_under_one_name_the_later_epochs_win() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    assert refused(state, later_join("e1", OLD)).cause == "superseded"
    assert refused(state, later_join("e1", epoch_ceiling(AT_MS) + 1)).cause == "superseded"
    applied(state, later_join("e1", OLD + 1))
    assert space(state).executors["e1"].predecessor is None
    assert owners(state)["0"] == "e1"


def test_who_waits_for_a_predecessor_is_not_superseded_by_a_claim() -> None:
    state = recovering()
    applied(state, claim("e1", ("0", OLD)))
    applied(state, join("e1", "e1-2"))
    assert refused(state, later_join("e1", OLD + 1, number=3)).cause == "superseded"


# -- a table that is older than what executors know ----------------------------------------------


def test_a_claim_of_a_higher_epoch_overrides_an_old_table() -> None:
    state = survivor()
    at = epoch(state)
    assert owners(state) == {"0": "e1", "1": "e2"}
    applied(state, claim("e2", ("0", at + 500)))
    assert (owners(state)["0"], epoch(state)) == ("e2", at + 501)


def test_an_old_table_stands_against_lower_claims_and_agrees_with_equal_ones() -> None:
    state = survivor()
    before = {key: one.epoch for key, one in space(state).shards.items()}
    applied(state, claim("e2", ("0", before["0"] - 1)))
    assert applied(state, claim("e1", ("0", before["0"]))).count == 0
    assert {key: one.epoch for key, one in space(state).shards.items()} == before
    assert owners(state) == {"0": "e1", "1": "e2"}


def test_an_old_table_gives_way_to_what_was_last_held_under_a_higher_epoch() -> None:
    state = survivor()
    applied(state, claim("e2", ("0", epoch(state) + 500), is_held=False))
    assert owners(state)["0"] == "e2"


# -- a namespace deleted while somebody may act --------------------------------------------------


def window_of_its_successor(state: ClusterState) -> float:
    applied(state, c.DeleteNamespace(namespace=NS, force=True))
    twin = ClusterState.from_image(state.image())
    applied(state, create(policy=Policy(lease_ttl_s=1)))
    applied(twin, create(policy=Policy(lease_ttl_s=1)))
    window = space(state).info.window
    assert window == space(twin).info.window
    assert window is not None
    return window.lease_s


def test_a_namespace_waits_for_the_executors_of_one_that_was_deleted_under_them() -> None:
    assert window_of_its_successor(fleet(1, 1, policy=Policy(lease_ttl_s=30))) == 30
    assert window_of_its_successor(empty(policy=Policy(lease_ttl_s=30))) == 1


def test_one_deleted_in_its_window_is_waited_for_as_well() -> None:
    state = empty(policy=Policy(lease_ttl_s=30), is_recovering=True)
    assert window_of_its_successor(state) == 30
    assert window_of_its_successor(state) == 30
    close_window(state)
    assert window_of_its_successor(state) == 1


def test_no_more_is_remembered_of_deleted_namespaces_than_there_may_be() -> None:
    state = ClusterState()
    for number in range(NAMESPACES_MAX + 1):
        applied(state, create(name=f"n{number}"))
        applied(state, c.DeleteNamespace(namespace=f"n{number}"))
    assert len(state.former) == NAMESPACES_MAX
    assert "n0" not in state.former
