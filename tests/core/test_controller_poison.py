"""Poison among many shards, told from everything else that ends executors; with real controllers.

A supervisor restarts each process some time after its death, with the lock file or without it.
"""

from dataclasses import replace
from math import ceil, log

import pytest

from coordinator.core.types import BalancerMode, Policy, ShardState
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
    """The threshold, or as many crashes as a thousand shards on so few executors need, and one."""
    return max(threshold, ceil(log(2 * shards, executors)) + 1)


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
