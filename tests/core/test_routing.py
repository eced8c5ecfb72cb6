"""What a router is told: the whole table, or exactly what changed since it last asked."""

import pytest

from coordinator.core.routing import ChangeRing, changes_after, is_routable
from coordinator.core.types import NamespaceKind, TargetKind
from tests.core.builders import (
    WARM,
    applied,
    close,
    cordon,
    drain,
    epoch,
    fleet,
    park,
    release,
    retire,
    shard,
    space,
    start,
    unpark,
)


def test_the_whole_table_names_every_owner_with_its_epoch_and_every_executor() -> None:
    state = fleet(2, 3)
    table = changes_after(space(state), None)
    assert table.is_snapshot
    assert table.revision == space(state).revision
    assert table.owners == {key: (f"e{int(key) % 2 + 1}", epoch(state, key)) for key in "012"}
    assert list(table.executors) == ["e1", "e2"]
    assert (table.moving, table.parked, table.removed) == ({}, [], [])


def test_a_reader_that_is_up_to_date_gets_an_empty_delta() -> None:
    state = fleet(1, 1)
    delta = changes_after(space(state), space(state).revision)
    assert not delta.is_snapshot
    assert (delta.owners, delta.executors, delta.removed) == ({}, {}, [])


@pytest.mark.parametrize("shift", [-10_000, 1])
def test_a_reader_too_far_behind_or_ahead_gets_the_whole_table(shift: int) -> None:
    state = fleet(1, 1)
    assert changes_after(space(state), space(state).revision + shift).is_snapshot


@pytest.mark.parametrize("warmup", [True, False])
def test_during_a_handoff_the_owner_and_the_next_one_are_named(warmup: bool) -> None:  # noqa: FBT001 - a parameter of the test
    state = fleet(2, 2, policy=WARM) if warmup else fleet(2, 2)
    revision = space(state).revision
    start(state, "0", "e2")
    delta = changes_after(space(state), revision)
    assert delta.owners == {"0": ("e1", epoch(state))}
    assert delta.moving == {"0": "e2"}
    assert list(delta.executors) == ["e1", "e2"]


def test_after_a_move_only_that_shard_is_told() -> None:
    state = fleet(2, 4)
    start(state, "0", "e2")
    revision = space(state).revision
    release(state)
    delta = changes_after(space(state), revision)
    assert delta.owners == {"0": ("e2", epoch(state))}
    assert delta.moving == {}


def test_a_parked_shard_is_told_as_parked_from_the_order_on() -> None:
    state = fleet(1, 1)
    revision = space(state).revision
    applied(state, park("0"))
    assert changes_after(space(state), revision).parked == ["0"]
    release(state)
    assert changes_after(space(state), None).parked == ["0"]
    revision = space(state).revision
    applied(state, unpark("0"))
    delta = changes_after(space(state), revision)
    assert (delta.parked, delta.removed) == ([], ["0"])


def test_a_retired_shard_is_told_as_removed_from_the_order_on() -> None:
    state = fleet(1, 1, kind=NamespaceKind.OPEN)
    revision = space(state).revision
    assert is_routable(shard(state))
    applied(state, retire("0"))
    assert not is_routable(shard(state))
    assert changes_after(space(state), revision).removed == ["0"]
    release(state)
    assert changes_after(space(state), revision).removed == ["0"]
    assert changes_after(space(state), None).removed == []


def test_a_shard_without_an_owner_is_told_as_removed_in_a_delta_only() -> None:
    state = fleet(1, 2)
    revision = space(state).revision
    applied(state, close("e1"))
    delta = changes_after(space(state), revision)
    assert delta.removed == ["0", "1"]
    assert delta.executors == {}
    assert changes_after(space(state), None).removed == []


def test_an_order_on_a_host_tells_of_all_its_executors() -> None:
    state = fleet(2, 2)
    for order in (cordon("h1", TargetKind.HOST), drain("h1", TargetKind.HOST)):
        revision = space(state).revision
        applied(state, order)
        assert list(changes_after(space(state), revision).executors) == ["e1"]


# -- the ring ----------------------------------------------------------------------------------


def test_a_ring_tells_each_name_once_sorted_and_only_what_came_after() -> None:
    ring = ChangeRing(0)
    ring.add(1, ["b", "a"], ["e2"])
    ring.add(2, ["b"], ["e1", "e2"])
    assert ring.since(0) == (["a", "b"], ["e1", "e2"])
    assert ring.since(1) == (["b"], ["e1", "e2"])
    assert ring.since(2) == ([], [])


def test_a_full_ring_drops_its_oldest_changes_and_says_from_where_it_can_tell() -> None:
    ring = ChangeRing(0, names_max=6)
    for revision in range(1, 6):
        ring.add(revision, ["a"], [])
    assert ring.floor == 2
    assert ring.since(1) is None
    assert ring.since(2) == (["a"], [])


def test_one_change_larger_than_the_ring_leaves_it_empty_and_consistent() -> None:
    ring = ChangeRing(0, names_max=3)
    ring.add(1, ["a", "b", "c", "d"], [])
    assert ring.floor == 1
    assert ring.since(0) is None
    assert ring.since(1) == ([], [])
    ring.add(2, ["e"], [])
    assert ring.since(1) == (["e"], [])
