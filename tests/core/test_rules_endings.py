"""Ends of processes that owned more shards than one command passes on."""

import pytest

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.controller import Controller, Need
from coordinator.core.events import EventKind
from coordinator.core.rules import endings
from coordinator.core.shard import ShardState
from coordinator.core.state import ClusterState
from coordinator.core.types import CloseCause, Placement
from tests.core.builders import (
    AT_MS,
    NS,
    applied,
    close,
    evict,
    fleet,
    go,
    held,
    inherit,
    join,
    owners,
    park,
    refused,
    space,
    start,
)
from tests.core.test_controller_mind import beat
from tests.core.test_properties import WALKS, begun, overlap, walk

SHARDS = 7
NOW = 1000.0


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "AT_ONCE", 2)


def loaded() -> ClusterState:
    """Two executors; `e1` owns all."""
    state = fleet(1, SHARDS)
    applied(state, join("e2"))
    return state


def go_on(state: ClusterState, *placements: tuple[str, str], executor: str = "e1") -> c.Applied:
    record = space(state).executors[executor]
    return applied(
        state,
        c.ContinueEnding(
            namespace=NS,
            executor=executor,
            incarnation=record.incarnation,
            placements=tuple(Placement(*one) for one in placements),
            at_ms=AT_MS + 5,
        ),
    )


def to_the_end(state: ClusterState, executor: str = "e1") -> int:
    steps = 0
    while (record := space(state).executors.get(executor)) is not None and record.ending:
        go_on(state)
        assert state.check_invariants() == []
        steps += 1
    return steps


def test_each_command_of_a_large_loss_passes_on_so_many_shards_and_the_last_ends_the_record() -> (
    None
):
    state = loaded()
    first = applied(state, close("e1", ("0", "e2")))
    assert first.count == 2
    assert owners(state)["0"] == "e2"
    assert owners(state)["1"] is None
    assert space(state).executors["e1"].evicted
    assert go_on(state, ("2", "e2")).count == 2
    assert owners(state)["2"] == "e2"
    assert to_the_end(state) == 2
    assert "e1" not in space(state).executors
    assert len(space(state).vacant) == SHARDS - 2


def test_what_is_left_of_a_closed_incarnation_nobody_may_act_on_and_nobody_renews_it() -> None:
    state = loaded()
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    command = close("e1")
    controller.learn(command, state.apply(command), state, NOW)
    assert held(state, "e1") == {}
    refusal = mind.judge(space(state), beat("e1", sequence=2))
    assert isinstance(refusal, c.Refused)
    assert refusal.cause is CloseCause.EXPIRED
    assert refused(state, close("e1", incarnation="other")).reason is Reason.CONFLICT


def test_a_leader_goes_on_at_once_whether_or_not_it_began_and_waits_for_nobody() -> None:
    state = loaded()
    applied(state, close("e1"))
    controller = Controller(state, NOW)  # the next leader
    mind = controller.mind(space(state), NOW)
    mind.next_pass_at = NOW + 1e6
    sent: list[type[c.Command]] = []
    while commands := controller.step(state, NOW, AT_MS).commands:
        for command in commands:
            outcome = state.apply(command)
            assert isinstance(outcome, c.Applied)
            assert outcome.count <= 2 or not isinstance(command, c.ContinueEnding)
            controller.learn(command, outcome, state, NOW)
            sent.append(type(command))
    assert sent.count(c.ContinueEnding) == 3
    assert set(owners(state).values()) == {"e2"}


def test_a_lost_executor_is_ended_part_by_part_with_homes_for_each() -> None:
    state = loaded()
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    assert mind.hear(space(state), beat("e2", received_at=NOW + 10))
    sent: list[c.Command] = []
    while commands := controller.step(state, NOW + 10.2, AT_MS).commands:
        for command in commands:
            controller.learn(command, state.apply(command), state, NOW + 10.2)
            sent.append(command)
    parts = [one for one in sent if isinstance(one, c.CloseIncarnation | c.ContinueEnding)]
    assert [type(one) for one in sent] == [c.CloseIncarnation, *[c.ContinueEnding] * 3]
    assert [len(one.placements) for one in parts] == [2, 2, 2, 1]
    assert mind.expirations_total == 1
    assert set(owners(state).values()) == {"e2"}


def test_a_successor_is_shown_nothing_before_all_was_passed_over_to_it() -> None:
    state = loaded()
    before = {key: shard.epoch for key, shard in space(state).shards.items()}
    applied(state, join("e1", "e1-2", dead="e1-1"))
    assert held(state, "e1", "e1-2") == {}
    while space(state).executors["e1"].ending is not None:
        assert held(state, "e1", "e1-2") == {}
        go_on(state)
    assert len(held(state, "e1", "e1-2")) == SHARDS
    assert all(shard.epoch > before[key] for key, shard in space(state).shards.items())
    told = [one for one in space(state).events if one.kind is EventKind.SHARDS_INHERITED]
    assert [one.count for one in told] == [SHARDS]


def test_a_leader_goes_on_passing_over_to_a_successor_and_places_nothing() -> None:
    state = loaded()
    applied(state, join("e1", "e1-2", dead="e1-1"))
    controller = Controller(state, NOW)
    controller.mind(space(state), NOW).next_pass_at = NOW + 1e6
    while commands := controller.step(state, NOW, AT_MS).commands:
        for command in commands:
            assert isinstance(command, c.ContinueEnding)
            assert command.placements == ()
            controller.learn(command, applied(state, command), state, NOW)
    assert len(held(state, "e1", "e1-2")) == SHARDS


def test_a_lease_that_ran_out_is_the_beginning_of_the_same() -> None:
    state = loaded()
    applied(state, join("e1", "e1-2"))
    applied(state, inherit("e1", "e1-1"))
    assert space(state).executors["e1"].predecessor == "e1-1"
    applied(state, inherit("e1", "e1-1"))  # proposed twice
    assert to_the_end(state) == 2
    assert len(held(state, "e1", "e1-2")) == SHARDS


def test_who_comes_while_its_predecessors_shards_are_given_away_gets_the_rest_at_once() -> None:
    state = loaded()
    applied(state, close("e1", ("0", "e2"), ("1", "e2")))
    applied(state, join("e1", "e1-2"))
    to_the_end(state)
    assert len(held(state, "e1", "e1-2")) == SHARDS - 2
    assert owners(state)["0"] == "e2"


def test_who_comes_while_another_is_given_its_shards_gets_them_instead() -> None:
    state = loaded()
    applied(state, join("e1", "e1-2", dead="e1-1"))
    applied(state, join("e1", "e1-3"))
    assert space(state).executors["e1"].predecessor == "e1-1"
    to_the_end(state)
    assert len(held(state, "e1", "e1-3")) == SHARDS
    assert held(state, "e1", "e1-2") == {}


def test_one_that_is_evicted_while_it_is_given_shards_loses_all_of_them() -> None:
    state = loaded()
    applied(state, join("e1", "e1-2", dead="e1-1"))
    go_on(state)
    applied(state, evict("e1"))
    to_the_end(state)
    assert "e1" not in space(state).executors
    assert len(space(state).vacant) == SHARDS


def test_one_that_is_closed_by_order_meanwhile_goes_on_with_that() -> None:
    state = loaded()
    applied(state, close("e1"))
    applied(state, evict("e1"))
    assert applied(state, close("e1", cause=CloseCause.EVICTED)).count == 2
    to_the_end(state)
    assert len(space(state).vacant) == SHARDS


def test_a_crash_strikes_all_of_them_alike() -> None:
    state = loaded()
    command = close("e1")
    applied(
        state,
        c.CloseIncarnation(
            **{
                **{f: getattr(command, f) for f in command.__dataclass_fields__},
                "is_crash": True,
                "withhold_at": 1,
            }
        ),
    )
    go_on(state, ("2", "e2"))
    to_the_end(state)
    strikes = {shard.strikes for shard in space(state).shards.values()}
    assert len(strikes) == 1
    assert len(strikes.pop()) == 1
    assert len(space(state).vacant) == SHARDS  # withheld: to be placed anew, each of them


def test_handoffs_and_parks_of_later_parts_come_to_their_end() -> None:
    state = loaded()
    start(state, "5", "e2")
    applied(state, park("6"))
    applied(state, close("e1"))
    to_the_end(state)
    assert owners(state)["5"] == "e2"
    assert space(state).shards["6"].state is ShardState.PARKED


def test_what_is_kept_for_one_that_will_be_back_goes_in_one_command() -> None:
    """Its return is one command as well."""
    state = loaded()
    go(state, "e1")
    assert "e1" not in space(state).executors
    assert len(space(state).reserved("e1")) == SHARDS
    applied(state, join("e1", "e1-2"))
    assert len(held(state, "e1", "e1-2")) == SHARDS


def test_there_is_nothing_to_go_on_with_where_nothing_has_ended() -> None:
    state = loaded()
    command = c.ContinueEnding(
        namespace=NS, executor="e1", incarnation="e1-1", placements=(), at_ms=AT_MS
    )
    assert refused(state, command).reason is Reason.CONFLICT
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    assert mind.judge(space(state), beat("e1")) is not Need.WAIT


# -- any order of commands ---------------------------------------------------------------------


def test_a_long_history_keeps_the_invariants_where_each_end_takes_many_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endings, "AT_ONCE", 1)
    under_way = 0
    for seed in range(WALKS):
        state = begun()
        for command in walk(seed, state):
            state.apply(command)
            assert state.check_invariants() == [], (seed, command)
            under_way += any(one.ending for one in space(state).executors.values())
    assert under_way > WALKS


def test_nobody_acts_on_what_another_may_act_on_where_each_end_takes_many_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endings, "AT_ONCE", 1)
    assert [found for seed in range(2 * WALKS) if (found := overlap(seed))] == []
