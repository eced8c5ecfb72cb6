"""A balancing pass in slices: what may happen between them, and how long one may take."""

from dataclasses import dataclass, field, replace

import pytest

from coordinator.core import commands as c
from coordinator.core.controller import Beat, Controller, Mind, Step
from coordinator.core.controller.balance import SLICE_WORK
from coordinator.core.controller.fleet import see
from coordinator.core.controller.picture import taking_picture
from coordinator.core.controller.tallies import Tallies, held_keys, moving_out
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Aims, Hold, Piece, Slices, finished, plan_pass, planning
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import Placement
from tests.core.builders import (
    AT_MS,
    NS,
    applied,
    assign,
    balancer,
    close,
    drain,
    empty,
    join,
    park,
    pin,
    profile,
    release,
    space,
    start,
)
from tests.core.controller_world import Held

NOW = 1000.0
SHARDS = 6_000
"""Enough for a pass of several slices; few enough to be made in a moment."""


@dataclass
class Large:
    """A leader of a few executors with many shards, all heard and a pass about to be due."""

    executors: int = 3
    shards: int = SHARDS
    state: ClusterState = field(init=False)
    controller: Controller = field(init=False)

    def __post_init__(self) -> None:
        policy = balancer(move_budget_ratio=1.0, max_in_flight=8, max_in_flight_per_executor=8)
        self.state = empty(self.shards, policy=policy)
        for number in range(1, self.executors + 1):
            applied(self.state, join(f"e{number}"))
        # The first one has twice as many.
        places = [f"e{max(1, n % (self.executors + 1))}" for n in range(self.shards)]
        for first in range(0, self.shards, 1000):
            some = range(first, min(self.shards, first + 1000))
            homes = tuple(Placement(str(n), places[n]) for n in some)
            applied(
                self.state,
                c.AssignShards(namespace=NS, placements=homes, cause=Cause.PLACED, at_ms=AT_MS),
            )
        self.controller = Controller(self.state, NOW)
        self.controller.step(self.state, NOW, AT_MS)
        self.mind.next_pass_at = NOW + 20
        self.hear(NOW + 18, 1)

    @property
    def space(self) -> NamespaceState:
        return space(self.state)

    @property
    def mind(self) -> Mind:
        return self.controller.mind(self.space, NOW)

    def hear(self, now: float, sequence: int) -> None:
        for executor in self.space.executors:
            shards = {key: Held(1, 1.0 + int(key) % 7) for key in self.space.owned(executor)}
            beat = Beat(
                executor=executor,
                incarnation=f"{executor}-1",
                sequence=sequence,
                joining=True,
                profile=profile(executor),
                shards=shards,
                received_at=now,
                at_ms=AT_MS,
            )
            assert self.mind.hear(self.space, beat)

    def step(self, now: float = NOW + 20) -> Step:
        return self.controller.step(self.state, now, AT_MS)

    def until_commands(self) -> tuple[int, Step]:
        for steps in range(1, 1000):
            step = self.step()
            if step.commands or step.wake_at > NOW + 20:
                return steps, step
        raise AssertionError("a pass that never ends")


def end(state: ClusterState, executor: str) -> None:
    """It is lost with all that it owned, in as many commands as it takes."""
    applied(state, close(executor))
    while executor in space(state).executors:
        applied(
            state,
            c.ContinueEnding(
                namespace=NS,
                executor=executor,
                incarnation=f"{executor}-1",
                placements=(),
                at_ms=AT_MS,
            ),
        )


def moved(step: Step) -> list[tuple[str, str]]:
    return [
        (move.key, move.target)
        for command in step.commands
        if isinstance(command, c.StartHandoffs)
        for move in command.moves
    ]


def test_a_pass_over_many_shards_takes_several_steps_that_ask_to_be_called_at_once() -> None:
    large = Large()
    first = large.step()
    assert (first.commands, first.wake_at) == ((), NOW + 20)
    assert large.mind.passing is not None
    steps, last = large.until_commands()
    assert steps > 1
    assert len(moved(last)) == 8
    assert large.mind.passing is None
    assert large.mind.last_pass is not None


def test_the_plan_in_slices_is_the_plan_at_once() -> None:
    one, other = Large(), Large()
    _, step = one.until_commands()
    picture = finished(taking_picture(other.space, other.mind, NOW + 20))
    aims = Aims(start_gap=0.2, stop_gap=0.1, budget=8, per_executor=8)
    plan = plan_pass(picture.seats, picture.holdings, aims)
    assert moved(step) == [(move.key, move.target) for move in plan.moves]


def test_no_slice_is_much_larger_than_it_should_be() -> None:
    large = Large()
    slices: list[Slices[object]] = [taking_picture(large.space, large.mind, NOW + 20)]
    picture = finished(taking_picture(large.space, large.mind, NOW + 20))
    for budget in (0, 8, 200):
        aims = Aims(start_gap=0.01, stop_gap=0.005, budget=budget)
        slices.append(planning(picture.seats, picture.holdings, aims))
    for some in slices:
        assert max(some) <= 5 * SLICE_WORK  # the list of an executor with half of the shards


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
def test_a_loss_comes_first_and_none_of_its_shards_is_then_moved(after: int) -> None:
    large = Large()
    for _ in range(after):
        large.step()
    gone = set(large.space.owned("e1"))
    end(large.state, "e1")
    # A pass that had already planned to move them has nothing left of it.
    for _ in range(200):
        step = large.step()
        assert not {key for key, _ in moved(step)} & gone
        for command in step.commands:
            applied(large.state, command)
        if large.mind.last_pass is not None and not large.space.vacant:
            break
    assert large.mind.passing is None
    assert not large.space.vacant


def test_what_was_pinned_parked_or_moved_meanwhile_is_left_out_of_the_plan() -> None:
    steps, step = Large().until_commands()
    planned = moved(step)
    large = Large()
    for _ in range(steps - 1):  # all but the last slice: the picture was taken long ago
        large.step()
    assert large.mind.passing is not None
    applied(large.state, pin(planned[0][0], "e1"))
    applied(large.state, park(planned[1][0]))
    start(large.state, planned[2][0], "e3", Cause.OPERATOR)
    _, last = large.until_commands()
    assert moved(last) == planned[3:]


def test_a_pause_that_comes_during_a_pass_ends_it_without_a_move() -> None:
    large = Large()
    large.step()
    applied(large.state, c.PauseBalancer(namespace=NS, reason="", by="", at_ms=0))
    _, step = large.until_commands()
    assert step.commands == ()
    assert large.mind.last_pass is not None
    assert large.mind.last_pass.skipped == "paused"


def test_an_executor_whose_set_changes_while_the_picture_is_taken_is_taken_again() -> None:
    large = Large()
    taking = taking_picture(large.space, large.mind, NOW + 20)
    for _ in range(3):
        next(taking)
    start(large.state, "1", "e3")
    applied(large.state, join("e4"))
    end(large.state, "e2")
    picture = finished(taking)
    keys = [key for stack in picture.holdings.stacks.values() for key in stack.keys]
    owned = [
        key for e in ("e1", "e3") for key in held_keys(large.space, e, moving_out(large.space))
    ]
    assert sorted(keys) == sorted(owned)
    assert "1" in picture.holdings.stacks["e3"].keys
    assert picture.holdings.holds["1"] is Hold.IN_FLIGHT
    assert [seat.executor for seat in picture.seats] == ["e1", "e3", "e4"]


def test_a_shard_that_failed_to_start_somewhere_is_kept_away_from_there_by_balance() -> None:
    large = Large()
    _, step = large.until_commands()
    key, target = moved(step)[0]
    again = Large()
    record = again.space.shards[key].replace(cause=Cause.FAILED, previous=target)
    assert again.mind.failures.ready([record], ["e1", "e2", "e3"], NOW + 20) == [record]
    _, other = again.until_commands()
    assert moved(other)
    assert (key, target) not in moved(other)
    picture = finished(taking_picture(again.space, again.mind, NOW + 20))
    assert picture.holdings.bans == {key: frozenset({target})}
    assert picture.holdings.piece(key, 1.0) == Piece(key, 1.0, None, frozenset({target}))


def test_executors_are_counted_again_when_something_of_theirs_changed() -> None:
    large = Large()
    before = see(large.space, large.mind, NOW + 20)
    assert see(large.space, large.mind, NOW + 20) == before
    moving = next(iter(large.space.owned("e1")))
    load = large.mind.loads.smoothed(moving)
    assert load is not None
    start(large.state, moving, "e2")
    during = see(large.space, large.mind, NOW + 20)
    assert during.counts["e1"] == before.counts["e1"] - 1
    assert during.loads["e2"] == pytest.approx(before.loads["e2"] + load)
    assert [s.in_flight for s in during.seats] == [1, 1, 0]
    large.hear(NOW + 21, 2)
    large.mind.loads.restore([("new", 5.0, 0.5)], NOW + 21)
    assert see(large.space, large.mind, NOW + 21).loads == pytest.approx(during.loads)
    end(large.state, "e3")
    assert see(large.space, large.mind, NOW + 21).counts.keys() == {"e1", "e2"}


def test_an_owed_move_comes_between_two_slices() -> None:
    large = Large()
    large.step()
    applied(large.state, drain("e2"))
    step = large.step()
    assert {move.cause for cmd in step.commands for move in cmd.moves} == {Cause.DRAIN}  # type: ignore[attr-defined]
    assert large.mind.passing is not None


def test_a_claim_window_that_opens_ends_the_pass_and_no_step_is_asked_for_at_once() -> None:
    large = Large()
    large.step()
    window = empty(1, is_recovering=True)
    large.space.info = replace(large.space.info, window=space(window).info.window)
    large.space.revision += 1
    assert large.space.info.window is not None
    assert large.step().wake_at > NOW + 20
    assert large.mind.passing is None


def test_stale_loads_end_a_pass_with_the_picture() -> None:
    large = Large()
    for executor in large.space.executors:
        large.mind.leases.renew(executor, f"{executor}-1", 60.0, NOW + 40)
    steps = [large.step(NOW + 40) for _ in range(50)]
    assert all(step.commands == () for step in steps)
    assert large.mind.last_pass is not None
    assert large.mind.last_pass.skipped == "stale_data"


def test_shards_never_measured_count_as_the_median_and_stay_and_who_is_gone_is_left_out() -> None:
    large = Large()
    for key in ("1", "2"):
        large.mind.loads.forget(key)
    taking = taking_picture(large.space, large.mind, NOW + 20)
    next(taking)
    end(large.state, "e1")
    picture = finished(taking)
    assert "e1" not in picture.holdings.stacks
    assert [seat.executor for seat in picture.seats] == ["e2", "e3"]
    loads = dict(
        zip(picture.holdings.stacks["e2"].keys, picture.holdings.stacks["e2"].loads, strict=True)
    )
    assert loads["2"] == large.mind.loads.median()
    assert picture.holdings.holds == dict.fromkeys(("2",), Hold.UNMEASURED)
    assert 0.0 < picture.stale_ratio < 0.001


def test_tallies_follow_each_change_as_if_all_were_counted_again() -> None:
    """With a million shards to count them again takes 0.2 s, in each step of a large loss."""
    large = Large()
    see(large.space, large.mind, NOW + 20)
    start(large.state, "1", "e2")  # under way
    start(large.state, "2", "e3", Cause.OPERATOR)
    release(large.state, "2")
    applied(large.state, park("3"))
    end(large.state, "e3")
    assign(large.state, ("6", "e1"), ("7", "e2"))
    followed = see(large.space, large.mind, NOW + 20)
    large.mind.tallies = Tallies(large.mind.loads, large.mind.steady)
    counted = see(large.space, large.mind, NOW + 20)
    assert followed.counts == counted.counts
    assert followed.loads == pytest.approx(counted.loads)


def test_a_report_of_all_that_is_owned_is_not_looked_up_again() -> None:
    large = Large()
    picture = finished(taking_picture(large.space, large.mind, NOW + 20))
    sheet = large.mind.loads.sheet("e1")
    assert sheet is not None
    assert picture.holdings.stacks["e1"].keys is sheet.keys
    assert sorted(sheet.keys) == sorted(large.space.owned("e1"))
    assert list(sheet.means) == large.mind.loads.loads_of(sheet.keys)
    start(large.state, "1", "e2")
    picture = finished(taking_picture(large.space, large.mind, NOW + 20))
    assert picture.holdings.stacks["e1"].keys is not sheet.keys
    assert "1" in picture.holdings.stacks["e2"].keys
