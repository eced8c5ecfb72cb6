"""The mass-failure guard over virtual time: what is held back, what goes on, and what ends it."""

from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.controller import Controller
from coordinator.core.controller import outage as guard
from coordinator.core.controller.balance import why_skipped
from coordinator.core.controller.outage import proceed_command
from coordinator.core.events import EventKind
from coordinator.core.types import BalancerMode, ExecutorStatus, HandoffPolicy, Policy
from tests.core.builders import NS, drain, evict, move, pin, set_policy
from tests.core.controller_world import WALL_MS, World, quick, settled

OFF = quick(mode=BalancerMode.OFF)
LEASE_S = Policy().lease_ttl_s
BOUND_S = LEASE_S * 1.01
LATE_S = 5 * LEASE_S


def fleet(executors: int = 12, shards: int = 36, policy: Policy = OFF) -> World:
    """Executors with shards, all at rest."""
    return settled(World(executors, shards, policy=policy)).run(3)


def names(first: int, last: int) -> list[str]:
    return [f"e{number}" for number in range(first, last + 1)]


def cut_off(world: World, *executors: str) -> None:
    for name in executors:
        world.members[name].is_cut_off = True


def heal(world: World, *executors: str) -> None:
    for name in executors:
        world.members[name].is_cut_off = False


def proceed(world: World) -> c.Outcome:
    """What the API does on the leader."""
    assert world.controller is not None
    mind = world.controller.mind(world.space, world.now)
    command = proceed_command(
        world.space, mind, world.now, by="ops", reason="rack 4", at_ms=WALL_MS
    )
    return command if isinstance(command, c.Refused) else world.order(command)


def kinds(world: World) -> list[EventKind]:
    return [e.kind for e in world.space.events if e.kind.name.startswith(("MASS", "EXECUTOR_LOST"))]


def is_holding(world: World) -> bool:
    alarm = world.space.info.mass_failure
    return alarm is not None and alarm.is_holding


# -- holding -----------------------------------------------------------------------------------


def test_of_half_a_fleet_that_falls_silent_nothing_is_taken_away() -> None:
    world = fleet()
    owners, began = world.owners, world.now
    cut_off(world, *names(1, 6))
    world.run(LATE_S)
    assert world.owners == owners
    assert world.moved(began) == []
    assert world.sent(c.CloseIncarnation, began) == []
    (raised,) = world.sent(c.RaiseMassFailure)
    assert (raised.silent, raised.total, raised.executors) == (6, 12, tuple(names(1, 6)))
    assert is_holding(world)
    assert kinds(world) == [EventKind.MASS_FAILURE_RAISED]
    assert world.busiest <= 4


def test_those_who_return_run_what_they_had_and_losses_are_losses_again() -> None:
    world = fleet()
    owners, began = world.owners, world.now
    epochs = {key: shard.epoch for key, shard in world.space.shards.items()}
    cut_off(world, *names(1, 6))
    world.run(LATE_S)
    heal(world, *names(1, 6))
    world.run(5)
    assert world.space.info.mass_failure is None
    assert world.is_settled()
    assert (world.owners, world.moved(began)) == (owners, [])
    assert {key: shard.epoch for key, shard in world.space.shards.items()} == epochs
    assert kinds(world) == [EventKind.MASS_FAILURE_RAISED, EventKind.MASS_FAILURE_OVER]
    cut_off(world, "e1")
    world.run(BOUND_S + 1)
    assert "e1" not in world.space.executors


def test_those_who_return_one_after_the_other_all_keep_what_they_had() -> None:
    world = fleet()
    owners, began = world.owners, world.now
    cut_off(world, *names(1, 6))
    world.run(LATE_S)
    for name in names(1, 6):
        assert is_holding(world)
        heal(world, name)
        world.run(2)
    world.run(1)
    assert world.space.info.mass_failure is None
    assert (world.owners, world.moved(began)) == (owners, [])


def test_once_enough_are_back_the_rest_have_a_lease_more_and_are_lost() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(LATE_S)
    heal(world, "e1")
    world.run(LEASE_S)
    assert is_holding(world)
    assert len(world.space.executors) == 12
    world.run(2.5)
    assert sorted(set(names(1, 12)) - set(world.space.executors)) == sorted(names(2, 6))
    settled(world)
    assert kinds(world)[:2] == [EventKind.MASS_FAILURE_RAISED, EventKind.MASS_FAILURE_OVER]
    assert world.busiest <= 5


def test_the_lease_more_begins_anew_when_others_fall_silent_and_with_every_leader() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    heal(world, "e1")
    world.run(4)
    cut_off(world, "e7")
    world.run(8)  # e7 is silent for more than half a lease by now
    heal(world, "e7")
    world.run(8)
    assert is_holding(world)
    world.elect()
    world.run(LEASE_S)
    assert is_holding(world)
    assert len(world.space.executors) == 12
    world.run(4.5)
    assert sorted(world.space.executors) == sorted(["e1", *names(7, 12)])


def test_a_leader_that_stands_still_while_it_waits_for_the_rest_waits_longer() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    heal(world, "e1")
    world.run(5)
    assert world.controller is not None
    world.now += LEASE_S
    for member in world.members.values():
        member.sent_at += LEASE_S
    world.controller.stood_still(LEASE_S)
    world.run(3)
    assert is_holding(world)
    assert len(world.space.executors) == 12


def test_newcomers_can_make_the_silent_few() -> None:
    world = fleet(6, 12)
    cut_off(world, *names(1, 3))
    world.run(2 * LEASE_S)
    assert is_holding(world)
    world.add("e7")
    world.run(BOUND_S + 2)
    assert not {"e1", "e2", "e3"} & set(world.space.executors)
    settled(world)


def test_nothing_is_placed_on_the_silent_and_nothing_moved_for_balance() -> None:
    world = fleet(6, 12, policy=quick())
    cut_off(world, *names(1, 3))
    world.run(2 * LEASE_S)
    began = world.now
    world.load = lambda key: 50.0 if key in {"3", "9"} else 0.1
    world.run(60)
    assert world.moved(began) == []
    assert world.controller is not None
    mind = world.controller.mind(world.space, world.now)
    assert why_skipped(world.space, mind, world.now, WALL_MS) == "mass_failure"


@pytest.mark.parametrize(
    ("executors", "silent"),
    [(3, 2), (4, 2), (12, 5)],
    ids=["two of three", "two of four", "five of twelve"],
)
def test_fewer_than_three_or_than_the_ratio_are_ordinary_losses(executors, silent) -> None:
    world = fleet(executors, 24)
    cut_off(world, *names(1, silent))
    world.run(BOUND_S + 2.5)
    assert len(world.space.executors) == executors - silent
    assert world.sent(c.RaiseMassFailure) == []
    settled(world)


def test_the_ratio_is_the_namespaces_own() -> None:
    world = fleet(policy=replace(OFF, mass_failure_ratio=1.0))
    cut_off(world, *names(1, 11))
    world.run(BOUND_S + 2.5)
    assert list(world.space.executors) == ["e12"]


def test_when_all_three_vanish_nothing_is_taken_and_the_first_back_decides() -> None:
    world = fleet(3, 9)
    owners = world.owners
    cut_off(world, *names(1, 3))
    world.run(LATE_S)
    assert (world.owners, is_holding(world)) == (owners, True)
    heal(world, *names(1, 3))
    world.run(4)
    assert (world.owners, world.space.info.mass_failure) == (owners, None)


def test_a_silence_that_ends_before_any_lease_raises_nothing() -> None:
    world = fleet()
    cut_off(world, *names(1, 12))
    world.run(LEASE_S - 3)
    heal(world, *names(1, 12))
    world.run(20)
    assert world.sent(c.RaiseMassFailure) == []


def test_a_leader_that_stood_still_takes_nobodys_silence_for_an_outage() -> None:
    world = fleet()
    assert world.controller is not None
    world.now += 3 * LEASE_S
    for member in world.members.values():
        member.sent_at += 3 * LEASE_S
    world.controller.stood_still(3 * LEASE_S)
    world.run(5)
    assert world.sent(c.RaiseMassFailure) == []


# -- what goes on ------------------------------------------------------------------------------


def test_an_eviction_is_an_order_and_is_never_held_up() -> None:
    world = fleet()
    cut_off(world, *names(1, 7))
    world.run(2 * LEASE_S)
    world.order(evict("e1"))
    world.run(2)
    assert "e1" not in world.space.executors
    assert is_holding(world)
    assert None not in world.owners.values()


def test_those_who_said_that_they_leave_are_no_surprise() -> None:
    world = fleet()
    for name in names(1, 6):
        world.members[name].status = ExecutorStatus.LEAVING
    world.run(2.5)
    cut_off(world, *names(1, 6))
    world.run(BOUND_S + 2)
    assert sorted(world.space.executors) == sorted(names(7, 12))
    assert world.sent(c.RaiseMassFailure) == []


def test_a_restart_gets_its_shards_back_while_the_alarm_holds() -> None:
    world = fleet()
    owners, began = world.owners, world.now
    cut_off(world, *names(1, 7))
    world.run(2 * LEASE_S)
    world.members["e1"].restart()
    heal(world, "e1")
    world.run(3)
    assert is_holding(world)
    assert (world.owners, world.moved(began)) == (owners, [])
    assert all(world.runs(key) == ["e1"] for key, owner in owners.items() if owner == "e1")


def test_a_live_executor_is_drained_and_a_silent_one_keeps_what_it_has() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    silent = {key for key, owner in world.owners.items() if owner == "e1"}
    world.order(drain("e1"))
    world.order(drain("e12"))
    (pinned, *_) = (key for key, owner in world.owners.items() if owner == "e2")
    world.order(pin(pinned, "e11"))
    world.run(20)
    assert world.counts["e12"] == 0
    assert {key for key, owner in world.owners.items() if owner == "e1"} == silent
    assert world.owners[pinned] == "e2"
    assert all(world.space.shards[key].target is None for key in (*silent, pinned))


def test_a_stop_owed_by_a_silent_executor_is_not_taken_for_done() -> None:
    policy = replace(OFF, handoff=HandoffPolicy(release_timeout_s=4.0))
    world = fleet(policy=policy)
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    hung = next(key for key, owner in world.owners.items() if owner == "e12")
    cut_off(world, *names(1, 6))
    world.members["e12"].hangs_on.add(hung)
    world.run(9)
    world.order(move(key, "e7"))
    world.order(move(hung, "e8"))
    world.run(LATE_S)
    assert is_holding(world)
    assert world.owners[key] == "e1"
    assert world.owners[hung] == "e8"
    overdue = [claim.key for one in world.sent(c.MarkOverdue) for claim in one.claims]
    assert overdue == [hung]
    assert world.busiest <= 4
    steps = world.steps
    world.run(20)
    assert world.steps - steps <= 4 * 20
    heal(world, *names(1, 6))
    world.run(4)
    assert world.owners[key] == "e7"


def test_the_lease_of_an_overdue_shard_takes_nothing_from_a_silent_executor() -> None:
    policy = replace(OFF, handoff=HandoffPolicy(release_timeout_s=4.0))
    world = fleet(policy=policy)
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    world.members["e1"].hangs_on.add(key)
    world.order(move(key, "e7"))
    world.run_until(lambda w: w.space.shards[key].overdue, 6)
    cut_off(world, *names(1, 6))
    world.run(LATE_S)
    assert is_holding(world)
    assert world.owners[key] == "e1"
    heal(world, *names(1, 6))
    world.run(4)
    assert world.owners[key] == "e7"


# -- proceeding --------------------------------------------------------------------------------


def test_an_order_to_proceed_gives_up_the_silent_and_ends_with_them() -> None:
    world = fleet()
    kept = {key: owner for key, owner in world.owners.items() if owner not in names(1, 6)}
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    outcome = proceed(world)
    assert isinstance(outcome, c.Applied)
    assert outcome.count == 6
    world.run(1)
    assert sorted(world.space.executors) == sorted(names(7, 12))
    assert {key: world.owners[key] for key in kept} == kept
    assert world.is_settled()
    assert world.space.info.mass_failure is None
    events = {e.kind: e for e in world.space.events}
    ordered = events[EventKind.MASS_FAILURE_PROCEEDED]
    assert (ordered.by, ordered.reason) == ("ops", "rack 4")
    assert kinds(world)[-1] is EventKind.MASS_FAILURE_OVER


def test_proceeding_twice_or_without_an_alarm_changes_nothing() -> None:
    world = fleet()
    before = world.state.image()
    assert proceed(world) == c.Applied(resource=NS)
    assert world.state.image() == before
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    proceed(world)
    again = world.state.image()
    assert proceed(world) == c.Applied(resource=NS)
    assert world.state.image() == again


def test_the_next_outage_is_held_back_again() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    proceed(world)
    world.run(5)
    owners = world.owners
    cut_off(world, *names(7, 9))
    world.run(LATE_S)
    assert is_holding(world)
    assert world.owners == owners


def test_others_who_fall_silent_before_it_is_over_raise_it_anew() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    proceed(world)
    world.elect()  # full leases again: those given up are there for one more
    world.run(1)
    cut_off(world, *names(7, 9))
    world.run(LATE_S)
    assert sorted(world.space.executors) == sorted(names(7, 12))
    assert is_holding(world)
    assert len(world.sent(c.RaiseMassFailure)) == 2


def test_once_those_given_up_are_gone_it_is_over_and_another_silence_is_one_by_itself() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    proceed(world)
    world.elect()
    world.run(3.5)
    cut_off(world, "e7")
    world.run_until(lambda w: len(w.space.executors) <= 7, BOUND_S)
    world.run(0.5)
    assert sorted(world.space.executors) == sorted(names(7, 12))
    assert world.space.info.mass_failure is None


# -- leaders -----------------------------------------------------------------------------------


def test_a_new_leader_keeps_the_alarm_until_it_has_heard_enough_itself() -> None:
    world = fleet()
    owners = world.owners
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    for _ in range(3):
        world.elect()
        world.run(LEASE_S / 3)
        assert is_holding(world)
    world.run(LATE_S)
    assert (world.owners, is_holding(world)) == (owners, True)
    world.elect()
    heal(world, *names(1, 6))
    world.run(4)
    assert (world.owners, world.space.info.mass_failure) == (owners, None)
    assert kinds(world) == [EventKind.MASS_FAILURE_RAISED, EventKind.MASS_FAILURE_OVER]


def test_an_outage_that_begins_with_a_change_of_leaders_is_held_back_too() -> None:
    world = fleet()
    owners = world.owners
    world.lose_leader()
    cut_off(world, *names(1, 6))
    world.run(2)
    world.elect()
    world.run(LATE_S)
    assert (world.owners, is_holding(world)) == (owners, True)


def test_an_order_to_proceed_outlives_its_leader() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    proceed(world)
    world.elect()
    world.run(LEASE_S - 1)
    assert len(world.space.executors) == 12  # full leases again
    world.run(2.5)
    assert sorted(world.space.executors) == sorted(names(7, 12))
    assert world.space.info.mass_failure is None


def test_one_given_up_that_speaks_again_keeps_its_shards_and_is_counted_on() -> None:
    world = fleet()
    hers = {key for key, owner in world.owners.items() if owner == "e1"}
    cut_off(world, *names(1, 9))
    world.run(2 * LEASE_S)
    proceed(world)
    world.elect()
    heal(world, "e1")
    world.run(4)
    cut_off(world, "e1", "e10", "e11")
    world.run(LATE_S)
    assert sorted(world.space.executors) == sorted(["e1", *names(10, 12)])
    assert {key for key, owner in world.owners.items() if owner == "e1"} >= hers
    assert is_holding(world)
    heal(world, "e1", "e10", "e11")
    world.run(4)
    assert world.space.info.mass_failure is None
    assert not world.space.executors["e1"].given_up


def test_a_new_leader_cannot_say_at_once_who_is_silent() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * LEASE_S)
    world.elect()
    refusal = proceed(world)
    assert isinstance(refusal, c.Refused)
    assert refusal.reason is c.Reason.RECOVERING
    world.run(LEASE_S / 2 + 0.2)
    outcome = proceed(world)
    assert isinstance(outcome, c.Applied)
    assert outcome.count == 6


# -- bounds and troubles -----------------------------------------------------------------------


def test_an_order_names_as_many_as_fit_and_the_alarm_is_raised_anew_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = fleet()
    monkeypatch.setattr(guard, "GIVEN_UP_BYTES_MAX", 3 * (2 + 4 + 32))
    cut_off(world, *names(1, 9))
    world.run(2 * LEASE_S)
    for left in (6, 3, 0):
        assert is_holding(world)
        outcome = proceed(world)
        assert isinstance(outcome, c.Applied)
        assert outcome.count == 3
        world.run(1)
        assert len(world.space.executors) == left + 3
    assert world.space.info.mass_failure is None


def test_a_loss_proposed_before_the_alarm_is_settled_although_it_holds() -> None:
    world = fleet()
    cut_off(world, *names(1, 7))
    world.run(LEASE_S - 2)
    assert world.controller is not None
    mind = world.controller.mind(world.space, world.now)
    mind.leases.close("e1", "e1-1")  # proposed, and its outcome never learned
    world.run(LATE_S)
    assert is_holding(world)
    assert sorted(world.space.executors) == sorted(names(2, 12))


def test_the_same_outage_gives_the_same_commands() -> None:
    def commands() -> list[c.Command]:
        world = fleet()
        cut_off(world, *names(1, 6))
        world.run(2 * LEASE_S)
        proceed(world)
        world.run(5)
        return [one for _, one, _ in world.commands]

    assert commands() == commands()


def test_a_namespace_without_executors_has_no_outage() -> None:
    world = World(0, 4)
    controller = Controller(world.state, world.now)
    assert controller.step(world.state, world.now, WALL_MS).commands == ()


def test_an_outage_right_after_leases_were_made_longer_is_held_back_as_well() -> None:
    world = fleet()
    world.order(set_policy(replace(world.space.info.policy, lease_ttl_s=6 * LEASE_S)))
    cut_off(world, *names(1, 6))
    since = world.now
    world.run(BOUND_S + 1)
    assert is_holding(world)
    world.run(12 * LEASE_S)
    assert world.moved(since) == []


def test_whoever_was_silent_only_did_not_crash_and_does_not_hide_a_storm_that_follows() -> None:
    world = fleet()
    cut_off(world, *names(1, 6))
    world.run(2 * BOUND_S)
    assert is_holding(world)
    heal(world, *names(1, 6))
    world.run(BOUND_S)
    for name in names(1, 6):
        world.members[name].die(world.now)
        world.members[name].restart(is_proven_dead=True)
    world.run(5)
    assert not world.space.struck
