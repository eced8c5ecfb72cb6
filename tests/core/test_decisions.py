"""What the balancer decided: kept with its inputs, made once more, held against what came of it."""

from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.controller.decisions import (
    DECISIONS_MAX,
    HISTORY_MAX,
    INPUT_SHARDS_MAX,
    PENDING_MAX,
    Decision,
    DecisionBook,
    Effect,
    Inputs,
    PassEntry,
    Realised,
    again,
    hypothetical,
)
from coordinator.core.controller.effects import AFTER_MIN_S
from coordinator.core.controller.mind import Mind
from coordinator.core.events import EventKind
from coordinator.core.planner import Aims, Holdings, Stack, fleet_figures, plan_pass
from coordinator.core.types import BalancerMode, Policy
from tests.core.builders import set_policy
from tests.core.controller_world import World, quick, settled
from tests.core.planner_fleets import fleet

AIMS = Aims(start_gap=0.2, stop_gap=0.1, budget=9)


def mind_of(world: World) -> Mind:
    assert world.controller is not None
    return world.controller.mind(world.space, world.now)


def skewed(mode: BalancerMode = BalancerMode.ON) -> World:
    """Equal loads that turn uneven once all is placed: there is something to decide."""
    world = settled(World(4, 40, policy=quick(Policy(), mode=mode)))
    heavy = set(world.space.owned("e1"))
    world.load = lambda key: 3.0 if key in heavy else 1.0
    return world


def decided(number: int, shards: int = 0, *, is_dry: bool = False) -> Decision:
    one = fleet(a=[3, 2, 2], b=[])
    holdings = Holdings.of(one.pieces)
    inputs = None
    if shards:
        stack = Stack([f"s{number}-{at}" for at in range(shards)], [1.0] * shards)
        inputs = Inputs(one.seats, Holdings({"a": stack}), AIMS)
    return Decision(
        id=str(number),
        at_ms=number,
        at=0.0,
        plan=plan_pass(one.seats, holdings, AIMS),
        is_dry=is_dry,
        inputs=inputs,
    )


# -- what is kept ------------------------------------------------------------------------------


def test_decisions_their_inputs_and_what_waits_to_be_measured_are_bounded() -> None:
    book = DecisionBook()
    for number in range(DECISIONS_MAX + 10):
        book.add(decided(number, INPUT_SHARDS_MAX // 10))
    assert len(book) == DECISIONS_MAX
    assert book.find("0") is None
    kept = [one for one in book.all() if one.inputs is not None]
    assert len(kept) == 10
    assert book.all()[0].inputs is not None
    assert len(book.pending()) == PENDING_MAX
    for number in range(HISTORY_MAX + 10):
        book.passed(PassEntry(number, number, 1, f"reason {number}"))
    assert len(book.history) == HISTORY_MAX


def test_the_inputs_of_a_forgotten_decision_make_room_for_others() -> None:
    book = DecisionBook()
    for number in range(3 * DECISIONS_MAX):
        book.add(decided(number, INPUT_SHARDS_MAX // DECISIONS_MAX))
    assert all(one.inputs is not None for one in book.all())


def test_moves_to_and_from_executors_that_are_gone_are_left_out_in_thought() -> None:
    plan = decided(1).plan
    weights = {move.key: 1.0 for move in plan.moves}
    both = hypothetical({"a": 7.0, "b": 0.0}, {}, plan, weights)
    assert both.hottest_utilisation == 7.0 - len(plan.moves)
    alone = hypothetical({"a": 7.0}, {}, plan, weights)
    assert alone.hottest_utilisation == 7.0


def test_a_forgotten_decision_explains_no_shard_and_a_later_one_does() -> None:
    book = DecisionBook()
    for number in range(DECISIONS_MAX + 1):
        book.add(decided(number))
    moved = decided(0).plan.moves[0].key
    found = book.of_shard(moved)
    assert found is not None
    assert found.id == str(DECISIONS_MAX)
    assert book.of_shard("other") is None
    for number in range(DECISIONS_MAX):
        book.add(replace(decided(1000 + number), plan=replace(decided(0).plan, moves=())))
    assert book.of_shard(moved) is None


def test_a_dry_run_that_comes_to_the_same_is_counted_and_not_kept_twice() -> None:
    book = DecisionBook()
    first = book.add(decided(1, is_dry=True))
    again_ = book.add(decided(2, is_dry=True))
    assert (len(book), again_.id, again_.repeats, first.repeats) == (1, "1", 1, 0)
    book.add(decided(3))
    assert len(book) == 2


def test_passes_that_come_to_the_same_in_a_row_are_one_entry() -> None:
    book = DecisionBook()
    for at_ms, outcome in ((1, "level"), (2, "level"), (3, "paused"), (4, "level")):
        book.passed(PassEntry(at_ms, at_ms, 1, outcome))
    told = [(entry.first_ms, entry.last_ms, entry.count) for entry in book.history]
    assert told == [(1, 2, 2), (3, 3, 1), (4, 4, 1)]


def test_names_of_decisions_grow_even_within_a_millisecond() -> None:
    book = DecisionBook()
    assert [book.new_id(5), book.new_id(5), book.new_id(9), book.new_id(1)] == ["5", "6", "9", "10"]


def test_the_effect_of_a_decision_that_is_forgotten_is_nothing_to_keep() -> None:
    book = DecisionBook()
    book.realise("gone", Realised(1, fleet_figures({}, {}), 0.0))
    assert len(book) == 0


# -- the leader's own --------------------------------------------------------------------------


def test_the_inputs_of_each_decision_give_the_identical_plan_again() -> None:
    world = skewed().run(60)
    decisions = mind_of(world).decisions.all()
    assert decisions
    for one in decisions:
        assert one.inputs is not None
        assert again(one.inputs) == one.plan


def test_what_came_of_a_decision_is_measured_once_its_moves_are_made() -> None:
    world = skewed().run(40)
    book = mind_of(world).decisions
    first = book.all()[-1]
    assert first.effect is Effect.PENDING
    world.run(AFTER_MIN_S + 20)
    measured = mind_of(world).decisions.find(first.id)
    assert measured is not None
    assert measured.effect is Effect.MEASURED
    assert measured.realised is not None
    assert measured.realised.figures.spread < first.plan.before.spread
    assert measured.realised.moved_load == pytest.approx(3.0 * len(first.plan.moves), rel=0.2)


def test_a_move_tells_in_its_event_what_it_is_to_come_to_and_which_decision_it_was() -> None:
    world = skewed().run(60)
    ids = {one.id for one in mind_of(world).decisions.all()}
    begun = [e for e in world.space.events if e.kind is EventKind.HANDOFF_STARTED]
    assert begun
    for event in begun:
        told, _, number = event.detail.partition(" (decision ")
        assert number.removesuffix(")") in ids
        assert told.startswith(f"it takes {event.executor} from")


def test_a_dry_run_plans_tells_and_measures_and_moves_nothing() -> None:
    world = skewed(BalancerMode.DRY_RUN)
    began = world.now
    world.run(40 + AFTER_MIN_S)
    assert world.sent(c.StartHandoffs, since=began) == []
    assert world.moved(began) == []
    oldest = mind_of(world).decisions.all()[-1]
    assert oldest.is_dry
    assert oldest.realised is not None
    # Nothing was moved; what is told is what the fleet would be like by now if it had been.
    now = fleet_figures(*_loads(world))
    assert oldest.realised.figures.spread < now.spread
    assert {entry.decision for entry in mind_of(world).decisions.history} - {None}


def _loads(world: World) -> tuple[dict[str, float], dict[str, float]]:
    loads = {
        name: sum(world.load(key) or 0.0 for key in world.space.owned(name))
        for name in world.space.executors
    }
    return loads, dict.fromkeys(loads, 1.0)


def test_a_dry_run_that_is_switched_on_makes_the_moves() -> None:
    world = skewed(BalancerMode.DRY_RUN).run(40)
    began = world.now
    world.order(set_policy(quick(Policy())))
    world.run(30)
    assert world.sent(c.StartHandoffs, since=began)


def test_a_namespace_too_large_to_keep_its_inputs_still_tells_what_it_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordinator.core.controller.balance.INPUT_SHARDS_MAX", 10)
    world = skewed().run(40)
    newest = mind_of(world).decisions.all()[0]
    assert newest.inputs is None
    assert newest.plan.moves


def test_what_static_hashing_would_give_is_measured_once_a_minute() -> None:
    world = skewed().run(20)
    mind = mind_of(world)
    assert mind.yardstick is not None
    assert mind.yardstick.modulo.total == pytest.approx(mind.yardstick.ring.total)
    at = mind.measured_at
    world.run(30)
    assert mind.measured_at == at
    world.run(40)
    assert mind.measured_at > at
