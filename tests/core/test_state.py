"""The one door of the replicated state: namespaces, epochs, revisions, remembered requests."""

import pytest

from coordinator.core import commands as c
from coordinator.core import state as state_module
from coordinator.core.commands import Reason
from coordinator.core.shard import Cause
from coordinator.core.state import MEMBERS_MAX, NAMESPACES_MAX, ONCE_MAX, ClusterState
from coordinator.core.types import EPOCH_MAX, SHARDS_MAX, NamespaceKind, Placement, Policy
from tests.core.builders import (
    EPOCH_BASE,
    NS,
    applied,
    assign,
    bootstrapped,
    close,
    close_window,
    create,
    declare,
    empty,
    epoch,
    fleet,
    join,
    refused,
    space,
)

FIXED, OPEN = NamespaceKind.FIXED, NamespaceKind.OPEN


def once(command: c.Command, key: str = "k", digest: str = "d") -> c.Once:
    return c.Once(key=key, digest=digest, command=command)


# -- bootstrap ---------------------------------------------------------------------------------


def test_a_cluster_is_named_once_and_starts_its_epochs_where_it_is_told() -> None:
    state = ClusterState()
    assert applied(state, c.Bootstrap(cluster_id="c1", epoch_base=500)).created
    assert (state.cluster_id, state.next_epoch) == ("c1", 500)
    again = refused(state, c.Bootstrap(cluster_id="c2", epoch_base=900))
    assert again.reason is Reason.CONFLICT


@pytest.mark.parametrize(
    ("cluster_id", "epoch_base"), [("", 1), ("c", 0), ("c", -1), ("c", EPOCH_MAX + 1)]
)
def test_a_cluster_needs_a_name_and_an_epoch_that_fits(cluster_id: str, epoch_base: int) -> None:
    command = c.Bootstrap(cluster_id=cluster_id, epoch_base=epoch_base)
    assert refused(ClusterState(), command).reason is Reason.INVALID


def test_epochs_given_before_the_bootstrap_stay_behind_the_counter() -> None:
    state = ClusterState()
    applied(state, create(FIXED, 2))
    close_window(state)
    applied(state, join("e1"))
    assign(state, ("0", "e1"), ("1", "e1"))
    applied(state, c.Bootstrap(cluster_id="c1", epoch_base=1))
    assert state.next_epoch == 3


def force(
    cluster_id: str = "c2", former_id: str = "cluster", epoch_base: int = 1 << 40
) -> c.Command:
    return c.ForceNewCluster(
        cluster_id=cluster_id, former_id=former_id, epoch_base=epoch_base, at_ms=9
    )


def test_a_state_goes_on_as_another_cluster_with_epochs_above_all_that_the_lost_ones_gave() -> None:
    state = fleet(1, 2)
    before = space(state).image().shards
    assert applied(state, force()).created
    assert (state.cluster_id, state.former_id, state.next_epoch) == ("c2", "cluster", 1 << 40)
    assert space(state).image().shards == before


def test_epochs_never_go_back_for_another_cluster() -> None:
    state = fleet(1, 2)
    newest = state.next_epoch
    applied(state, force(epoch_base=1))
    assert state.next_epoch == newest


def test_the_same_cluster_is_left_once() -> None:
    state = fleet(1, 2)
    applied(state, force())
    again = applied(state, force(cluster_id="c3"))
    assert (again.resource, again.created) == ("c2", False)
    assert applied(state, force("c3", "c2")).created


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (force(former_id="another"), Reason.CONFLICT),
        (force(former_id=""), Reason.CONFLICT),
        (force(cluster_id=""), Reason.INVALID),
        (force(cluster_id="cluster"), Reason.INVALID),
        (force(epoch_base=0), Reason.INVALID),
        (force(epoch_base=EPOCH_MAX + 1), Reason.INVALID),
    ],
)
def test_a_cluster_that_is_not_meant_or_not_named_is_not_left(
    command: c.Command, reason: Reason
) -> None:
    state = fleet(1, 2)
    before = state.image()
    assert refused(state, command).reason is reason
    assert state.check(command) == refused(state, command)
    assert state.image() == before


def test_a_state_without_a_cluster_goes_on_as_none() -> None:
    assert refused(ClusterState(), force(former_id="")).reason is Reason.CONFLICT


def test_the_last_epoch_can_be_given_and_then_only_what_needs_none_goes_on() -> None:
    state = ClusterState()
    applied(state, c.Bootstrap(cluster_id="c1", epoch_base=EPOCH_MAX))
    applied(state, create(FIXED, 2))
    close_window(state)
    applied(state, join("e1"))
    assign(state, ("0", "e1"))
    assert epoch(state) == EPOCH_MAX
    one_more = c.AssignShards(
        namespace=NS, placements=(Placement("1", "e1"),), cause=Cause.PLACED, at_ms=0
    )
    assert refused(state, one_more).reason is Reason.QUOTA_EXCEEDED
    applied(state, close("e1"))


# -- namespaces --------------------------------------------------------------------------------


def test_a_fixed_namespace_has_its_shards_from_the_start_and_an_open_one_none() -> None:
    assert sorted(space(empty(3)).shards) == ["0", "1", "2"]
    assert not space(empty()).shards


def test_making_a_namespace_again_is_no_change_unless_it_differs() -> None:
    state = empty(3)
    image = state.image()
    assert not applied(state, create(FIXED, 3, policy=Policy(lease_ttl_s=99))).created
    assert state.image() == image
    assert refused(state, create(FIXED, 4)).reason is Reason.NAMESPACE_EXISTS
    assert refused(state, create(OPEN, 0)).reason is Reason.NAMESPACE_EXISTS


@pytest.mark.parametrize("count", [0, -1, 11, SHARDS_MAX + 1])
def test_a_fixed_namespace_has_at_least_one_shard_and_at_most_what_policy_allows(
    count: int,
) -> None:
    policy = Policy(max_shards=10 if count < SHARDS_MAX else 2**62)
    answer = refused(bootstrapped(), create(FIXED, count, policy=policy))
    assert answer.reason is Reason.INVALID


def test_no_policy_allows_more_shards_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.core.rules.shards.SHARDS_MAX", 2)
    state = empty(policy=Policy(max_shards=2**62))
    assert refused(state, declare("a", "b", "c")).reason is Reason.QUOTA_EXCEEDED


def test_namespaces_are_bounded_in_number() -> None:
    state = bootstrapped()
    for number in range(NAMESPACES_MAX):
        state.apply(create(name=f"n{number}"))
    assert refused(state, create(name="more")).reason is Reason.QUOTA_EXCEEDED
    assert not applied(state, create(name="n0")).created


def test_a_namespace_in_which_executors_live_is_deleted_only_by_force() -> None:
    state = fleet(2, 2)
    answer = refused(state, c.DeleteNamespace(namespace=NS))
    assert answer.reason is Reason.NAMESPACE_NOT_EMPTY
    applied(state, c.DeleteNamespace(namespace=NS, force=True))
    assert refused(state, join("e1")).reason is Reason.NAMESPACE_NOT_FOUND
    gone = refused(state, c.DeleteNamespace(namespace=NS))
    assert gone.reason is Reason.NAMESPACE_NOT_FOUND


def test_a_namespace_made_anew_has_later_revisions_and_later_epochs() -> None:
    state = fleet(1, 1)
    old_revision, old_epoch = space(state).revision, epoch(state)
    applied(state, c.DeleteNamespace(namespace=NS, force=True))
    applied(state, create(FIXED, 1))
    close_window(state)
    assert space(state).info.created_revision > old_revision
    applied(state, join("e1"))
    assign(state, ("0", "e1"))
    assert epoch(state) > old_epoch


def test_namespaces_do_not_touch_each_other_even_when_one_name_begins_the_other() -> None:
    state = fleet(1, 1)
    applied(state, create(FIXED, 1, name=NS + "2"))
    before = space(state, NS + "2").image()
    applied(state, close("e1"))
    applied(state, c.DeleteNamespace(namespace=NS))
    assert space(state, NS + "2").image() == before


# -- members that move -------------------------------------------------------------------------


def moved(node: str = "n1", raft: str = "10.0.0.1:1", api: str = "http://a") -> c.MoveMember:
    return c.MoveMember(node=node, raft=raft, api=api)


def test_a_moved_member_is_where_it_was_moved_last_and_each_move_is_newer() -> None:
    state = bootstrapped()
    assert applied(state, moved()) == c.Applied(resource="n1", created=True)
    first = state.moved["n1"].revision
    assert applied(state, moved(raft="10.0.0.2:1")).created
    assert state.moved["n1"].raft == "10.0.0.2:1"
    assert state.moved["n1"].revision > first
    assert ClusterState.from_image(state.image()).image() == state.image()
    assert state.check_invariants() == []
    state.next_revision = 1
    assert "n1: revision 2 was never handed out" in state.check_invariants()


def test_a_move_to_where_a_member_is_changes_nothing() -> None:
    state = bootstrapped()
    applied(state, moved())
    image = state.image()
    assert applied(state, moved()) == c.Applied(resource="n1")
    assert state.image() == image


@pytest.mark.parametrize(
    "command",
    [moved(node=""), moved(raft=""), moved(api=""), moved(raft="h" * 262), moved(api="h" * 513)],
)
def test_a_move_needs_a_name_an_address_and_a_url_of_bounded_length(command: c.MoveMember) -> None:
    assert refused(bootstrapped(), command).reason is Reason.INVALID


def test_two_members_cannot_move_to_one_address() -> None:
    state = bootstrapped()
    applied(state, moved())
    assert refused(state, moved("n2")).reason is Reason.CONFLICT


def test_the_table_of_moved_members_is_bounded_and_those_in_it_can_move_on() -> None:
    state = bootstrapped()
    for number in range(MEMBERS_MAX):
        applied(state, moved(f"n{number}", f"h:{number}"))
    assert refused(state, moved("more", "h:99")).reason is Reason.QUOTA_EXCEEDED
    assert applied(state, moved("n1", "h:99")).created


# -- dry runs and remembered requests ----------------------------------------------------------


def test_a_dry_run_of_any_kind_changes_nothing() -> None:
    state = fleet(1, 1)
    image = state.image()
    for entry in (
        c.Bootstrap(cluster_id="x", epoch_base=1),
        create(name="more"),
        c.DeleteNamespace(namespace=NS, force=True),
        moved(),
        close("e1"),
        once(close("e1")),
    ):
        state.check(entry)
    assert state.image() == image


def test_a_repeated_request_is_answered_from_memory_and_not_done_again() -> None:
    state = empty()
    first = state.apply(once(declare("a")))
    second = state.apply(once(declare("a")))
    assert first == second == c.Applied(count=1, created=True)
    assert state.check(once(declare("a"))) == first
    assert isinstance(first, c.Applied)
    assert state.apply(declare("a")) == c.Applied()


def test_a_refusal_is_remembered_like_any_outcome() -> None:
    state = bootstrapped()
    first = state.apply(once(declare("a")))
    applied(state, create())
    assert state.apply(once(declare("a"))) == first
    assert isinstance(first, c.Refused)


def test_the_same_key_with_another_request_is_refused_and_not_done() -> None:
    state = empty()
    state.apply(once(declare("a")))
    other = once(declare("b"), digest="other")
    assert refused(state, other).reason is Reason.IDEMPOTENCY_KEY_REUSED
    assert list(space(state).shards) == ["a"]


def test_the_oldest_requests_are_forgotten_beyond_the_bound() -> None:
    state = empty()
    for number in range(ONCE_MAX + 1):
        state.apply(once(declare("a"), key=str(number)))
    assert len(state.image().once) == ONCE_MAX
    assert (state.remembers("0"), state.remembers("1")) == (False, True)
    assert state.apply(once(declare("b"), key="0", digest="other")) == c.Applied(
        count=1, created=True
    )


# -- snapshots and self-checks -----------------------------------------------------------------


def test_a_state_made_from_an_image_is_the_same_and_goes_on_with_its_counters() -> None:
    state = fleet(2, 3)
    state.apply(once(declare("0")))
    twin = ClusterState.from_image(state.image())
    assert twin.image() == state.image()
    assert twin.next_epoch == EPOCH_BASE + 3
    assert twin.apply(once(declare("0"))) == c.Applied()
    assert ClusterState.from_image(ClusterState().image()).cluster_id is None


def test_counters_behind_the_tables_are_found_by_the_self_check() -> None:
    state = fleet(1, 1)
    state.next_epoch = epoch(state)
    state.next_revision = space(state).revision
    wrong = state.check_invariants()
    assert len(wrong) == 2
    assert all("was never handed out" in one for one in wrong)
    assert state_module.ClusterState().check_invariants() == []
