"""Poison among many shards, told from everything else that ends executors; with real controllers.

A supervisor restarts each process some time after its death, with the lock file or without it.
"""

from dataclasses import replace
from math import ceil, log

import pytest

from coordinator.core import commands as c
from coordinator.core.controller import Mind
from coordinator.core.controller.crashes import CRASHES_MAX, NO_CRASH, CrashBook, weight_of
from coordinator.core.controller.poison import parked_for_poison, suspected_of_poison
from coordinator.core.poison import MEMORY_S
from coordinator.core.shard import ShardState
from coordinator.core.types import BalancerMode, ExecutorStatus, Policy
from tests.core.builders import NS, applied, evict, fleet, join, set_policy, space, unpark
from tests.core.controller_world import World, quick, settled

SHORT = quick(Policy(lease_ttl_s=4.0, heartbeat_interval_s=1.0, initial_hold_s=1.0))
OFF = replace(SHORT, balancer=replace(SHORT.balancer, mode=BalancerMode.OFF))


def supervised(
    executors: int,
    shards: int,
    *,
    after_s: float = 0.5,
    proves_death: bool = True,
    policy: Policy = OFF,
) -> World:
    world = World(executors, shards, policy=policy)
    for member in world.members.values():
        member.restarts_after_s, member.proves_death = after_s, proves_death
    return settled(world)


def poison(world: World, *keys: str) -> None:
    """From now on the start of these kills; who runs them now dies of them."""
    for member in world.members.values():
        member.dies_of = set(keys)
        if any(key in member.running for key in keys):
            member.die(world.now)


def deaths(world: World) -> int:
    return sum(member.deaths for member in world.members.values())


def parked(world: World) -> list[str]:
    return [key for key, one in world.space.shards.items() if one.state is ShardState.PARKED]


def bound(executors: int, shards: int, threshold: int = 3) -> int:
    """The threshold, or as many crashes as tell one of so many, and one in place."""
    return max(threshold, ceil(log(10 * shards, executors)) + 1)


FLEETS = [(2, 64, True), (2, 64, False), (3, 90, True), (5, 150, False), (12, 144, True)]
LARGE = [(2, 1000), (3, 1000), (5, 1000), (10, 1000), (20, 1000), (50, 1000)]


@pytest.mark.parametrize(
    ("executors", "shards", "proves_death"),
    [
        *FLEETS,
        *(
            pytest.param(*fleet, proves, marks=pytest.mark.slow)
            for fleet in LARGE
            for proves in (True, False)
        ),
    ],
)
def test_one_poison_shard_is_found_within_the_bound_and_nothing_else_is_parked(
    executors: int,
    shards: int,
    proves_death: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    world = supervised(executors, shards, proves_death=proves_death)
    poison(world, "7")
    world.run_until(lambda w: bool(parked(w)), 120)
    assert parked(world) == ["7"]
    assert deaths(world) <= bound(executors, shards)
    settled(world)
    world.run(20)
    assert parked(world) == ["7"]
    assert world.space.shards["7"].note.startswith("poison: present at")


@pytest.mark.parametrize("proves_death", [True, False])
def test_executors_of_which_one_at_a_time_is_up_find_it_by_halves(
    proves_death: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    world = supervised(2, 40, after_s=15.0, proves_death=proves_death)
    poison(world, "7")
    world.run_until(lambda w: bool(parked(w)), 200)
    assert parked(world) == ["7"]
    assert deaths(world) <= bound(2, 40)
    settled(world)


def test_the_only_executor_parks_nothing() -> None:
    world = supervised(1, 8)
    poison(world, "7")
    world.run(90)
    assert world.members["e1"].deaths >= 5
    assert parked(world) == []


def struck(world: World) -> list[str]:
    return sorted(world.space.struck)


def crash(world: World, name: str) -> None:
    world.members[name].die(world.now)


@pytest.mark.parametrize("executors", [2, 3, 8, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("proves_death", [True, False])
def test_a_deploy_that_crashes_everywhere_parks_nothing_and_moves_nothing_in_place(
    executors: int,
    proves_death: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    world = supervised(executors, 3 * executors, proves_death=proves_death)
    before, began = world.owners, world.now
    while world.now - began < 60:
        for at, name in enumerate(sorted(world.members)):
            if world.members[name].is_alive and round(world.now * 10) % 30 == at % 10:
                crash(world, name)
        world.tick()
    assert deaths(world) >= 10 * executors
    assert parked(world) == []
    settled(world)
    assert struck(world) == []
    assert world.owners == before


def test_a_fleet_that_dies_at_once_and_comes_back_late_parks_nothing() -> None:
    world = supervised(6, 30, after_s=20.0)
    for _ in range(3):
        for name in world.members:
            crash(world, name)
        world.run(40)
    assert parked(world) == []
    settled(world)


def test_one_crash_of_an_executor_with_five_hundred_shards_parks_and_moves_nothing() -> None:
    world = supervised(2, 1000)
    since = world.now
    crash(world, "e1")
    settled(world)
    assert parked(world) == []
    assert len(struck(world)) == 500
    assert world.taken(since) <= {"e1"}


def test_a_second_crash_in_place_is_followed_by_a_placement_that_tells_shards_apart() -> None:
    world = supervised(4, 40)
    mine = [key for key, owner in world.owners.items() if owner == "e1"]
    for _ in range(2):
        crash(world, "e1")
        settled(world)
    owners = [world.owners[key] for key in mine]
    assert sorted(map(owners.count, ("e1", "e2", "e3", "e4"))) == [2, 2, 3, 3]
    assert all(len(world.space.shards[key].strikes) == 2 for key in mine)


def test_what_shards_were_present_at_is_forgotten_once_they_ran_long_enough() -> None:
    world = supervised(2, 6)
    crash(world, "e1")
    settled(world)
    world.run(MEMORY_S - 30)
    assert len(struck(world)) == 3
    world.run(60)
    assert struck(world) == []


def test_processes_killed_one_after_the_other_for_a_deploy_lose_no_shard() -> None:
    world = supervised(6, 60)
    since = world.now
    for name in sorted(world.members):
        crash(world, name)
        world.run(10)
    assert parked(world) == []
    assert world.moved(since) == []
    settled(world)
    assert set(world.counts.values()) == {10}


@pytest.mark.parametrize(
    ("executors", "bad"), [(2, 1), (5, 1), (6, 2), pytest.param(12, 3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("every", [17, 40])
def test_executors_that_crash_whatever_they_run_park_none_of_their_shards(
    executors: int, bad: int, every: int
) -> None:
    world = supervised(executors, 12 * executors)
    began = world.now
    while world.now - began < 85:
        for at in range(bad):
            name = f"e{at + 1}"
            if world.members[name].is_alive and round(world.now * 10) % every == 5 * at:
                crash(world, name)
        world.tick()
    assert world.members["e1"].deaths >= 20
    assert parked(world) == []


def test_who_said_that_it_leaves_does_not_crash() -> None:
    world = settled(World(3, 9, policy=OFF))
    for name in ("e1", "e2"):
        member = world.members[name]
        member.status = ExecutorStatus.LEAVING
        member.hangs_on = set(member.running)
        world.run(3)
        crash(world, name)
        world.run(10)
    settled(world)
    assert struck(world) == []


def test_two_poison_shards_are_both_found() -> None:
    world = supervised(12, 120)
    poison(world, "7")
    world.run(1)
    poison(world, "7", "90")
    world.run_until(lambda w: len(parked(w)) == 2, 300)
    assert sorted(parked(world)) == ["7", "90"]
    settled(world)


def test_a_new_leader_goes_on_from_the_strikes_there_are() -> None:
    world = supervised(5, 150)
    poison(world, "7")
    world.run_until(lambda w: len(w.space.shards["7"].strikes) == 3, 60)
    world.lose_leader()
    world.run(1)
    world.elect()
    world.run_until(lambda w: bool(parked(w)), 60)
    assert parked(world) == ["7"]
    assert deaths(world) <= bound(5, 150) + 1


def test_who_is_let_run_again_is_found_again_if_nothing_was_repaired() -> None:
    world = supervised(5, 50)
    poison(world, "7")
    world.run_until(lambda w: bool(parked(w)), 60)
    settled(world)
    world.order(unpark("7"))
    assert not world.space.shards["7"].strikes
    world.run_until(lambda w: bool(parked(w)), 60)
    for member in world.members.values():
        member.dies_of = set()
    settled(world)
    world.order(unpark("7"))
    settled(world)
    assert parked(world) == []


def test_without_a_threshold_nothing_is_counted() -> None:
    world = supervised(3, 9, policy=replace(OFF, poison_threshold=None))
    poison(world, "7")
    world.run(30)
    assert parked(world) == []
    assert struck(world) == []


def test_a_shard_that_nobody_can_start_is_parked() -> None:
    world = World(3, 12, policy=OFF)
    for member in world.members.values():
        member.fails_on = {"7"}
    world.run_until(lambda w: bool(parked(w)), 30)
    assert parked(world) == ["7"]
    assert world.space.shards["7"].note.startswith("poison: present at 3 failed starts")
    settled(world)


def test_shards_that_all_fail_to_start_are_not_parked() -> None:
    world = World(3, 12, policy=OFF)
    for member in world.members.values():
        member.fails_on = set(map(str, range(12)))
    world.run(60)
    assert parked(world) == []
    for member in world.members.values():
        member.fails_on = set()
    settled(world)


def test_the_balancer_does_not_hide_poison() -> None:
    world = supervised(5, 150, policy=SHORT)
    world.run(30)
    poison(world, "7")
    world.run_until(lambda w: bool(parked(w)), 120)
    assert parked(world) == ["7"]


def test_so_many_crashes_are_remembered_and_each_once() -> None:
    state = fleet(2, 4)
    book = CrashBook()
    for number in range(CRASHES_MAX + 5):
        for _ in range(2):
            book.weigh(space(state), "e1", f"e1-{number}", float(number) / 100)
    assert len(book) == CRASHES_MAX
    book.weigh(space(state), "e1", "e1-x", MEMORY_S * 3)
    assert len(book) == 1


def test_a_mass_failure_strikes_nobody() -> None:
    state = fleet(6, 12)
    raised = c.RaiseMassFailure(namespace=NS, silent=3, total=6, executors=(), at_ms=0)
    assert CrashBook().weigh(space(state), "e1", "e1-1", 10.0).is_crash
    applied(state, raised)
    assert CrashBook().weigh(space(state), "e1", "e1-1", 10.0) == NO_CRASH


def test_only_who_may_have_acted_has_crashed() -> None:
    state = fleet(3, 6)
    mind = Mind.begin(space(state), 0.0)

    def counts(executor: str, incarnation: str) -> bool:
        return weight_of(space(state), mind, executor, incarnation, 10.0).is_crash

    assert not counts("nobody", "1")
    assert not counts("e1", "e1-7")
    applied(state, evict("e1"))
    assert not counts("e1", "e1-1")
    applied(state, join("e2", "e2-2"))
    assert not counts("e2", "e2-2")
    mind.leaving.add(("e2", "e2-1"))
    assert not counts("e2", "e2-1")
    assert counts("e3", "e3-1")


def test_suspects_are_counted_until_they_are_parked() -> None:
    world = supervised(3, 30)
    assert suspected_of_poison(world.space) == 0
    poison(world, "7")
    world.run_until(lambda w: len(w.space.shards["7"].strikes) == 3, 60)
    assert suspected_of_poison(world.space) >= 1
    world.run_until(lambda w: bool(parked(w)), 60)
    assert "7" in parked(world)
    assert parked_for_poison(world.space) == 1
    world.order(set_policy(replace(OFF, poison_threshold=None)))
    assert suspected_of_poison(world.space) == 0
