"""What is counted for whoever watches: durations in buckets, handoffs, passes, missing owners."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core import commands as c
from coordinator.core.controller.tempo import RESTING, HandoffEnd, Tempo, unowned_count
from coordinator.core.durations import LONG_S, SHORT_S, Durations
from coordinator.core.planner import Hold, Piece, Seat
from coordinator.core.shard import Cause
from coordinator.core.types import HandoffStart
from tests.core.builders import AT_MS, NS, ack, applied, close, drain, epoch, fleet, space
from tests.core.controller_world import World, quick, settled
from tests.core.planner_fleets import settle


def test_a_bound_is_the_highest_value_of_its_bucket_and_the_last_one_takes_the_rest() -> None:
    durations = Durations((1.0, 2.0))
    for seconds in (0.0, 1.0, 1.5, 2.0, 100.0):
        durations.observe(seconds)
    assert durations.cumulative() == [(1.0, 2), (2.0, 4), (inf, 5)]
    assert durations.total_s == 104.5


@given(st.lists(st.floats(0, 1_000)), st.sampled_from([SHORT_S, LONG_S]))
def test_every_duration_is_counted_once_and_buckets_never_fall(
    seconds: list[float], bounds_s: tuple[float, ...]
) -> None:
    durations = Durations(bounds_s)
    for one in seconds:
        durations.observe(one)
    counts = [count for _, count in durations.cumulative()]
    assert counts == sorted(counts)
    assert counts[-1] == len(seconds)
    for bound_s, count in durations.cumulative():
        assert count == sum(one <= bound_s for one in seconds)


def test_a_handoff_is_timed_from_its_commit_to_its_targets_ownership() -> None:
    state = fleet(executors=2, shards=1)
    source, target = ("e1", "e2") if space(state).shards["0"].executor == "e1" else ("e2", "e1")
    move = HandoffStart("0", epoch(state), target, Cause.BALANCE)
    tempo = Tempo()
    assert tempo.oldest_handoff_s(5.0) == 0.0
    applied(state, c.StartHandoffs(namespace=NS, moves=(move,), at_ms=AT_MS))
    tempo.began(space(state), move, 10.0)
    tempo.look(space(state), [("0", move.epoch)], 10.5)
    assert tempo.oldest_handoff_s(11.0) == 1.0
    applied(state, ack(source, released=[("0", move.epoch)]))
    tempo.look(space(state), [], 12.0)
    assert (tempo.handoffs.total_s, tempo.handoff_ends) == (2.0, {HandoffEnd.ARRIVED: 1})
    assert tempo.oldest_handoff_s(13.0) == 0.0


def test_a_handoff_that_was_refused_is_none_and_one_whose_target_is_lost_did_not_arrive() -> None:
    state = fleet(executors=2, shards=2)
    tempo = Tempo()
    tempo.began(space(state), HandoffStart("gone", 1, "e1", Cause.BALANCE), 1.0)
    tempo.began(space(state), HandoffStart("0", 1, "nobody", Cause.BALANCE), 1.0)
    tempo.look(space(state), [], 2.0)
    assert tempo.handoff_ends == {}
    owner = space(state).shards["0"].executor or ""
    target = "e1" if owner == "e2" else "e2"
    move = HandoffStart("0", epoch(state), target, Cause.BALANCE)
    applied(state, c.StartHandoffs(namespace=NS, moves=(move,), at_ms=AT_MS))
    tempo.look(space(state), [("0", move.epoch)], 3.0)
    applied(state, close(target))
    tempo.look(space(state), [], 4.0)
    assert tempo.handoff_ends == {HandoffEnd.OTHERWISE: 1}
    assert tempo.handoffs.total_s == 0.0


def test_seconds_without_an_owner_are_those_of_every_shard() -> None:
    tempo = Tempo()
    tempo.unowned(0, 10.0)
    assert tempo.unowned_since is None
    tempo.unowned(3, 12.0)  # nobody was without one until now
    tempo.unowned(1, 14.0)
    tempo.unowned(0, 15.5)
    tempo.unowned(0, 99.0)
    assert tempo.unowned_shard_s == 3 * 2.0 + 1 * 1.5
    assert tempo.unowned_since is None
    tempo.unowned(2, 100.0)
    tempo.unowned(5, 101.0)
    assert tempo.unowned_since == 100.0


LEVEL = settle((Seat("a"), Seat("b")), {}, start_gap=0.1, stop_gap=0.1, budget=9)
STUCK = settle(
    (Seat("a"), Seat("b")),
    {"a": [Piece(f"a{number}", 1.0, Hold.PINNED) for number in range(3)]},
    start_gap=0.1,
    stop_gap=0.1,
    budget=9,
)


def test_passes_are_counted_by_their_end_and_blocks_by_their_reason() -> None:
    tempo = Tempo()
    for outcome, plan, seconds in (("level", LEVEL, 0.0), ("off", None, 0.0), ("no", STUCK, 0.2)):
        tempo.pass_begins(50.0)
        tempo.pass_ends(outcome, plan, 50.0 + seconds)
    assert tempo.outcomes == {"level": 1, "no": 1, "off": 1}
    assert tempo.blocked == {"pinned": 1}
    assert tempo.passes.cumulative()[-1] == (inf, 3)
    assert tempo.passes.total_s == pytest.approx(0.2)


def test_a_plan_is_kept_over_passing_trouble_and_forgotten_when_the_balancer_rests() -> None:
    tempo = Tempo()
    tempo.pass_ends("nothing_worth_it", STUCK, 1.0)
    for trouble in ("suspect_executor", "stale_data", "mixed_versions", "mass_failure"):
        tempo.pass_ends(trouble, None, 2.0)
        assert tempo.plan is STUCK
    for rest in RESTING:
        tempo.plan = STUCK
        tempo.pass_ends(rest, None, 3.0)
        assert tempo.plan is None


def test_a_leader_times_every_handoff_of_a_drain_and_the_gap_a_loss_leaves() -> None:
    world = settled(World(executors=3, shards=12, policy=quick()))
    world.run(30.0)  # long enough for loads to be judged by
    controller = world.controller
    assert controller is not None
    tempo = controller.mind(world.space, world.now).tempo
    before = len(world.space.owned("e1"))
    world.order(drain("e1"))
    world.run_until(lambda w: w.status("e1") == "drained", 60.0)
    world.run(2.0)
    assert tempo.handoff_ends[HandoffEnd.ARRIVED] >= before > 0
    assert 0.0 < tempo.handoffs.total_s < before * 5.0
    assert tempo.outcomes
    unowned_s = tempo.unowned_shard_s
    lost = len(world.space.owned("e2"))
    world.members["e2"].die(world.now)
    world.run_until(lambda w: "e2" not in w.space.executors, 60.0)
    settled(world)
    world.run(1.5)
    assert lost > 0
    # A lease that ran out leaves its shards to others in the same commit: nobody waited.
    assert tempo.unowned_shard_s - unowned_s <= lost * 1.0
    assert unowned_count(world.space) == 0
