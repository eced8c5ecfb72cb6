"""How even a fleet has been: what is noted, what of it outlives a leader, and what it may cost."""

from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.balance_series import (
    PAST_MAX,
    RECENT_MAX,
    BalancePoint,
    RecentPoints,
    extended,
)
from coordinator.core.controller import Mind, sampling
from coordinator.core.controller.facts import balance_facts
from coordinator.core.controller.load_record import PERIOD_S
from coordinator.core.controller.sampling import SAMPLE_S, note_figures, take_sample
from coordinator.core.saved_loads import SavedLoads, Sweep
from coordinator.core.types import BalancerMode
from tests.core.builders import NS, applied, cordon, fleet, space
from tests.core.controller_world import World, quick


def point(at_ms: int) -> BalancePoint:
    return BalancePoint(at_ms, 2.0, 1.0, 0.5, 0.3, executors=4)


def uneven(key: str) -> float:
    return 1.0 + int(key) % 5


def world(shards: int = 40, **fields: object) -> World:
    policy = quick()
    changed = replace(policy, balancer=replace(policy.balancer, **fields))
    return World(4, shards, policy=changed, load=uneven)


def mind(world: World) -> Mind:
    assert world.controller is not None
    return world.controller.mind(world.space, world.now)


# -- keeping ---------------------------------------------------------------------------------


def test_the_past_keeps_its_newest_points_in_order() -> None:
    past: tuple[BalancePoint, ...] = ()
    for at_ms in range(PAST_MAX + 5):
        past = extended(past, point(at_ms))
    assert [one.at_ms for one in past] == list(range(5, PAST_MAX + 5))


def test_a_clock_that_ran_ahead_leaves_no_points_of_the_future() -> None:
    past = extended((point(1), point(2), point(900)), point(3))
    assert [one.at_ms for one in past] == [1, 2, 3]
    recent = RecentPoints()
    for at_ms in (1, 2, 900, 3):
        recent.add(point(at_ms))
    assert [one.at_ms for one in recent.behind((), 0)] == [1, 2, 3]


def test_recent_points_are_bounded_and_stand_behind_the_past_that_they_do_not_cover() -> None:
    recent = RecentPoints()
    assert recent.newest is None
    assert [one.at_ms for one in recent.behind((point(1), point(2)), 1)] == [2]
    for at_ms in range(10, 15 + RECENT_MAX):
        recent.add(point(at_ms))
    assert recent.newest == point(14 + RECENT_MAX)
    found = [one.at_ms for one in recent.behind((point(1), point(14), point(15)), -1)]
    assert found == [1, 14, *range(15, 15 + RECENT_MAX)]
    assert [one.at_ms for one in recent.behind((point(1),), 13 + RECENT_MAX)] == [14 + RECENT_MAX]


# -- what is replicated ----------------------------------------------------------------------


def record(number: int, at: BalancePoint | None, *, is_last: bool = True) -> c.RecordLoads:
    return c.RecordLoads(
        namespace=NS, sweep_ms=7, number=number, chunk=b"x", is_last=is_last, point=at
    )


def test_the_past_goes_on_over_sweeps_and_over_chunks_without_a_point() -> None:
    state = fleet()
    applied(state, record(0, point(1)))
    applied(state, record(0, None, is_last=False))
    assert space(state).loads.past == (point(1),)
    applied(state, record(1, point(2)))
    assert space(state).loads == SavedLoads(Sweep(7, (b"x", b"x")), past=(point(1), point(2)))


# -- what a leader notes ---------------------------------------------------------------------


def test_a_point_is_taken_each_few_seconds_and_says_what_operators_are_answered() -> None:
    quiet = world(mode=BalancerMode.OFF).run(30.0)
    found = mind(quiet).recent.behind((), 0)
    assert len(found) == pytest.approx(30.0 / SAMPLE_S, abs=2)
    quiet.run(SAMPLE_S)
    newest = mind(quiet).recent.newest
    assert newest is not None
    facts = balance_facts(quiet.space, mind(quiet), quiet.now, 0)
    assert newest.hottest == pytest.approx(facts.figures.hottest_utilisation)
    assert newest.mean == pytest.approx(facts.figures.mean)
    assert newest.coldest == pytest.approx(facts.figures.coldest_utilisation)
    assert newest.best_possible == pytest.approx(facts.bound.max)
    assert newest.executors == 4
    assert newest.static_hash is None  # nobody had looked at it
    quiet.run(SAMPLE_S)
    later = mind(quiet).recent.newest
    assert facts.hashed is not None
    assert later is not None
    assert later.static_hash == facts.hashed.modulo.hottest_utilisation


def test_a_point_a_minute_is_in_the_state_and_a_new_leader_shows_it() -> None:
    busy = world().run(2 * PERIOD_S + 5)
    past = busy.space.loads.past
    assert len(past) == 2
    recent = mind(busy).recent.behind((), 0)
    assert set(past) <= set(recent)
    busy.elect()
    assert mind(busy).recent.newest is None
    assert mind(busy).recent.behind(busy.space.loads.past, 0) == list(past)


def test_nothing_is_noted_where_there_is_nothing_to_see() -> None:
    empty = World(0, 10).run(20.0)
    assert mind(empty).recent.newest is None


def test_very_many_shards_are_not_counted_for_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SEEN_MAX", 10)
    monkeypatch.setattr(sampling, "BOUND_MAX", 10)
    quiet = world(mode=BalancerMode.OFF).run(30.0)
    assert mind(quiet).recent.newest is None  # no pass that counted them
    busy = world().run(60.0)
    found = mind(busy)
    assert found.last_pass is not None
    assert found.last_pass.plan is not None
    newest = found.recent.newest
    assert newest is not None
    found.sampled_at = 0.0
    take_sample(busy.space, found, busy.now, newest.at_ms + 1)
    again = found.recent.newest
    assert again is not None
    assert again.hottest == found.last_pass.plan.before.hottest_utilisation
    assert again.best_possible == found.last_pass.plan.bound.max


def test_of_a_few_thousand_shards_the_best_possible_is_what_a_pass_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "BOUND_MAX", 10)
    quiet = world(mode=BalancerMode.OFF).run(30.0)
    newest = mind(quiet).recent.newest
    assert newest is not None
    assert newest.best_possible is None


def test_where_nobody_may_be_given_shards_there_is_no_best_placement() -> None:
    drained = world(mode=BalancerMode.OFF).run(20.0)
    for name in drained.space.executors:
        drained.order(cordon(name))
    drained.run(SAMPLE_S + 1)
    newest = mind(drained).recent.newest
    assert newest is not None
    assert newest.best_possible is None


def test_figures_that_somebody_worked_out_are_noted_when_it_is_time() -> None:
    quiet = world(mode=BalancerMode.OFF).run(20.0)
    found = mind(quiet)
    facts = balance_facts(quiet.space, found, quiet.now, 0)
    newest = found.recent.newest
    assert newest is not None
    at_ms = newest.at_ms + 1
    found.sampled_at = quiet.now
    note_figures(quiet.space, found, facts.figures, None, now=quiet.now, at_ms=at_ms)
    assert found.recent.newest == newest
    later = quiet.now + SAMPLE_S
    note_figures(quiet.space, found, facts.figures, None, now=later, at_ms=at_ms)
    assert found.recent.newest.at_ms == at_ms
