"""A survivor's namespaces: what the lost members decided last is known to executors alone."""

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.events import EventKind
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import Claim, NamespaceKind, Policy
from tests.core.builders import (
    NS,
    applied,
    close_window,
    epoch,
    fleet,
    go,
    join,
    refused,
    space,
)

BASE = 1 << 40
FIXED = NamespaceKind.FIXED


def forced(executors: int = 2, shards: int = 2) -> ClusterState:
    state = fleet(executors, shards)
    applied(
        state,
        c.ForceNewCluster(cluster_id="c2", former_id="cluster", epoch_base=BASE, at_ms=9),
    )
    return state


def claim(executor: str, key: str, at: int, *, is_held: bool = True) -> c.AdoptClaims:
    return c.AdoptClaims(
        namespace=NS,
        executor=executor,
        incarnation=f"{executor}-1",
        claims=(Claim(key, at),),
        is_held=is_held,
        at_ms=1 << 42,
    )


def ttl(seconds: float) -> Policy:
    return Policy(lease_ttl_s=seconds)


def test_every_namespace_waits_for_what_executors_know_and_keeps_its_table_meanwhile() -> None:
    before = space(fleet(2, 2))
    state = forced()
    window = space(state).info.window
    assert window is not None
    assert (window.lease_s, window.epoch_floor) == (before.info.lease_bound_s, BASE)
    assert space(state).image().shards == before.image().shards
    assert space(state).revision > before.revision
    (opened,) = [e for e in space(state).events if e.kind is EventKind.CLAIMS_OPENED]
    assert (opened.detail, opened.at_ms) == ("cluster cluster is lost", 9)
    move = c.MoveShard(namespace=NS, key="0", target="e2", at_ms=1)
    assert refused(state, move).reason is Reason.RECOVERING


def test_a_window_that_is_open_still_waits_for_the_longest_lease_of_before() -> None:
    state = ClusterState()
    applied(state, c.Bootstrap(cluster_id="cluster", epoch_base=1))
    for policy in (ttl(30.0), ttl(10.0)):
        applied(
            state,
            c.CreateNamespace(namespace=NS, kind=FIXED, shard_count=1, policy=policy, at_ms=0),
        )
        applied(state, c.DeleteNamespace(namespace=NS, force=True))
    applied(
        state,
        c.CreateNamespace(namespace=NS, kind=FIXED, shard_count=1, policy=ttl(5.0), at_ms=0),
    )
    applied(
        state, c.ForceNewCluster(cluster_id="c2", former_id="cluster", epoch_base=BASE, at_ms=9)
    )
    window = space(state).info.window
    assert window is not None
    assert window.lease_s == 30.0


def test_a_shard_that_the_lost_members_moved_stays_where_it_came_to() -> None:
    state = forced()
    known = epoch(state, "0")
    (owner, other) = ("e1", "e2") if "0" in space(state).owned("e1") else ("e2", "e1")
    applied(state, claim(other, "0", known + 7))
    shard = space(state).shards["0"]
    assert (shard.executor, shard.cause, shard.previous) == (other, Cause.CLAIM, owner)
    assert shard.epoch >= BASE


def test_an_older_claim_changes_nothing() -> None:
    state = forced()
    before = space(state).image().shards
    (other,) = [e for e in ("e1", "e2") if "0" not in space(state).owned(e)]
    applied(state, claim(other, "0", epoch(state, "0") - 1))
    assert space(state).image().shards == before


def test_nothing_is_kept_for_one_whose_shards_the_lost_members_may_have_given_away() -> None:
    state = fleet(2, 2)
    go(state, "e1")
    force = c.ForceNewCluster(cluster_id="c2", former_id="cluster", epoch_base=BASE, at_ms=9)
    applied(state, force)
    assert not space(state).reservations
    applied(state, join("e1", "e1-2"))
    assert not space(state).owned("e1")
    (key,) = space(state).vacant
    applied(state, claim("e2", key, epoch(state, key) + 7))
    assert space(state).shards[key].executor == "e2"


def test_who_leaves_while_claims_are_taken_finds_nothing_kept() -> None:
    state = forced()
    go(state, "e1")
    assert not space(state).reservations
    assert space(state).vacant
    close_window(state)
    go(state, "e2")
    assert list(space(state).reservations) == ["e2"]


def test_it_ends_as_any_window_does() -> None:
    state = forced()
    close_window(state)
    assert space(state).info.window is None
