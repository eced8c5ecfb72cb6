"""Deploys and late joiners over virtual time: what restarts move, and where shards go meanwhile."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.shard import Cause
from coordinator.core.types import BalancerMode, HandoffPolicy, Policy
from tests.core.builders import NS, drain, end_reservation, evict
from tests.core.controller_world import TICK_S, World, quick, settled

BOUND_S = Policy().lease_ttl_s * 1.01
OFF = quick(mode=BalancerMode.OFF)


def fleet(executors: int, shards: int, *, policy: Policy | None = None, **loads: float) -> World:
    """A fleet at rest, every executor of version v1; loads are 1 except where they are given."""
    heavy = {key.removeprefix("k"): load for key, load in loads.items()}
    world = World(executors, shards, policy=policy or quick(), load=lambda key: heavy.get(key, 1.0))
    for member in world.members.values():
        member.version = "v1"
    # Until loads are known and a leader that may balance has done so.
    return settled(world).run(1 if policy is OFF else 15)


def restart(world: World, name: str, version: str, *, back_within_s: float, down_s: float) -> None:
    """One executor ends in good order and comes back."""
    member = world.members[name]
    member.say_leaving(back_within_s)
    world.run(1)
    if back_within_s == 0.0:
        world.run_until(lambda w: not w.space.owned(name), 30)
    world.leave(name)
    world.run(down_s)
    member.come_back(version)
    world.run_until(lambda w: name in w.space.executors, 5)


def moves(world: World, since: float) -> list[tuple[float, str, str, str]]:
    """Each change of owner since then as (when, shard, source, target), restarts left out."""
    last: dict[str, str] = {}
    found: list[tuple[float, str, str, str]] = []
    for at, key, owner in world.log:
        if owner is None:
            continue
        if at > since and last.get(key, owner) != owner:
            found.append((at, key, last[key], owner))
        last[key] = owner
    return found


def is_level(world: World, within: int = 1) -> bool:
    return max(world.counts.values()) - min(world.counts.values()) <= within


# -- rolling deploys ---------------------------------------------------------------------------


def test_a_rolling_deploy_of_executors_that_will_be_back_moves_nothing() -> None:
    world = fleet(8, 40)
    before, since = world.owners, world.now
    epochs = {key: one.epoch for key, one in world.space.shards.items()}
    for name in sorted(world.members):
        restart(world, name, "v2", back_within_s=20, down_s=4)
        world.run_until(World.is_settled, 3)
        world.run(3)
    world.run(60)
    assert world.owners == before
    assert moves(world, since) == []
    assert world.sent(c.StartHandoffs, since) == []
    assert world.controller is not None
    assert world.controller.mind(world.space, world.now).away_since == {}
    assert all(one.epoch > epochs[key] for key, one in world.space.shards.items())


def test_each_shard_is_down_for_no_longer_than_its_executor() -> None:
    world = fleet(4, 20)
    since = world.now
    for name in sorted(world.members):
        restart(world, name, "v2", back_within_s=20, down_s=4)
        world.run(3)
    gone: dict[str, float] = {}
    for at, key, owner in world.log:
        if at > since and owner is None:
            gone[key] = at
        elif at > since:
            assert at - gone[key] <= 4 + 3 * TICK_S
    assert len(gone) == 20


def test_all_executors_that_restart_at_once_and_will_be_back_keep_every_shard() -> None:
    world = fleet(5, 20)
    before = world.owners
    for member in world.members.values():
        member.say_leaving(20)
    world.run(1)
    for name in world.members:
        world.leave(name)
    world.run(6)
    assert set(world.owners.values()) == {None}
    for member in world.members.values():
        member.come_back("v2")
    world.run_until(World.is_settled, 3)
    assert world.owners == before


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("gap_s", [2, 12])
def test_in_a_rolling_deploy_with_handoff_a_shard_moves_only_off_who_restarts_and_to_the_new(
    together: int, gap_s: float
) -> None:
    world = fleet(8, 40)
    names = sorted(world.members)
    for at in range(0, len(names), together):
        leaving, since = names[at : at + together], world.now
        new = set(names[:at])
        for name in leaving:
            world.members[name].say_leaving()
        world.run_until(lambda w: not any(w.space.owned(one) for one in leaving), 30)  # noqa: B023
        for name in leaving:
            world.leave(name)
        world.run(3)
        for name in leaving:
            world.members[name].come_back("v2")
        world.run(gap_s)
        if at + together < len(names):
            made = moves(world, since)
            assert {source for _, _, source, _ in made} <= set(leaving)
            assert len({key for _, key, _, _ in made}) == len(made)
            assert {target for *_, target in made} <= (new or set(names))
    world.run(60)
    assert is_level(world)


@pytest.mark.parametrize("seed", range(8))
def test_leaders_that_are_lost_at_any_moment_of_a_deploy_change_nothing_of_that(seed: int) -> None:
    rng = random.Random(seed)
    world = fleet(6, 24, policy=quick(Policy(handoff=HandoffPolicy(warmup=seed % 2 == 0))))
    new: set[str] = set()
    for name in sorted(world.members):
        since, back_within_s = world.now, rng.choice((0.0, 25.0))
        world.members[name].say_leaving(back_within_s)
        upset(world, rng)
        world.run_until(lambda w: w.space.executors[name].profile.status == "leaving", 5)  # noqa: B023
        if not back_within_s:
            world.run_until(lambda w: not w.space.owned(name), 30)  # noqa: B023
        world.leave(name)
        upset(world, rng)
        world.members[name].come_back("v2")
        upset(world, rng)
        world.run_until(lambda w: name in w.space.executors, 5)  # noqa: B023
        made = moves(world, since)
        assert {source for _, _, source, _ in made} <= {name}
        assert not made or back_within_s == 0.0
        assert {target for *_, target in made} <= (new or set(world.members))
        new.add(name)
        if len(new) == len(world.members) - 1:
            break  # with the last of them versions differ no more


def upset(world: World, rng: random.Random) -> None:
    """Some seconds in which a leader may be lost and another one come."""
    world.run(rng.choice((0.1, 0.5, 2.0)))
    if rng.random() < 0.5:
        world.lose_leader()
        world.run(rng.choice((0.1, 1.0, 3.0)))
        world.elect()
        world.run(rng.choice((0.1, 0.5, 2.0)))


def test_a_deploy_that_is_rolled_back_goes_to_the_former_version_again() -> None:
    world = fleet(6, 30)
    for name in ("e1", "e2"):
        restart(world, name, "v2", back_within_s=0, down_s=2)
    restart(world, "e1", "v1", back_within_s=0, down_s=2)
    since = world.now
    restart(world, "e2", "v1", back_within_s=0, down_s=2)
    assert "e2" not in {target for *_, target in moves(world, since)}
    assert moves(world, since) != []
    world.run(60)
    assert is_level(world)


def test_one_executor_of_a_new_version_does_not_get_all_that_was_lost() -> None:
    world = fleet(10, 100, policy=OFF)
    restart(world, "e1", "v2", back_within_s=20, down_s=2)
    world.run(2)
    fair = 100 / 6
    for name in ("e7", "e8", "e9", "e10"):
        world.members[name].is_alive = False
    world.run_until(lambda w: len(w.space.executors) == 6, 20)
    settled(world, 5)
    counts = world.counts
    assert fair < counts.pop("e1") <= 2 * fair + 1
    assert max(counts.values()) - min(counts.values()) <= 1


def test_nothing_is_moved_for_balance_while_versions_differ_up_to_the_hold() -> None:
    world = fleet(4, 40, policy=replace(quick(), mixed_version_hold_s=60))
    world.add("e5").version = "v2"
    since = world.now
    world.run(59)
    mind = world.controller.mind(world.space, world.now) if world.controller else None
    assert mind is not None
    assert mind.last_pass is not None
    assert mind.last_pass.skipped == "mixed_versions"
    assert moves(world, since) == []
    world.run(60)
    assert is_level(world)
    # From then on a canary is an executor like any other: nothing is brought to it but its share.
    since = world.now
    world.members["e1"].is_alive = False
    world.run_until(lambda w: "e1" not in w.space.executors, 20)
    assert {target for *_, target in moves(world, since)} == {"e2", "e3", "e4", "e5"}


def test_versions_that_come_and_go_do_not_hold_the_balance_for_ever() -> None:
    world = fleet(4, 40, policy=replace(quick(), mixed_version_hold_s=60))
    world.add("e5").version = "v2"
    since = world.now
    for number in range(12):
        world.run(10)
        world.add(f"x{number}").version = ("v1", "v2")[number % 2]
    assert moves(world, since) != []


def test_who_is_away_counts_as_the_version_that_it_had() -> None:
    world = fleet(2, 12)
    restart(world, "e1", "v2", back_within_s=20, down_s=2)
    world.add("e3").version = "v2"
    world.members["e2"].say_leaving(20)
    world.run(1)
    world.leave("e2")
    since = world.now
    world.run(10)
    assert world.sent(c.StartHandoffs, since) == []


# -- who does not come back, or not in good order ----------------------------------------------


def test_who_is_not_back_in_time_is_followed_by_others_and_its_shards_move_once() -> None:
    world = fleet(3, 12)
    since = world.now
    world.members["e1"].say_leaving(6)
    world.run(1)
    world.leave("e1")
    took_s = world.run_until(lambda w: None not in w.owners.values(), 20)
    assert took_s == pytest.approx(6, abs=3 * TICK_S)
    world.run(30)
    assert len(moves(world, since)) == 4
    world.members["e1"].come_back("v1")
    world.run(60)
    assert is_level(world)


def test_nobody_is_relieved_of_what_it_means_to_keep() -> None:
    world = fleet(3, 12)
    for key in world.owners:
        world.order(c.MoveShard(namespace=NS, key=key, target="e1", at_ms=0))
    world.run(3 * TICK_S)
    world.members["e1"].say_leaving(20)
    world.tick()
    since = world.now
    assert world.counts["e1"] >= 10
    world.run(30)
    assert world.sent(c.StartHandoffs, since) == []


def test_a_promise_is_cut_to_what_the_namespace_allows() -> None:
    world = fleet(3, 12, policy=replace(quick(), return_window_s=5))
    world.members["e1"].say_leaving(600)
    world.run(1)
    world.leave("e1")
    took_s = world.run_until(lambda w: None not in w.owners.values(), 20)
    assert took_s == pytest.approx(5, abs=3 * TICK_S)


@pytest.mark.parametrize(("back_within_s", "owned_after_s"), [(20.0, 20.0), (6.0, BOUND_S)])
def test_who_dies_on_its_way_out_is_waited_for_from_its_last_word_on(
    back_within_s: float, owned_after_s: float
) -> None:
    world = fleet(3, 12)
    member = world.members["e1"]
    member.say_leaving(back_within_s)
    world.tick()
    member.is_alive = False
    took_s = world.run_until(
        lambda w: "e1" not in w.space.executors and None not in w.owners.values(), 40
    )
    assert took_s == pytest.approx(owned_after_s, abs=5 * TICK_S)


def test_who_died_on_its_way_out_and_is_back_in_time_has_its_shards_again() -> None:
    world = fleet(3, 12)
    before = world.owners
    member = world.members["e1"]
    member.say_leaving(25)
    world.tick()
    member.is_alive = False
    world.run(15)
    assert list(world.space.reservations) == ["e1"]
    member.come_back("v1")
    world.run_until(World.is_settled, 3)
    assert world.owners == before


def test_a_new_leader_waits_the_whole_window_again_and_never_less() -> None:
    world = fleet(3, 12)
    world.members["e1"].say_leaving(8)
    world.run(1)
    world.leave("e1")
    world.run(5)
    world.elect()
    took_s = world.run_until(lambda w: not w.space.reservations, 20)
    assert took_s == pytest.approx(8, abs=3 * TICK_S)


def test_a_leader_that_stood_still_counts_that_time_against_nobody() -> None:
    world = fleet(3, 12)
    world.members["e1"].say_leaving(8)
    world.run(1)
    world.leave("e1")
    world.run(5)
    assert world.controller is not None
    world.controller.stood_still(10)
    took_s = world.run_until(lambda w: not w.space.reservations, 20)
    assert took_s == pytest.approx(13, abs=3 * TICK_S)


@pytest.mark.parametrize("order", [drain("e1"), evict("e1")], ids=["drain", "evict"])
def test_an_order_meanwhile_places_the_shards_at_once(order: c.Command) -> None:
    world = fleet(3, 12)
    world.members["e1"].say_leaving(20)
    world.run(1)
    world.leave("e1")
    world.run(1)
    world.order(order)
    assert world.run_until(lambda w: None not in w.owners.values(), 5) <= 2 * TICK_S
    assert isinstance(world.state.apply(end_reservation("e1")), c.Refused)


def test_a_drain_moves_away_what_a_leaving_executor_meant_to_keep() -> None:
    world = fleet(3, 12)
    world.members["e1"].say_leaving(20)
    world.run(5)
    assert world.status("e1") == "cordoned"
    assert len(world.space.owned("e1")) == 4
    world.order(drain("e1"))
    world.run_until(lambda w: w.status("e1") == "drained", 5)


# -- what others reported ----------------------------------------------------------------------


def test_after_a_restart_of_one_and_then_the_other_the_load_is_level_again_within_a_minute() -> (
    None
):
    world = fleet(2, 12)
    restart(world, "e1", "v1", back_within_s=0, down_s=3)
    assert world.counts == {"e1": 0, "e2": 12}
    world.run(5)
    restart(world, "e2", "v1", back_within_s=0, down_s=3)
    assert world.counts["e1"] == 12
    world.run(60)
    assert world.counts == {"e1": 6, "e2": 6}


def test_a_returning_executor_is_not_taken_for_an_empty_one() -> None:
    world = fleet(3, 30)
    before, since = world.owners, world.now
    restart(world, "e2", "v1", back_within_s=20, down_s=8)
    world.run(90)
    assert world.owners == before
    assert moves(world, since) == []


def test_large_shards_that_move_in_do_not_move_straight_out_again() -> None:
    policy = quick(cooldown_s=0.0, move_budget_ratio=1.0)
    world = fleet(3, 24, policy=policy, k0=6.0, k1=6.0, k2=5.0).run(60)
    since = world.now
    world.add("e4").version = "v1"
    world.run(120)
    made = moves(world, since)
    assert len({key for _, key, _, _ in made}) == len(made)
    assert {key for _, key, _, target in made if target == "e4"} & {"0", "1", "2"}
    assert "e4" not in {source for *_, source, _ in made}


def test_no_shard_is_without_an_owner_while_it_is_handed_over_and_none_without_a_target() -> None:
    world = fleet(3, 12)
    since = world.now
    world.members["e1"].say_leaving()
    world.run_until(lambda w: w.status("e1") == "drained", 5)
    assert None not in world.taken(since)
    world.order(drain("e2"))
    world.run_until(lambda w: w.status("e2") == "drained", 5)
    since = world.now
    world.members["e3"].say_leaving()
    world.run(20)
    assert world.moved(since) == []
    assert set(world.owners.values()) == {"e3"}
    assert all(world.runs(key) == ["e3"] for key in world.owners)


# -- newcomers ---------------------------------------------------------------------------------


def held_by(world: World, name: str) -> float:
    """Its load and what is on its way to it."""
    keys = {*world.space.owned(name), *world.space.incoming(name)}
    return sum(world.load(key) or 0.0 for key in keys)


WINDOW_S = quick().balancer.budget_window_s


def watched(world: World, name: str, seconds: float, allowed: Callable[[int], float]) -> None:
    """Let time pass; in window number n it may hold `allowed(n)` at most."""
    began = world.now
    while world.now - began < seconds:
        world.tick()
        window = int((world.now - began) // WINDOW_S) + 1
        assert held_by(world, name) <= allowed(window) + 1e-6, f"in window {window}"


def test_a_late_joiner_is_filled_by_a_quarter_of_its_share_in_each_window_and_then_has_it() -> None:
    world = fleet(3, 60, policy=quick(move_budget_ratio=1.0, max_in_flight_per_executor=60))
    world.add("e4").version = "v1"
    watched(world, "e4", 4 * WINDOW_S, lambda window: min(1.0, window / 4) * 15)
    assert held_by(world, "e4") >= 11
    world.run(60)
    assert is_level(world)


def test_of_few_heavy_shards_a_newcomer_gets_one_in_each_window() -> None:
    world = fleet(2, 6, policy=quick(move_budget_ratio=1.0))
    world.add("e3").version = "v1"
    world.run(WINDOW_S - TICK_S)
    assert world.counts["e3"] == 1
    world.run(WINDOW_S)
    assert world.counts["e3"] == 2


def test_idle_shards_ramp_up_too() -> None:
    policy = quick(move_budget_ratio=1.0, max_in_flight_per_executor=60)
    world = World(1, 60, policy=policy, load=lambda _key: 0.0)
    settled(world).run(30)
    world.add("e2")
    for most in (8, 15, 23):
        world.run(WINDOW_S - TICK_S)
        assert most - 4 <= world.counts["e2"] <= most
        world.tick()


def test_what_is_lost_meanwhile_goes_to_a_newcomer_only_up_to_its_ramp() -> None:
    world = fleet(4, 40, policy=OFF)
    world.members["e1"].is_alive = False
    world.run(BOUND_S - 3)
    world.add("e5").version = "v1"
    world.run_until(lambda w: "e1" not in w.space.executors, 5)
    settled(world, 2)
    assert 0 < world.counts["e5"] <= 0.25 * 10
    assert max(world.counts.values()) <= 13


def test_when_nobody_else_is_left_a_newcomer_gets_all() -> None:
    world = fleet(1, 12, policy=OFF)
    world.members["e1"].is_alive = False
    world.run(BOUND_S - 3)
    world.add("e2")
    settled(world, 10)
    assert world.counts == {"e2": 12}


def test_newcomers_take_more_than_their_ramp_before_anyone_holds_more_than_twice_its_share() -> (
    None
):
    world = fleet(4, 60, policy=OFF)
    for name in ("e2", "e3"):
        world.members[name].is_alive = False
    world.run(BOUND_S - 3)
    for number in range(5, 10):
        world.add(f"e{number}").version = "v1"
    world.run_until(lambda w: len(w.space.executors) == 7, 10)
    settled(world, 5)
    counts = world.counts
    assert counts["e1"] <= 2 * 60 / 7 + 1
    assert counts["e4"] <= 2 * 60 / 7 + 1


def test_heavy_shards_are_placed_first_whatever_everyone_may_hold() -> None:
    world = fleet(5, 30, policy=OFF, k0=80.0, k5=80.0)
    assert (world.owners["0"], world.owners["5"]) == ("e1", "e1")
    world.add("e6").version = "v1"
    world.run(1)
    before = world.counts
    world.members["e1"].is_alive = False
    world.run_until(lambda w: "e1" not in w.space.executors, 20)
    settled(world, 3)
    for heir in {world.owners["0"] or "", world.owners["5"] or ""}:
        # The light ones lie elsewhere.
        assert world.counts[heir] == before[heir] + 1


def test_a_new_leader_takes_who_holds_nothing_for_a_newcomer() -> None:
    world = fleet(4, 40, policy=OFF)
    world.add("e5").version = "v1"
    world.run(1)
    world.elect()
    world.run(1)
    world.members["e1"].is_alive = False
    world.run_until(lambda w: "e1" not in w.space.executors, 20)
    settled(world, 2)
    # Two windows have begun by then: one of loss, which is two of five seconds.
    assert 0 < world.counts["e5"] <= 0.25 * 3 * 10


def test_those_who_are_there_at_the_first_placement_are_no_newcomers() -> None:
    world = World(2, 12, policy=OFF)
    settled(world)
    assert world.controller is not None
    arrivals = world.controller.mind(world.space, world.now).arrivals
    assert set(arrivals.values()) == {None}
    world.members["e1"].is_alive = False
    world.run(20)
    assert list(world.controller.mind(world.space, world.now).arrivals) == [("e2", "e2-1")]


def test_what_is_kept_for_a_restart_is_no_reason_to_fill_anyone_else_faster() -> None:
    world = fleet(3, 30)
    restart(world, "e1", "v1", back_within_s=20, down_s=2)
    world.run_until(World.is_settled, 3)
    assert {one.cause for one in world.space.shards.values()} == {Cause.PLACED, Cause.RESTART}
    assert world.controller is not None
    arrivals = world.controller.mind(world.space, world.now).arrivals
    assert arrivals["e1", "e1-2"] is None
