"""Anything may happen to executors and leaders, in any order; then calm: all must come to rest.

While it happens, every tick checks that no two may act on one shard. A failing seed is printed;
`chaos(seed)` repeats it.
"""

import random
from dataclasses import replace

import pytest

from coordinator.core.commands import Refused
from coordinator.core.controller.outage import proceed_command
from coordinator.core.types import (
    CloseCause,
    ExecutorStatus,
    HandoffPolicy,
    NamespaceKind,
    Policy,
    TargetKind,
)
from tests.core.builders import (
    cordon,
    declare,
    drain,
    evict,
    move,
    park,
    pin,
    retire,
    set_policy,
    uncordon,
    undrain,
    unpark,
    unpin,
)
from tests.core.controller_world import Member, World, quick

SEEDS = 24
"""In every run; two thousand were run once."""
TROUBLE_S = 60
KEYS = tuple(map(str, range(8)))


def trouble(world: World, rng: random.Random) -> None:
    """One event: to an executor, to a shard, by an operator, or to the leader."""
    member = rng.choice(list(world.members.values()))
    key = rng.choice(KEYS)
    name = member.name
    match rng.randrange(20):
        case 0:
            member.is_alive = False
        case 1 | 2:
            if member.is_alive:
                member.restart(is_proven_dead=rng.random() < 0.5)
            else:
                revive(member)
        case 3:
            member.is_cut_off = not member.is_cut_off
        case 4:
            member.hangs_on ^= {key}
        case 5:
            member.fails_on ^= {key}
        case 6:
            member.status = rng.choice(tuple(ExecutorStatus))
            member.back_within_s = rng.choice((0.0, 8.0))
        case 7:
            world.elect()
        case 8:
            world.lose_leader()
        case 9:
            change_policy(world, rng)
        case 10 if world.controller is not None and name in world.space.executors:
            record = world.space.executors[name]
            leases = world.controller.mind(world.space, world.now).leases
            leases.close(name, record.incarnation)
            world.order(evict(name))
        case 11:
            host = member.profile.host
            order = (drain(name), undrain(name), cordon(name), uncordon(name))
            orders = (*order, drain(host, TargetKind.HOST), undrain(host, TargetKind.HOST))
            world.state.apply(rng.choice(orders))
        case 12:
            world.state.apply(rng.choice((park(key), unpark(key), retire(key), declare(*KEYS))))
        case 13 if world.acks:
            world.order(rng.choice(world.acks))
        case 14:
            member.version = rng.choice(("", "v1", "v2"))
        case 15 | 16:
            go(world, member, rng.choice((0.0, 4.0, 12.0)))
        case 17:
            outage(world, rng)
        case _:
            world.state.apply(rng.choice((pin(key, name), unpin(key), move(key, name))))


def outage(world: World, rng: random.Random) -> None:
    """Nobody is heard for longer than a lease; then some are, or an operator decides."""
    for member in world.members.values():
        member.is_cut_off = True
    world.run(rng.choice((4, 8, 12)))
    for member in world.members.values():
        member.is_cut_off = rng.random() < 0.4
    if rng.random() < 0.5:
        proceed(world)


def proceed(world: World) -> None:
    """An operator gives up whoever is silent, if there is a leader that can tell."""
    if world.controller is None:
        return
    mind = world.controller.mind(world.space, world.now)
    command = proceed_command(world.space, mind, world.now, by="ops", reason="", at_ms=0)
    if not isinstance(command, Refused):
        world.order(command)


def go(world: World, member: Member, back_within_s: float) -> None:
    """Say that it leaves, stop all and be gone, if it can."""
    member.say_leaving(back_within_s)
    world.tick()
    if is_ready_to_go(world, member):
        world.leave(member.name)


def is_ready_to_go(world: World, member: Member) -> bool:
    """It can stop all that it runs, and there is a leader to take its word."""
    record = world.space.executors.get(member.name)
    return (
        world.controller is not None
        and member.is_alive
        and not member.is_cut_off
        and not member.hangs_on
        and record is not None
        and record.incarnation == member.incarnation
        and record.predecessor is None
        and not record.evicted
    )


def revive(member: Member) -> None:
    member.restart(is_proven_dead=True)


def change_policy(world: World, rng: random.Random) -> None:
    handoff = HandoffPolicy(warmup=rng.random() < 0.5, release_timeout_s=rng.choice((1.0, 5.0)))
    ttl_s = rng.choice((2.0, 5.0, 10.0))
    policy = replace(world.space.info.policy, handoff=handoff, lease_ttl_s=ttl_s)
    world.order(set_policy(replace(policy, heartbeat_interval_s=ttl_s / 5)))


def calm(world: World) -> None:
    """Everything that operators and nature did is undone, except what the rules must mend."""
    world.trouble = None
    if world.controller is None:
        world.elect()
    for name, member in world.members.items():
        member.hangs_on, member.fails_on, member.is_cut_off = set(), set(), False
        member.status, member.back_within_s, member.version = ExecutorStatus.ACTIVE, 0.0, ""
        # Who was evicted ends as soon as it hears of it.
        over = world.space.closed.get((name, member.incarnation))
        if not member.is_alive or over is CloseCause.EVICTED:
            revive(member)
        for target, kind in ((name, TargetKind.EXECUTOR), (member.profile.host, TargetKind.HOST)):
            world.state.apply(undrain(target, kind))
            world.state.apply(uncordon(target, kind))
    world.state.apply(declare(*KEYS))
    for key in KEYS:
        world.state.apply(unpark(key))
        world.state.apply(unpin(key))


def chaos(seed: int) -> World:
    rng = random.Random(seed)
    policy = quick(Policy(handoff=HandoffPolicy(warmup=seed % 2 == 0, release_timeout_s=3)))
    world = World(3 + seed % 4, len(KEYS), policy=policy, kind=NamespaceKind.OPEN)
    world.run(7)
    world.trouble = rng if seed % 3 == 0 else None
    for _ in range(round(TROUBLE_S / 1.5)):
        trouble(world, rng)
        if world.controller is None and rng.random() < 0.5:
            world.elect()
        world.run(rng.choice((0.1, 0.3, 1.0, 2.0, 4.0)))
    calm(world)
    return world


@pytest.mark.parametrize("part", range(4))
def test_after_any_trouble_all_is_owned_and_run_within_two_leases_and_nothing_moves_any_more(
    part: int,
) -> None:
    for seed in range(part, SEEDS, 4):
        world = chaos(seed)
        bound_s = 2 * 10 * 1.01 + 3 + 5 + 5 + 2
        try:
            world.run_until(World.is_settled, bound_s)
            world.run(60)
            assert world.is_settled()
            since, steps, written = world.now, world.steps, len(world.commands)
            world.run(20)
        except AssertionError as error:
            raise AssertionError(f"chaos({seed})") from error
        assert world.moved(since) == [], f"chaos({seed})"
        assert len(world.commands) == written, f"chaos({seed})"
        assert world.steps - steps <= 20 * 12, f"chaos({seed})"
