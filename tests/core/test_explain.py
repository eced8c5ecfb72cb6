"""One shard in words: why it is here, why not there, why nothing moves it."""

from dataclasses import replace

from coordinator.core import commands as c
from coordinator.core.controller import words
from coordinator.core.controller.explain import EVENTS_MAX, TARGETS_MAX, Explanation, explain
from coordinator.core.controller.mind import Mind
from coordinator.core.events import EventKind
from coordinator.core.planner import BlockedReason, Move, MoveReason, Rule, Stop
from coordinator.core.shard import Cause, ShardState
from coordinator.core.types import ExecutorStatus, InitialPlacement, NamespaceKind, Policy
from tests.core.builders import NS, drain, move, park, pin, retire, set_policy
from tests.core.controller_world import World, quick, settled
from tests.core.test_decisions import skewed


def mind_of(world: World) -> Mind:
    assert world.controller is not None
    return world.controller.mind(world.space, world.now)


def told(world: World, key: str) -> Explanation:
    shard = world.space.shards[key]
    return explain(world.space, mind_of(world), shard, world.now, round(world.now * 1000))


def owner_of(world: World, key: str) -> str:
    return world.space.shards[key].executor or ""


def calm(executors: int = 3, shards: int = 12) -> World:
    return settled(World(executors, shards, policy=quick(Policy())))


def test_every_rule_reason_stop_and_cause_has_words() -> None:
    assert set(words.STOPS) == set(Stop)
    assert set(words.BLOCKS) == set(BlockedReason)
    assert set(words._NOT) == set(Rule)
    assert set(words._HERE) == set(Cause)


def test_swaps_and_idle_shards_are_told_as_what_they_are() -> None:
    plain = Move("s", "a", "b", 1.0, MoveReason.RELIEVE, 1.0, 3.0, 2.0, 0.5, 1.5)
    effect = "it takes a from 3 to 2 times its capacity and b from 0.5 to 1.5"
    assert words.moved(plain) == effect
    swap = replace(plain, reason=MoveReason.SWAP, swap_with="t")
    assert words.moved(swap) == f"in exchange for t {effect}"
    assert "piled up on a" in words.moved(replace(plain, reason=MoveReason.LEVEL_IDLE))


def test_every_move_of_a_balanced_fleet_is_explained_by_its_figures() -> None:
    world = skewed()
    began = world.now
    world.run(60)
    moved = set(world.moved(began))
    assert moved
    for key in moved:
        shard = world.space.shards[key]
        if shard.state is not ShardState.OWNED or shard.cause is not Cause.BALANCE:
            continue
        explanation = told(world, key)
        assert explanation.here.startswith(f"it was moved from {shard.previous} to level the load")
        assert f"takes {shard.previous} from" in explanation.here
        assert explanation.decision is not None
        assert explanation.stays


def test_a_new_leader_explains_the_moves_of_the_former_one_by_their_events() -> None:
    world = skewed().run(60)
    key = next(k for k, s in world.space.shards.items() if s.cause is Cause.BALANCE)
    world.elect()
    world.run(1.0)
    explanation = told(world, key)
    assert explanation.decision is None
    assert "(decision " in explanation.here
    assert " times its capacity and " in explanation.here


def test_a_shard_that_was_moved_rests_and_says_for_how_long() -> None:
    def rested(one: World) -> list[str]:
        until = mind_of(one).cooling_until
        return [k for k, at in until.items() if at > one.now and k not in one.space.in_flight]

    world = skewed()
    world.run_until(lambda one: bool(rested(one)), 60.0)
    cooling = rested(world)
    assert "rests for" in told(world, cooling[0]).stays


def test_a_level_fleet_says_of_each_shard_why_it_is_on_none_of_the_others() -> None:
    world = calm(4, 12).run(30)
    explanation = told(world, "0")
    assert {one.executor for one in explanation.elsewhere} == set(world.counts) - {
        world.space.shards["0"].executor
    }
    assert all(one.words for one in explanation.elsewhere)
    assert "the best it could do" in explanation.stays


def test_of_many_executors_only_the_coldest_are_told_of() -> None:
    world = calm(TARGETS_MAX + 4, 40).run(30)
    assert len(told(world, "0").elsewhere) == TARGETS_MAX


def test_an_operators_move_is_explained_by_the_operator() -> None:
    world = calm()
    source = world.space.shards["0"].executor
    target = next(name for name in world.counts if name != source)
    world.order(replace(move("0", target), reason="it is too loud there"))
    assert told(world, "0").stays == f"it is on its way to {target}, for operator"
    world.run_until(lambda one: one.space.shards["0"].executor == target, 10.0)
    explanation = told(world, "0")
    assert explanation.here == f"an operator moved it here from {source}: it is too loud there"
    assert len(explanation.events) <= EVENTS_MAX
    assert explanation.events[0].id > explanation.events[-1].id


def test_pins_parks_drains_and_losses_are_told_as_what_they_are() -> None:
    world = calm()
    owner = world.space.shards["0"].executor or ""
    world.order(pin("0", owner))
    assert "pinned" in told(world, "0").stays
    other = next(key for key in world.space.owned(owner) if key != "0")
    world.order(park(other))
    assert "undrains" in told(world, other).stays
    world.run(10)
    assert told(world, other).here.startswith("nobody runs it: it is parked")
    third = next(key for key in world.space.owned(owner) if key != "0")
    world.order(drain(owner))
    assert told(world, third).stays == f"{owner} is being emptied: it will be moved"
    world.run(20)
    here, now = told(world, third).here, world.space.shards[third].executor
    assert f"because {owner} was drained" in here
    assert here.endswith(f"{now} was the least loaded that could be given it")


def test_a_drain_is_told_with_the_reason_of_who_ordered_it_also_when_it_is_long() -> None:
    world = calm()
    owner = world.space.shards["0"].executor or ""
    world.order(replace(drain(owner), reason="kernel " * 100))
    world.run(20)
    here = told(world, "0").here
    assert f"because {owner} was drained: kernel kernel" in here
    assert here.count("kernel ") == words.REASON_CHARS_MAX // len("kernel ")


def test_a_shard_that_was_brought_to_its_pin_says_where_it_was() -> None:
    world = calm()
    source = world.space.shards["0"].executor or ""
    target = next(name for name in world.counts if name != source)
    world.order(pin("0", target))
    world.run(10)
    assert told(world, "0").here == (
        f"it was brought to the executor that it is pinned to: it was on {source}"
    )


def test_a_shard_that_was_placed_by_its_name_says_so() -> None:
    by_name = replace(quick(Policy()), initial_placement=InitialPlacement.HASH)
    world = settled(World(3, 12, policy=by_name))
    owner = world.space.shards["0"].executor
    assert told(world, "0").here == f"it had no owner, and by its name's hash it was {owner}'s"


def test_a_lost_executors_shards_say_so() -> None:
    world = calm()
    mine = list(world.space.owned("e1"))
    world.members["e1"].die(world.now)
    world.run(30)
    assert "e1 was lost" in told(world, mine[0]).here


def test_a_lost_executor_stays_in_the_history_of_its_shards_wherever_they_go_on_to() -> None:
    world = calm()
    mine = sorted(world.space.owned("e1"))
    world.members["e1"].die(world.now)
    world.run_until(lambda one: not one.space.owned("e1"), 30.0)
    for key in mine:
        heir = world.space.shards[key].executor or ""
        target = next(name for name in ("e2", "e3") if name != heir)
        world.order(move(key, target))
        world.run_until(lambda one, key=key, to=target: one.space.shards[key].executor == to, 10.0)
        (end,) = (one for one in told(world, key).events if one.kind is EventKind.EXECUTOR_LOST)
        assert (end.shard, end.executor, end.target) == (key, "e1", heir)
        assert end.detail == "e1 was lost: its lease had run out"
    other = next(key for key in world.space.shards if key not in mine)
    assert EventKind.EXECUTOR_LOST not in {one.kind for one in told(world, other).events}


def test_an_executor_that_ended_without_a_shard_is_none_of_its_history() -> None:
    world = calm()
    source = owner_of(world, "0")
    target = next(name for name in world.counts if name != source)
    world.order(move("0", target))
    world.run_until(lambda one: owner_of(one, "0") == target, 10.0)
    world.members[source].die(world.now)
    world.run_until(lambda one: not one.space.owned(source), 30.0)
    assert EventKind.EXECUTOR_LOST not in {one.kind for one in told(world, "0").events}


def test_a_paused_balancer_is_the_reason_why_nothing_moves() -> None:
    world = calm().run(10)
    world.order(c.PauseBalancer(namespace=NS, reason="exam", by="ops", at_ms=0))
    assert told(world, "0").stays == f"nothing is moved for balance now: {words.SKIPS['paused']}"


def test_alone_a_shard_has_nowhere_to_go() -> None:
    world = calm(1, 3).run(20)
    assert told(world, "0").stays == "there is no other executor that it could go to"


def test_a_shard_without_an_owner_waits_and_one_that_is_kept_says_for_whom() -> None:
    world = World(0, 2, policy=quick(Policy())).run(2)
    assert told(world, "0").here == "it waits for an executor that may be given it"
    assert told(world, "0").stays == "it is placed as soon as an executor may be given it"
    kept = calm(2, 4)
    mine = list(kept.space.owned("e1"))
    kept.members["e1"].say_leaving(20)
    kept.run(1)
    assert kept.space.executors["e1"].profile.status is ExecutorStatus.LEAVING
    kept.leave("e1")
    assert told(kept, mine[0]).here.startswith("e1 restarts and will be back")


def test_a_shard_that_is_to_be_forgotten_says_so() -> None:
    world = settled(World(2, 4, policy=quick(Policy()), kind=NamespaceKind.OPEN))
    world.order(retire("0"))
    assert told(world, "0").stays == "it is forgotten as soon as its owner has stopped it"


def test_an_unmeasured_shard_is_told_as_that() -> None:
    world = settled(World(2, 4, policy=quick(Policy()), load=lambda _: None)).run(10)
    world.order(set_policy(quick(Policy())))
    assert {one.rule for one in told(world, "0").elsewhere} == {Rule.UNMEASURED}


# -- a whole story -----------------------------------------------------------------------------


def test_each_shard_of_a_fleet_that_lives_through_everything_says_why_it_is_where_it_is() -> None:
    """Placed by name, balanced, drained, a host lost, one restarted: as in the demo."""
    by_name = replace(quick(Policy()), initial_placement=InitialPlacement.HASH)
    world = settled(World(5, 60, policy=by_name, load=lambda key: 1.0 + int(key) % 7))
    world.run(40)
    world.order(drain("e1"))
    world.run(20)
    world.members["e2"].die(world.now)
    world.run(30)
    world.members["e3"].restart(is_proven_dead=True)
    world.run(20)
    heard = {
        Cause.PLACED: "by its name's hash",
        Cause.BALANCE: "to level the load",
        Cause.DRAIN: "e1 was drained",
        Cause.LOST: "e2 was lost",
        Cause.RESTART: "restarted and was given back what it had",
    }
    seen = set()
    for key, shard in world.space.shards.items():
        explanation = told(world, key)
        seen.add(shard.cause)
        is_left = shard.cause is Cause.PLACED and shard.previous is not None
        assert ("without an owner by" if is_left else heard[shard.cause]) in explanation.here
        assert explanation.stays
        assert explanation.elsewhere
        if shard.cause is Cause.BALANCE:
            assert "times its capacity" in explanation.here
    assert {Cause.DRAIN, Cause.LOST, Cause.RESTART} <= seen
