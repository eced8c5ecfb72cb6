"""What crashes leave on shards, and what the leader's conclusions do to them."""

from dataclasses import replace
from typing import Any

from coordinator.core import commands as c
from coordinator.core.events import EventKind
from coordinator.core.rules.poisoned import STRIKES_MAX, struck
from coordinator.core.shard import Cause, Shard, ShardState
from coordinator.core.state import ClusterState
from coordinator.core.strikes import Strike, StrikeKind
from tests.core.builders import (
    AT_MS,
    NS,
    ack,
    applied,
    close,
    fleet,
    join,
    move,
    owners,
    park,
    refused,
    shard,
    space,
    unpark,
)


def crash(state: ClusterState, name: str, *placements: tuple[str, str], **fields: Any) -> None:
    """The executor's incarnation ends as a crash."""
    record = space(state).executors[name]
    ended = close(name, *placements, incarnation=record.incarnation)
    applied(state, replace(ended, **{"is_crash": True, **fields}))


def give(state: ClusterState, key: str, executor: str) -> None:
    applied(state, move(key, executor))


def strikes(state: ClusterState, key: str = "0") -> list[str]:
    return [one.executor for one in shard(state, key).strikes]


def poison(key: str = "0", strikes: int = 1) -> c.ParkPoison:
    return c.ParkPoison(namespace=NS, key=key, strikes=strikes, note="why", at_ms=AT_MS)


def forget(*keys: str) -> c.ForgetStrikes:
    return c.ForgetStrikes(namespace=NS, keys=keys, reason="storm", at_ms=AT_MS)


def kinds(state: ClusterState) -> list[EventKind]:
    return [event.kind for event in space(state).events]


def test_a_crash_is_a_strike_for_every_shard_that_was_there_and_for_no_other() -> None:
    state = fleet(2, 4)
    there = [key for key, owner in owners(state).items() if owner == "e1"]
    crash(state, "e1")
    assert {key: strikes(state, key) for key in owners(state)} == {
        key: ["e1"] if key in there else [] for key in owners(state)
    }
    assert sorted(space(state).struck) == there


def test_an_end_that_is_no_crash_is_no_strike() -> None:
    state = fleet(2, 4)
    crash(state, "e1", is_crash=False, withhold_at=1)
    assert not space(state).struck


def test_a_restart_in_place_is_a_strike_that_tells_no_shard_from_another() -> None:
    state = fleet(1, 2)
    for number in (2, 3):
        applied(
            state,
            replace(join("e1", f"e1-{number}"), predecessor_dead=f"e1-{number - 1}", is_crash=True),
        )
    assert [one.is_fresh for one in shard(state).strikes] == [True, False]
    assert shard(state).executor == "e1"


def test_a_successor_that_waited_inherits_with_a_strike() -> None:
    state = fleet(1, 2)
    applied(state, join("e1", "e1-2"))
    assert not space(state).struck
    applied(
        state,
        c.InheritShards(
            namespace=NS, executor="e1", predecessor="e1-1", at_ms=AT_MS, is_crash=True
        ),
    )
    assert strikes(state) == ["e1"]


def test_shards_with_so_many_crashes_turn_vacant_instead_of_passing_over() -> None:
    state = fleet(2, 4)
    crash(state, "e2")
    give(state, "1", "e1")
    applied(
        state,
        replace(join("e1", "e1-2"), predecessor_dead="e1-1", is_crash=True, withhold_at=2),
    )
    assert shard(state, "1").state is ShardState.VACANT
    assert shard(state, "1").previous == "e1"
    assert list(owners(state).values()).count("e1") == 2


def test_a_closed_incarnations_suspects_go_nowhere_although_a_home_is_named() -> None:
    state = fleet(2, 2)
    mine = next(key for key, owner in owners(state).items() if owner == "e1")
    crash(state, "e1", (mine, "e2"), withhold_at=1)
    assert shard(state, mine).state is ShardState.VACANT


def test_a_failed_start_is_a_strike() -> None:
    state = fleet(2, 2)
    owner = owners(state)["0"]
    assert owner is not None
    applied(state, ack(owner, failed=[("0", shard(state).epoch)]))
    only = shard(state).strikes[0]
    assert (only.kind, only.executor) == (StrikeKind.FAILED_START, owner)


def test_strikes_are_bounded_and_the_oldest_go_first() -> None:
    one = Shard(key="x")
    for number in range(STRIKES_MAX + 5):
        one = struck(one, Strike(kind=StrikeKind.CRASH, executor=str(number), at_ms=0))
    assert [s.executor for s in one.strikes] == [str(n) for n in range(5, STRIKES_MAX + 5)]


def test_poison_is_parked_with_its_strikes_and_an_event_that_says_why() -> None:
    state = fleet(2, 4)
    mine = next(key for key, owner in owners(state).items() if owner == "e1")
    crash(state, "e1")
    applied(state, poison(mine))
    parked = shard(state, mine)
    assert (parked.state, parked.note, len(parked.strikes)) == (ShardState.PARKED, "why", 1)
    event = list(space(state).events)[-1]
    assert (event.kind, event.cause, event.executor, event.detail) == (
        EventKind.SHARD_PARKED,
        "poison",
        "e1",
        "why",
    )


def test_a_shard_is_not_parked_for_what_is_no_longer_so() -> None:
    state = fleet(2, 4)
    mine = next(key for key, owner in owners(state).items() if owner == "e1")
    assert refused(state, poison("nope")).reason is c.Reason.SHARD_NOT_FOUND
    crash(state, "e1")
    assert refused(state, poison(mine, strikes=2)).reason is c.Reason.CONFLICT
    give(state, mine, "e2")
    assert refused(state, poison(mine)).reason is c.Reason.CONFLICT


def test_an_unparked_shard_begins_with_a_clean_record() -> None:
    state = fleet(2, 4)
    mine = next(key for key, owner in owners(state).items() if owner == "e1")
    crash(state, "e1")
    applied(state, poison(mine))
    applied(state, unpark(mine))
    assert shard(state, mine).state is ShardState.VACANT
    assert not shard(state, mine).strikes


def test_strikes_are_forgotten_but_not_of_parked_shards() -> None:
    state = fleet(2, 6)
    first, second, third = (key for key, owner in owners(state).items() if owner == "e1")
    crash(state, "e1")
    applied(state, park(third))
    assert applied(state, forget(first, second, third, "nope")).count == 2
    assert [strikes(state, key) for key in (first, second, third)] == [[], [], ["e1"]]
    assert kinds(state)[-1] is EventKind.STRIKES_FORGOTTEN
    before = space(state).revision
    assert applied(state, forget(first)).count == 0
    assert space(state).revision == before


def test_a_shard_keeps_its_strikes_wherever_it_goes() -> None:
    state = fleet(3, 3)
    mine = next(key for key, owner in owners(state).items() if owner == "e1")
    crash(state, "e1")
    give(state, mine, "e2")
    crash(state, "e2")
    assert strikes(state, mine) == ["e1", "e2"]
    assert shard(state, mine).cause is Cause.LOST
