"""What operators order for a namespace, an executor or a host."""

import pytest

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.rules.operators import ORDERS_MAX
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import Pause, Policy, TargetKind
from tests.core.builders import (
    AT_MS,
    NS,
    applied,
    assign,
    cordon,
    drain,
    empty,
    fleet,
    join,
    leaving,
    owners,
    refused,
    release,
    set_policy,
    space,
    start,
    uncordon,
    undrain,
)


def status(state: ClusterState, executor: str) -> str:
    return space(state).status_of(space(state).executors[executor])


# -- policy ------------------------------------------------------------------------------------


def test_a_policy_is_replaced_only_if_it_was_made_from_the_current_one() -> None:
    state = empty()
    applied(state, set_policy(Policy(drain_in_flight=1), version=1))
    assert space(state).info.policy_version == 2
    stale = refused(state, set_policy(Policy(drain_in_flight=2), version=1))
    assert stale.reason is Reason.PRECONDITION_FAILED
    applied(state, set_policy(Policy(drain_in_flight=2)))
    assert space(state).info.policy.drain_in_flight == 2


def test_the_same_policy_again_is_no_change() -> None:
    state = empty()
    revision = space(state).revision
    applied(state, set_policy(Policy()))
    assert (space(state).revision, space(state).info.policy_version) == (revision, 1)


def test_a_longer_lease_stays_the_bound_until_it_is_settled_under_the_same_policy() -> None:
    state = empty(policy=Policy(lease_ttl_s=10))
    applied(state, set_policy(Policy(lease_ttl_s=20)))
    applied(state, set_policy(Policy(lease_ttl_s=5)))
    assert space(state).info.lease_bound_s == 20
    stale = refused(state, c.SettleLease(namespace=NS, policy_version=2))
    assert stale.reason is Reason.PRECONDITION_FAILED
    applied(state, c.SettleLease(namespace=NS, policy_version=3))
    assert space(state).info.lease_bound_s == 5
    revision = space(state).revision
    applied(state, c.SettleLease(namespace=NS, policy_version=3))
    assert space(state).revision == revision


# -- drains and cordons ------------------------------------------------------------------------


def test_draining_twice_is_draining_once_and_keeps_the_first_ones_name() -> None:
    state = fleet(1, 0)
    assert applied(state, drain("e1")).created
    second = applied(
        state,
        c.StartDrain(
            namespace=NS,
            id="other",
            kind=TargetKind.EXECUTOR,
            target="e1",
            reason="again",
            by="someone",
            at_ms=AT_MS,
        ),
    )
    assert (second.resource, second.created) == ("drain-e1", False)


def test_an_undrain_says_whether_there_was_anything_to_end() -> None:
    state = fleet(1, 0)
    applied(state, drain("e1"))
    ended = applied(state, undrain("e1"))
    assert (ended.resource, ended.count) == ("drain-e1", 1)
    assert applied(state, undrain("e1")).count == 0


def test_a_drained_executor_gets_no_shards_until_it_is_undrained() -> None:
    state = fleet(2, 2, are_placed=False)
    applied(state, drain("e1"))
    assert assign(state, ("0", "e1")).count == 0
    applied(state, undrain("e1"))
    assert assign(state, ("0", "e1")).count == 1


def test_a_cordoned_executor_gets_no_shards_and_keeps_what_it_has() -> None:
    state = fleet(2, 2)
    assert applied(state, cordon("e1")).created
    assert not applied(state, cordon("e1")).created
    assert status(state, "e1") == "cordoned"
    assert start(state, "1", "e1") == 0
    assert owners(state)["0"] == "e1"
    assert applied(state, uncordon("e1")).count == 1
    assert applied(state, uncordon("e1")).count == 0
    assert start(state, "1", "e1") == 1


def test_a_host_may_be_drained_or_cordoned_before_its_executors_come() -> None:
    state = empty(1)
    applied(state, drain("h1", TargetKind.HOST))
    applied(state, cordon("h2", TargetKind.HOST))
    applied(state, join("e1"))
    applied(state, join("e2"))
    assert (status(state, "e1"), status(state, "e2")) == ("drained", "cordoned")
    assert assign(state, ("0", "e1"), ("0", "e2")).count == 0


@pytest.mark.parametrize("order", [drain("e9"), cordon("e9")])
def test_an_executor_must_be_there_to_be_drained_or_cordoned(order: c.Command) -> None:
    assert refused(fleet(1, 0), order).reason is Reason.EXECUTOR_NOT_FOUND


def test_a_drain_counts_the_shards_that_left_and_is_done_when_all_are_gone() -> None:
    state = fleet(2, 4)
    applied(state, drain("e1"))
    applied(state, drain("h1", TargetKind.HOST))
    assert status(state, "e1") == "draining"
    for key in ("0", "2"):
        start(state, key, "e2", Cause.DRAIN)
        assert status(state, "e1") == "draining"
        release(state, key)
    assert status(state, "e1") == "drained"
    moved = {kind: one.moved for (kind, _), one in space(state).drains.items()}
    assert moved == {TargetKind.EXECUTOR: 2, TargetKind.HOST: 2}


def test_a_drain_is_not_done_while_a_shard_is_still_on_its_way_in() -> None:
    state = fleet(2, 2)
    start(state, "1", "e1")
    applied(state, drain("e1"))
    start(state, "0", "e2", Cause.DRAIN)
    release(state, "0")
    assert status(state, "e1") == "draining"


def test_an_executor_that_says_it_leaves_is_emptied_without_a_drain() -> None:
    state = fleet(2, 2)
    applied(state, leaving("e1"))
    assert status(state, "e1") == "draining"
    assert start(state, "1", "e1") == 0


def test_orders_are_bounded_in_number() -> None:
    state = empty()
    for number in range(ORDERS_MAX):
        state.apply(drain(f"x{number}", TargetKind.HOST))
        state.apply(cordon(f"x{number}", TargetKind.HOST))
    for order in (drain("h1", TargetKind.HOST), cordon("h1", TargetKind.HOST)):
        assert refused(state, order).reason is Reason.QUOTA_EXCEEDED


# -- pausing -----------------------------------------------------------------------------------


def test_a_second_pause_replaces_the_first_and_a_resume_ends_it() -> None:
    state = empty()
    for until_ms in (None, 5):
        applied(
            state,
            c.PauseBalancer(namespace=NS, reason="r", by="ops", at_ms=1, until_ms=until_ms),
        )
    assert space(state).info.pause == Pause(reason="r", by="ops", since_ms=1, until_ms=5)
    assert applied(state, c.ResumeBalancer(namespace=NS)).count == 1
    assert space(state).info.pause is None
    assert applied(state, c.ResumeBalancer(namespace=NS)).count == 0
