"""Whether the others have room for what executors hold that are to be emptied."""

import pytest

from coordinator.core.controller import Controller, Mind
from coordinator.core.controller.room import Room, room_without
from coordinator.core.state import ClusterState
from coordinator.core.types import Policy
from tests.core.builders import (
    applied,
    balancer,
    cordon,
    drain,
    empty,
    fleet,
    move,
    pin,
    space,
    start,
)

NOW = 100.0


def mind_of(state: ClusterState, **loads: float) -> Mind:
    """What a leader knows that heard each executor report this load of each of its shards."""
    mind = Controller(state, 0.0).mind(space(state), 0.0)
    for executor, record in space(state).executors.items():
        owned = list(space(state).owned(executor))
        mind.leases.renew(executor, record.incarnation, 10.0, NOW)
        for at in (NOW - 2.0, NOW):
            mind.loads.fold(executor, dict.fromkeys(owned, loads.get(executor, 0.0)), owned, at)
    return mind


def room(state: ClusterState, *gone: str, **loads: float) -> Room:
    return room_without(space(state), mind_of(state, **loads), set(gone), NOW)


def test_the_load_of_the_emptied_goes_to_those_that_are_left() -> None:
    found = room(fleet(3, 6), "e1", e1=0.2, e2=0.1, e3=0.1)
    assert (found.shards, found.executors, found.capacity, found.pinned) == (2, 2, 2.0, 0)
    assert found.load == pytest.approx(0.4)
    assert found.mean_before == pytest.approx(0.8 / 3)
    assert found.mean_after == pytest.approx(0.4)
    assert (found.mark, found.overload) == (1.0, "")


def test_too_much_is_above_the_high_mark_or_above_what_is_full() -> None:
    loads = {"e1": 0.45, "e2": 0.3, "e3": 0.3}
    assert room(fleet(3, 6), "e1", **loads).overload == (
        "its 2 shards would bring the 2 executors that are left from 70% to 105% of their"
        " capacity, above 100%"
    )
    marked = fleet(3, 6, policy=balancer(high_mark=1.2))
    assert room(marked, "e1", **loads).overload == ""
    low = fleet(3, 6, policy=balancer(high_mark=0.5))
    assert room(low, "e1", e1=0.2, e2=0.2, e3=0.2).overload.endswith("above 50%")


def test_without_a_mark_a_unit_of_its_own_is_held_against_nothing() -> None:
    found = room(fleet(2, 4), "e1", e1=300.0, e2=20.0)
    assert (found.mark, found.overload) == (None, "")
    marked = fleet(2, 4, policy=balancer(high_mark=500.0))
    assert "above 50000%" in room(marked, "e1", e1=300.0, e2=20.0).overload


def test_nobody_left_is_no_room_but_for_who_holds_nothing() -> None:
    alone = room(fleet(1, 2), "e1")
    assert (alone.executors, alone.mean_after) == (0, 0.0)
    assert alone.overload == "no other executor may be given its 2 shards"
    assert room(fleet(2, 0), "e1", "e2").overload == ""
    nobody = room(empty(2), "e1")
    assert (nobody.shards, nobody.mean_before, nobody.overload) == (0, 0.0, "")


def test_who_is_closed_to_shards_is_no_room() -> None:
    state = fleet(3, 6)
    applied(state, cordon("e2"))
    assert room(state, "e1").executors == 1
    applied(state, drain("e3"))
    assert room(state, "e1").overload == "no other executor may be given its 2 shards"


def test_one_drain_after_the_other_does_not_find_the_same_room_twice() -> None:
    state = fleet(4, 4)
    loads = {"e1": 0.3, "e2": 0.3, "e3": 0.3, "e4": 0.3}
    found = []
    for name in ("e1", "e2", "e3"):
        found.append(room(state, name, **loads))
        applied(state, drain(name))  # nothing has moved yet when the next one is ordered
    assert [one.mean_after for one in found] == pytest.approx([0.4, 0.6, 1.2])
    assert [bool(one.overload) for one in found] == [False, False, True]


def test_what_a_cordoned_executor_holds_is_owed_to_nobody() -> None:
    state = fleet(3, 3)
    applied(state, cordon("e3"))
    assert room(state, "e1", e1=0.3, e2=0.3, e3=0.3).mean_after == pytest.approx(0.6)


def test_a_shard_on_its_way_counts_where_it_goes() -> None:
    state = fleet(2, 4)
    start(state, "0", "e2")
    assert room(state, "e1").shards == 1
    assert room(state, "e2").shards == 3


def test_what_is_pinned_there_stays_and_what_is_pinned_elsewhere_does_not() -> None:
    state = fleet(2, 4, policy=Policy())
    applied(state, pin("0", "e1"))
    applied(state, pin("2", "e2"))
    applied(state, move("1", "e1"))
    assert room(state, "e1").pinned == 1
