"""Shards held without right: told when nothing explains it, and never otherwise."""

import random
from dataclasses import dataclass, replace

import pytest

from coordinator.core import commands as c
from coordinator.core.controller import Mind
from coordinator.core.controller.strays import NOTED_MAX, STRAYS_MAX, StrayBook, plan_strays, strays
from coordinator.core.events import EventKind
from coordinator.core.state import ClusterState
from coordinator.core.types import BalancerMode, HandoffPolicy, Policy
from tests.core.builders import AT_MS, applied, fleet, move, space
from tests.core.controller_world import World, quick, settled

OFF = quick(
    Policy(lease_ttl_s=4.0, heartbeat_interval_s=1.0, handoff=HandoffPolicy(release_timeout_s=2.0)),
    mode=BalancerMode.OFF,
)


@dataclass(frozen=True)
class Held:
    epoch: int
    load: float | None = None


def reported(*keys: str, epoch: int = 7) -> dict[str, Held]:
    return {key: Held(epoch) for key in keys}


def told(state: ClusterState, book: StrayBook, now: float) -> list[tuple[str, str, int]]:
    return list(book.proven(space(state), now))


# -- the book --------------------------------------------------------------------------------


def test_one_report_says_nothing_and_a_second_one_after_two_intervals_does() -> None:
    state, book = fleet(2, 2), StrayBook()
    book.hear("e1", reported("x"), 10.0)
    assert told(state, book, 10.0) == []
    book.hear("e1", reported("x"), 13.9)
    assert told(state, book, 13.9) == []
    book.hear("e1", reported("x"), 14.0)
    assert told(state, book, 14.0) == [("e1", "x", 7)]


def test_a_report_without_it_in_between_begins_anew() -> None:
    state, book = fleet(2, 2), StrayBook()
    for at, strays_ in ((10.0, reported("x")), (12.0, {}), (14.0, reported("x"))):
        book.hear("e1", strays_, at)
    assert told(state, book, 14.0) == []
    assert len(book) == 1


def test_another_epoch_is_another_claim() -> None:
    state, book = fleet(2, 2), StrayBook()
    book.hear("e1", reported("x", epoch=7), 10.0)
    book.hear("e1", reported("x", epoch=8), 14.0)
    assert told(state, book, 14.0) == []


def test_what_is_left_out_of_a_report_is_unchanged() -> None:
    state, book = fleet(2, 2), StrayBook()
    book.hear("e1", reported("x"), 10.0)
    book.unchanged("e1", 14.0)
    book.unchanged("e2", 14.0)
    assert told(state, book, 14.0) == [("e1", "x", 7)]


def test_what_can_be_no_key_is_not_told_for_events_to_keep() -> None:
    state, book = fleet(2, 2), StrayBook()
    for at in (10.0, 14.0):
        book.hear("e1", reported("", "a\nb", "x" * 257, "x" * 256), at)
    assert told(state, book, 14.0) == [("e1", "x" * 256, 7)]


def test_who_is_not_heard_for_a_lease_holds_nothing() -> None:
    state, book = fleet(2, 2), StrayBook()
    for at in (10.0, 14.0):
        book.hear("e1", reported("x"), at)
    assert told(state, book, 24.0) == [("e1", "x", 7)]
    assert told(state, book, 24.1) == []


def test_what_it_owns_by_now_it_holds_by_right() -> None:
    state, book = fleet(2, 2), StrayBook()
    for at in (10.0, 14.0):
        book.hear("e1", reported("0", "1"), at)
    assert len(told(state, book, 14.0)) == 1


def test_the_time_in_which_the_leader_stood_still_proves_nothing() -> None:
    state, book = fleet(2, 2), StrayBook()
    book.hear("e1", reported("x"), 10.0)
    book.add_pause(20.0)
    book.hear("e1", reported("x"), 31.0)
    assert told(state, book, 31.0) == []


def test_who_is_gone_is_forgotten() -> None:
    book = StrayBook()
    book.hear("e1", reported("x"), 10.0)
    book.forget("e1")
    assert len(book) == 0


def test_so_many_are_followed_and_no_more() -> None:
    book = StrayBook()
    book.hear("e1", reported("x"), 10.0)
    book.hear("e2", reported(*map(str, range(STRAYS_MAX))), 10.0)
    assert len(book) == STRAYS_MAX
    book.hear("e1", {}, 11.0)
    book.hear("e2", reported(*map(str, range(STRAYS_MAX))), 12.0)
    assert len(book) == STRAYS_MAX


# -- what is told ----------------------------------------------------------------------------


def mind_with(state: ClusterState, *reports: tuple[str, str]) -> Mind:
    mind = Mind.begin(space(state), 0.0)
    for executor in dict.fromkeys(name for name, _ in reports):
        keys = [key for name, key in reports if name == executor]
        for at in (10.0, 14.0):
            mind.strays.hear(executor, reported(*keys), at)
    return mind


def test_an_owner_that_says_it_holds_it_makes_two() -> None:
    state = fleet(2, 2)
    applied(state, move("0", "e2"))
    owner = space(state).shards["0"].executor
    other = "e2" if owner == "e1" else "e1"
    mind = mind_with(state, (other, "0"))
    assert [one.other for one in strays(space(state), mind, 14.0)] == [None]
    mind.reported[owner or ""] = ("0",)
    assert [one.other for one in strays(space(state), mind, 14.0)] == [owner]


def test_an_owner_is_the_other_holder_of_each_shard_that_it_says_it_holds() -> None:
    state = fleet(2, 6)
    mind = mind_with(state, ("e2", "0"), ("e2", "2"), ("e2", "4"))
    mind.reported["e1"] = ("0", "4")
    found = {one.key: one.other for one in strays(space(state), mind, 14.0)}
    assert found == {"0": "e1", "2": None, "4": "e1"}


def test_two_that_hold_what_nobody_owns_are_two() -> None:
    state = fleet(2, 2)
    mind = mind_with(state, ("e1", "x"), ("e2", "x"))
    assert [(s.executor, s.other) for s in strays(space(state), mind, 14.0)] == [
        ("e1", "e2"),
        ("e2", "e1"),
    ]


def test_each_is_told_once_and_so_many_at_a_time() -> None:
    state = fleet(2, 2)
    mind = mind_with(state, *(("e1", f"x{n}") for n in range(NOTED_MAX + 1)))
    counts = []
    for _ in range(3):
        for command in plan_strays(space(state), mind, 14.0, AT_MS):
            assert isinstance(command, c.NoteStrays)
            counts.append(applied(state, command).count)
    assert counts == [NOTED_MAX, 1]
    events = [one for one in space(state).events if one.kind is EventKind.SHARD_HELD_ASTRAY]
    assert (events[0].executor, events[0].detail) == ("e1", "held under epoch 7")


# -- with executors --------------------------------------------------------------------------


def handed_over(world: World, key: str, target: str) -> None:
    world.order(move(key, target))
    settled(world)


def test_an_executor_that_goes_on_after_its_release_is_told_within_three_heartbeats() -> None:
    world = settled(World(3, 6, policy=OFF))
    owner = world.owners["0"] or ""
    world.members[owner].keeps = {"0"}
    target = next(name for name in world.members if name != owner)
    handed_over(world, "0", target)
    world.run(4)
    (event,) = [one for one in world.space.events if one.kind is EventKind.SHARD_DOUBLE_OWNED]
    assert (event.shard, event.executor, event.target) == ("0", owner, target)
    world.run(10)
    assert len(world.sent(c.NoteStrays)) == 1
    # Another leader has heard nothing of it and tells it again.
    world.elect()
    world.run(6)
    assert len(world.sent(c.NoteStrays)) == 2
    world.members[owner].keeps = set()
    world.run(3)
    assert world.controller is not None
    assert strays(world.space, world.controller.mind(world.space, world.now), world.now) == []


def test_a_stop_that_hangs_beyond_its_lease_is_told_too() -> None:
    world = settled(World(3, 6, policy=OFF))
    owner = world.owners["0"] or ""
    world.members[owner].hangs_on = {"0"}
    world.order(move("0", next(name for name in world.members if name != owner)))
    world.run_until(lambda w: bool(w.sent(c.NoteStrays)), 20)
    assert world.owners["0"] != owner
    (told_of,) = world.sent(c.NoteStrays)
    assert [(one.key, one.executor) for one in told_of.strays] == [("0", owner)]


def peaceful(world: World, rng: random.Random) -> None:
    """Something that happens in a healthy life, or a loss."""
    member = rng.choice(list(world.members.values()))
    key = rng.choice(sorted(world.space.shards))
    match rng.randrange(7):
        case 0:
            member.restart(is_proven_dead=rng.random() < 0.5)
        case 1:
            member.is_cut_off = not member.is_cut_off
        case 2:
            world.elect()
        case 3 if member.is_alive:
            member.die(world.now)
        case 4:
            member.fails_on ^= {key}
        case _:
            world.state.apply(move(key, member.name))


@pytest.mark.parametrize("part", range(4))
def test_handoffs_restarts_losses_and_elections_raise_no_false_alarm(part: int) -> None:
    for seed in range(part, 24, 4):
        rng = random.Random(seed)
        handoff = HandoffPolicy(warmup=seed % 2 == 0)
        world = World(4, 8, policy=replace(OFF, handoff=handoff))
        for member in world.members.values():
            member.restarts_after_s = rng.choice((0.3, 6.0))
        world.run(7)
        world.trouble = rng if seed % 3 == 0 else None
        for _ in range(40):
            peaceful(world, rng)
            world.run(rng.choice((0.1, 0.3, 1.0, 2.0)))
        assert world.sent(c.NoteStrays) == [], seed
