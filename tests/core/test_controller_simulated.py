"""A leader and executors over virtual time: what moves, what stays, and that all comes to rest."""

from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.controller.homes import chunks
from coordinator.core.controller.owed import HOLDS_MAX
from coordinator.core.planner import hash_place
from coordinator.core.shard import Cause
from coordinator.core.types import (
    BalancerMode,
    CloseCause,
    ExecutorStatus,
    HandoffPolicy,
    InitialPlacement,
    NamespaceKind,
    Placement,
    Policy,
    TargetKind,
)
from tests.core.builders import (
    NS,
    cordon,
    create,
    declare,
    drain,
    evict,
    park,
    pin,
    uncordon,
    undrain,
    unpark,
)
from tests.core.controller_world import TICK_S, World, quick, settled

OFF = quick(mode=BalancerMode.OFF)
LEASE_S = Policy().lease_ttl_s
BOUND_S = LEASE_S * 1.01
WARM = quick(Policy(handoff=HandoffPolicy(warmup=True)))


def held_at_most(world: World, difference: int) -> bool:
    return max(world.counts.values()) - min(world.counts.values()) <= difference


# -- the first placement -----------------------------------------------------------------------


def test_a_fresh_namespace_is_placed_evenly_after_the_quiet_period() -> None:
    world = World(2, 9)
    took_s = world.run_until(World.is_settled, 10)
    assert took_s == pytest.approx(Policy().initial_hold_s, abs=0.5)
    assert held_at_most(world, 1)


def test_those_who_come_during_the_quiet_period_get_their_share_and_prolong_it() -> None:
    world = World(1, 12)
    world.run(4)
    world.add("e2")
    world.run(4)
    assert set(world.owners.values()) == {None}
    world.add("e3")
    settled(world)
    assert world.counts == {"e1": 4, "e2": 4, "e3": 4}
    assert world.sent(c.StartHandoffs) == []


@pytest.mark.parametrize("says_goodbye", [False, True])
def test_one_that_joins_over_and_over_keeps_nobody_from_work_for_long(says_goodbye: bool) -> None:  # noqa: FBT001 - a parametrised case
    world = World(3, 12, policy=OFF)
    crashing = world.add("e4")
    hold_s, began = OFF.initial_hold_s, world.now
    while not world.space.has_owners:
        world.run(hold_s - 2)
        assert world.now - began < (HOLDS_MAX + 1) * hold_s
        if says_goodbye:
            world.leave("e4")
            crashing.come_back()
        else:
            crashing.restart(is_proven_dead=True)
    assert world.now - began > (HOLDS_MAX - 1) * hold_s


def test_by_hash_a_shards_first_executor_is_decided_by_its_key_alone() -> None:
    policy = Policy(initial_placement=InitialPlacement.HASH, balancer=OFF.balancer)
    world = settled(World(3, 30, policy=policy))
    assert world.owners == hash_place(world.owners, ("e3", "e1", "e2"))


def test_without_executors_nothing_is_written() -> None:
    world = World(0, 4)
    world.run(30)
    assert world.commands == []
    assert world.steps < 40


# -- rest --------------------------------------------------------------------------------------


def test_at_rest_nothing_is_written_and_the_leader_wakes_about_once_a_second() -> None:
    world = settled(World(3, 12, policy=quick()))
    world.run(30)
    steps, revision, written = world.steps, world.space.revision, len(world.commands)
    world.run(60)
    loads = len(world.sent(c.RecordLoads))  # the loads, once a minute
    assert loads <= 1
    assert (world.space.revision, len(world.commands)) == (revision, written + loads)
    assert world.steps - steps <= 4 * 60


def test_a_level_fleet_stays_as_it_is_after_a_leader_change() -> None:
    world = settled(World(4, 40, policy=quick(), load=lambda key: 1.0 + int(key) % 5))
    world.run(60)
    owners = world.owners
    world.elect()
    since = world.now
    world.run(60)
    assert world.owners == owners
    assert world.moved(since) == []


def test_the_same_events_give_the_same_commands() -> None:
    def told() -> list[c.Command]:
        world = settled(World(4, 40, policy=quick(), load=lambda key: int(key) % 7))
        world.members["e2"].is_alive = False
        world.run(40)
        return [command for _, command, _ in world.commands]

    assert told() == told()


# -- joins and balance -------------------------------------------------------------------------


def test_a_late_joiner_gets_a_fair_share_and_the_others_keep_theirs_then_all_rests() -> None:
    world = settled(World(3, 40, policy=quick()))
    joined_at = world.now
    world.add("e4")
    world.run(120)
    assert world.taken(joined_at) == {"e4"}
    assert world.counts["e4"] == pytest.approx(10, abs=1)
    since = world.now
    world.run(60)
    assert world.moved(since) == []


def test_several_newcomers_get_a_fair_share_each() -> None:
    world = settled(World(2, 40, policy=quick()))
    for name in ("e3", "e4", "e5"):
        world.add(name)
    world.run(120)
    assert held_at_most(world, 2)


def test_moves_for_balance_stay_within_the_budget_and_the_handoffs_in_flight() -> None:
    policy = quick(move_budget_ratio=0.05, max_in_flight=2, budget_window_s=10.0)
    world = settled(World(2, 40, policy=policy))
    world.add("e3")
    since = world.now
    world.run(30)
    moves = [move for one in world.sent(c.StartHandoffs, since) for move in one.moves]
    assert 2 <= len(moves) <= 2 + 2 * 3
    assert {move.cause for move in moves} == {Cause.BALANCE}


def test_nothing_is_moved_for_balance_while_an_executor_is_silent() -> None:
    world = settled(World(3, 30, policy=quick()))
    world.run(15)
    world.members["e3"].is_cut_off = True
    world.run(5.5)
    world.add("e4")
    since = world.now
    world.run(4)
    assert world.sent(c.StartHandoffs, since) == []


# -- losses ------------------------------------------------------------------------------------


def test_a_crashed_executors_shards_are_owned_again_within_its_lease_and_nobody_elses_move() -> (
    None
):
    world = settled(World(4, 40, policy=OFF))
    before = world.owners
    world.members["e2"].is_alive = False
    took_s = world.run_until(lambda w: "e2" not in w.owners.values(), 20)
    assert took_s <= BOUND_S + 2 * TICK_S
    settled(world, 1)
    after = world.owners
    assert {key for key in after if after[key] != before[key]} == {
        key for key, owner in before.items() if owner == "e2"
    }
    assert held_at_most(world, 1)


def test_loss_and_new_owners_are_one_command_so_that_no_shard_is_ownerless_in_between() -> None:
    world = settled(World(3, 12, policy=OFF))
    world.members["e2"].is_alive = False
    since = world.now
    world.run(15)
    assert None not in world.taken(since)
    assert len(world.sent(c.CloseIncarnation, since)) == 1
    assert world.sent(c.AssignShards, since) == []


def test_who_was_cut_off_stops_in_time_hears_that_it_expired_and_comes_back_empty() -> None:
    world = settled(World(3, 12, policy=quick()))
    world.members["e1"].is_cut_off = True
    world.run(30)
    assert "e1" not in world.owners.values()
    assert world.members["e1"].running == {}
    world.members["e1"].is_cut_off = False
    world.run(60)
    assert world.members["e1"].last_word == CloseCause.EXPIRED
    assert world.counts["e1"] == 4


def test_when_all_are_lost_their_shards_wait_for_the_next_to_come() -> None:
    world = settled(World(2, 6, policy=OFF))
    for member in world.members.values():
        member.is_alive = False
    world.run(20)
    assert world.space.executors == {}
    assert set(world.owners.values()) == {None}
    world.add("e9")
    settled(world, 10)
    assert set(world.owners.values()) == {"e9"}


def test_a_silent_executor_that_speaks_again_in_time_loses_nothing() -> None:
    world = settled(World(2, 8, policy=OFF))
    before = world.owners
    world.members["e1"].is_cut_off = True
    world.run(LEASE_S - 3)
    world.members["e1"].is_cut_off = False
    world.run(20)
    assert world.owners == before


def test_a_leader_that_stood_still_expires_nobody_for_it() -> None:
    world = settled(World(2, 8, policy=OFF))
    before, epochs = world.owners, {k: s.epoch for k, s in world.space.shards.items()}
    controller = world.controller
    world.lose_leader()
    world.now += 12.0
    world.controller = controller
    assert controller is not None
    controller.stood_still(12.0)
    for member in world.members.values():
        member.next_beat_at = world.now + 1.5
    world.run(30)
    assert world.owners == before
    assert {k: s.epoch for k, s in world.space.shards.items()} == epochs


# -- leader changes ----------------------------------------------------------------------------


def test_a_new_leader_gives_everyone_a_full_lease_before_it_expires_anyone() -> None:
    world = settled(World(3, 12, policy=OFF))
    world.members["e1"].is_alive = False
    world.run(8)
    world.elect()
    took_s = world.run_until(lambda w: "e1" not in w.owners.values(), 20)
    assert took_s >= BOUND_S - TICK_S


def test_a_leader_change_shorter_than_half_a_lease_costs_nobody_a_shard() -> None:
    world = settled(World(3, 12, policy=quick()))
    world.run(20)
    before, epochs = world.owners, {k: s.epoch for k, s in world.space.shards.items()}
    world.lose_leader()
    world.run(4)
    world.elect()
    world.run(60)
    assert world.owners == before
    assert {k: s.epoch for k, s in world.space.shards.items()} == epochs


@pytest.mark.parametrize("policy", [OFF, WARM], ids=["cold", "warm"])
def test_a_drain_is_completed_by_any_leader_whenever_the_former_one_is_lost(
    policy: Policy,
) -> None:
    for after_ticks in range(6):
        world = settled(World(3, 12, policy=policy))
        world.run(1)
        world.order(drain("e1"))
        world.run(after_ticks * TICK_S)
        world.lose_leader()
        world.run(1)
        world.elect()
        world.run_until(lambda w: w.status("e1") == "drained" and w.is_settled(), 5)
        assert world.space.drains[TargetKind.EXECUTOR, "e1"].moved == 4


@pytest.mark.parametrize("policy", [OFF, WARM], ids=["cold", "warm"])
def test_a_leader_lost_at_any_moment_of_a_restart_and_a_loss_leaves_nothing_stuck(
    policy: Policy,
) -> None:
    for after_ticks in range(0, 130, 13):
        world = settled(World(3, 9, policy=policy))
        world.order(drain("e3"))
        world.run(TICK_S)
        world.members["e1"].restart()
        world.members["e2"].is_alive = False
        world.run(after_ticks * TICK_S)
        world.elect()
        settled(world, 2 * BOUND_S + 5)
        assert set(world.owners.values()) == {"e1"}


# -- a shorter lease ---------------------------------------------------------------------------


def test_a_lease_made_shorter_never_cuts_a_longer_one_that_is_still_out() -> None:
    world = settled(World(2, 4, policy=OFF))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    world.run(2)
    world.members["e1"].is_cut_off = True
    shorter = Policy(lease_ttl_s=2, heartbeat_interval_s=0.5, balancer=OFF.balancer)
    world.order(c.SetPolicy(namespace=NS, policy=shorter))
    world.elect()
    # The check of every tick is that e1, whose lease is still good, has no second beside it.
    took_s = world.run_until(lambda w: w.owners[key] == "e2", 20)
    assert took_s >= BOUND_S - TICK_S
    world.run_until(lambda w: w.space.info.lease_bound_s == 2, 20)


def test_a_shorter_lease_holds_for_losses_once_the_longer_ones_are_over() -> None:
    world = settled(World(2, 4, policy=OFF))
    shorter = Policy(lease_ttl_s=2, heartbeat_interval_s=0.5, balancer=OFF.balancer)
    world.order(c.SetPolicy(namespace=NS, policy=shorter))
    took_s = world.run_until(lambda w: w.space.info.lease_bound_s == 2, 20)
    assert took_s == pytest.approx(BOUND_S, abs=0.3)
    assert len(world.sent(c.SettleLease)) == 1
    world.members["e1"].is_alive = False
    assert world.run_until(lambda w: "e1" not in w.owners.values(), 5) <= 2.3


def test_a_lease_changed_twice_is_settled_for_the_last_policy_only() -> None:
    world = settled(World(1, 1, policy=OFF))
    for ttl_s in (6.0, 4.0):
        world.order(
            c.SetPolicy(namespace=NS, policy=Policy(lease_ttl_s=ttl_s, balancer=OFF.balancer))
        )
        world.run(BOUND_S - 1)
    assert world.space.info.lease_bound_s == LEASE_S
    world.run(3)
    assert world.space.info.lease_bound_s == 4.0


# -- drains, parks, pins -----------------------------------------------------------------------


@pytest.mark.parametrize("policy", [quick(), WARM], ids=["cold", "warm"])
def test_a_drained_host_loses_all_its_shards_by_handoff_and_gets_none_until_it_is_undrained(
    policy: Policy,
) -> None:
    world = World(3, 12, policy=policy)
    world.add("e4", host="h-e3")
    settled(world)
    others = {k: owner for k, owner in world.owners.items() if owner in ("e1", "e2")}
    since = world.now
    world.order(drain("h-e3", TargetKind.HOST))
    took_s = world.run_until(lambda w: w.status("e3") == w.status("e4") == "drained", 10)
    assert took_s < 2
    assert others.items() <= world.owners.items()
    assert None not in world.taken(since)
    world.run(30)
    assert world.counts["e3"] == world.counts["e4"] == 0
    world.order(undrain("h-e3", TargetKind.HOST))
    world.run(60)
    assert held_at_most(world, 2)


def test_a_drain_keeps_to_its_handoffs_in_flight() -> None:
    world = settled(World(2, 40, policy=Policy(drain_in_flight=3, balancer=OFF.balancer)))
    world.order(drain("e1"))
    for _ in range(60):
        world.tick()
        assert len(world.space.in_flight) <= 3
    assert world.status("e1") == "drained"


def test_a_drain_of_the_last_executor_waits_without_a_stir() -> None:
    world = settled(World(1, 4, policy=quick()))
    world.run(20)
    world.order(drain("e1"))
    world.run(1)
    steps = world.steps
    world.run(20)
    assert world.status("e1") == "draining"
    assert set(world.owners.values()) == {"e1"}
    assert world.steps - steps <= 80
    world.add("e2")
    world.run_until(lambda w: w.status("e1") == "drained", 5)


def test_an_executor_that_says_it_leaves_is_emptied() -> None:
    world = settled(World(2, 8, policy=OFF))
    world.members["e1"].status = ExecutorStatus.LEAVING
    world.run_until(lambda w: set(w.owners.values()) == {"e2"}, 5)
    causes = {one.cause for one in world.space.shards.values()}
    assert Cause.LEAVING in causes


def test_a_cordoned_executor_keeps_what_it_has_and_gets_nothing() -> None:
    world = settled(World(2, 8, policy=OFF))
    world.order(cordon("e1"))
    world.members["e2"].is_alive = False
    world.run(20)
    assert world.counts == {"e1": 4}
    assert None in world.owners.values()


def test_a_parked_shard_is_run_by_nobody_until_it_is_unparked() -> None:
    world = settled(World(2, 4, policy=quick()))
    world.order(park("0"))
    world.run(20)
    assert (world.owners["0"], world.runs("0")) == (None, [])
    world.order(unpark("0"))
    world.run(1)
    assert world.runs("0") == [world.owners["0"]]


def test_a_pinned_shard_is_brought_to_its_executor_and_back_there_after_an_absence() -> None:
    world = settled(World(3, 6, policy=quick()))
    world.order(pin("0", "e3"))
    world.run(2)
    assert world.owners["0"] == "e3"
    world.members["e3"].is_cut_off = True
    world.run(15)
    assert world.owners["0"] in ("e1", "e2")
    world.members["e3"].is_cut_off = False
    world.run(60)
    assert world.owners["0"] == "e3"


def test_a_pin_whose_executor_is_silent_moves_its_shard_to_nobody_else() -> None:
    world = settled(World(3, 6, policy=OFF))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    # Somebody else would be a better place by load.
    for theirs in list(world.space.owned("e2")):
        world.order(c.MoveShard(namespace=NS, key=theirs, target="e1", at_ms=0))
    world.run(1)
    world.members["e3"].is_cut_off = True
    world.run(6)
    world.order(pin(key, "e3"))
    world.run(3)
    assert world.owners[key] == "e1"
    assert world.sent(c.StartHandoffs) == []


def test_a_drain_of_a_shards_pin_target_is_shown_as_blocked_by_keeping_the_shard() -> None:
    world = settled(World(2, 4, policy=OFF))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    world.order(pin(key, "e1"))
    world.order(drain("e1"))
    world.run(5)
    assert list(world.space.owned("e1")) == [key]


# -- restarts ----------------------------------------------------------------------------------


def test_a_restart_moves_nothing_and_waits_for_the_lease_of_the_former_process() -> None:
    world = settled(World(3, 12, policy=quick()))
    world.run(20)
    before = world.owners
    mine = [key for key, owner in before.items() if owner == "e1"]
    since = world.now
    world.members["e1"].restart()
    took_s = world.run_until(World.is_settled, 20)
    assert BOUND_S - 3 <= took_s <= BOUND_S + 1
    assert world.owners == before
    assert world.moved(since) == []
    assert {world.space.shards[key].cause for key in mine} == {Cause.RESTART}


def test_a_restart_after_a_proven_death_runs_again_at_once() -> None:
    world = settled(World(3, 12, policy=quick()))
    before = world.owners
    world.members["e1"].restart(is_proven_dead=True)
    assert world.run_until(World.is_settled, 20) <= 3 * TICK_S
    assert world.owners == before


def test_two_live_processes_under_one_name_never_overlap_and_the_older_one_is_told() -> None:
    world = settled(World(2, 4, policy=OFF))
    older = world.members["e1"]
    older.is_cut_off = True
    twin = world.add("twin")
    twin.name, twin.number = "e1", 2
    world.run(20)
    older.is_cut_off = False
    older.next_beat_at = world.now
    world.run(1)
    assert older.last_word == CloseCause.SUPERSEDED
    assert not older.is_alive
    assert len(twin.running) == 2


def test_a_successor_that_dies_while_it_waits_is_followed_by_other_executors() -> None:
    world = settled(World(2, 4, policy=OFF))
    world.members["e1"].restart()
    world.run(1)
    world.members["e1"].is_alive = False
    took_s = world.run_until(World.is_settled, 30)
    assert set(world.owners.values()) == {"e2"}
    assert took_s <= BOUND_S + 1


def test_an_evicted_executors_shards_move_when_its_lease_is_over_and_it_ends() -> None:
    world = settled(World(2, 4, policy=OFF))
    assert world.controller is not None
    world.controller.mind(world.space, world.now).leases.close("e1", "e1-1")
    world.order(evict("e1"))
    took_s = world.run_until(lambda w: set(w.owners.values()) == {"e2"}, 20)
    assert took_s >= BOUND_S - 3
    assert world.members["e1"].last_word == CloseCause.EVICTED
    closed = world.sent(c.CloseIncarnation)[-1]
    assert closed.cause is CloseCause.EVICTED


# -- hung and failing executors ----------------------------------------------------------------


def test_a_hung_stop_ends_by_the_shards_own_lease_while_its_owner_beats_on() -> None:
    policy = Policy(handoff=HandoffPolicy(release_timeout_s=4), balancer=OFF.balancer)
    world = settled(World(2, 4, policy=policy))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    world.members["e1"].hangs_on = {key}
    world.order(drain("e1"))
    took_s = world.run_until(lambda w: w.owners[key] == "e2", 30)
    assert 4 + BOUND_S <= took_s <= 4 + BOUND_S + 1
    assert world.status("e1") == "drained"
    assert world.members["e1"].last_word == ""


def test_a_hung_stop_ends_under_a_new_leader_too_after_a_lease_of_its_own() -> None:
    policy = Policy(handoff=HandoffPolicy(release_timeout_s=4), balancer=OFF.balancer)
    world = settled(World(2, 4, policy=policy))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    world.members["e1"].hangs_on = {key}
    world.order(drain("e1"))
    world.run(8)
    assert world.space.shards[key].overdue
    world.elect()
    took_s = world.run_until(lambda w: w.owners[key] == "e2", 30)
    assert took_s == pytest.approx(BOUND_S, abs=0.3)


def test_a_warm_up_that_never_ends_is_given_up_and_the_owner_serves_on() -> None:
    policy = quick(
        Policy(handoff=HandoffPolicy(warmup=True, release_timeout_s=4)), mode=BalancerMode.OFF
    )
    world = settled(World(2, 2, policy=policy))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    epoch = world.space.shards[key].epoch
    world.members["e2"].hangs_on = {key}
    world.order(c.MoveShard(namespace=NS, key=key, target="e2", at_ms=0))
    world.run(6)
    assert world.runs(key) == ["e1"]
    assert world.space.shards[key].epoch == epoch
    assert not world.space.in_flight


def test_where_a_warm_up_hung_the_shard_goes_last() -> None:
    policy = quick(
        Policy(handoff=HandoffPolicy(warmup=True, release_timeout_s=4)), mode=BalancerMode.OFF
    )
    world = settled(World(3, 3, policy=policy))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    world.members["e2"].hangs_on = {key}
    world.order(cordon("e3"))
    world.order(drain("e1"))
    world.run(2)
    assert world.space.shards[key].target == "e2"
    world.order(uncordon("e3"))
    world.run(10)
    assert world.runs(key) == ["e3"]
    targets = [m.target for sent in world.sent(c.StartHandoffs) for m in sent.moves if m.key == key]
    assert targets == ["e2", "e3"]


def test_a_warm_up_and_the_stop_after_it_have_a_deadline_each() -> None:
    policy = quick(
        Policy(handoff=HandoffPolicy(warmup=True, release_timeout_s=4)), mode=BalancerMode.OFF
    )
    world = settled(World(2, 2, policy=policy))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    for name in ("e1", "e2"):
        world.members[name].hangs_on = {key}
    world.order(c.MoveShard(namespace=NS, key=key, target="e2", at_ms=0))
    world.run(3)
    world.members["e2"].hangs_on = set()
    world.run(3)
    assert world.sent(c.MarkOverdue) == []
    world.run(1.5)
    assert len(world.sent(c.MarkOverdue)) == 1


def test_a_warm_up_for_an_executor_that_may_get_nothing_any_more_is_given_up_at_once() -> None:
    policy = quick(Policy(handoff=HandoffPolicy(warmup=True)), mode=BalancerMode.OFF)
    world = settled(World(2, 2, policy=policy))
    key = next(key for key, owner in world.owners.items() if owner == "e1")
    world.members["e2"].hangs_on = {key}
    world.order(c.MoveShard(namespace=NS, key=key, target="e2", at_ms=0))
    world.run(1)
    world.order(cordon("e2"))
    world.run(TICK_S)
    assert not world.space.in_flight


def test_a_shard_that_fails_to_start_is_tried_on_every_other_executor() -> None:
    world = World(4, 8, policy=OFF)
    for name in ("e1", "e2", "e3"):
        world.members[name].fails_on = {"0"}
    settled(world, 10)
    assert world.owners["0"] == "e4"
    assert len([key for _, key, owner in world.log if key == "0" and owner]) <= 4


@pytest.mark.parametrize("executors", [1, 3])
def test_a_shard_that_nobody_can_start_rests_after_each_round_and_stirs_nothing_else(
    executors: int,
) -> None:
    world = World(executors, 6, policy=replace(OFF, poison_threshold=None))
    for member in world.members.values():
        member.fails_on = {"0"}
    world.run(10)
    since, rest = world.now, {k: owner for k, owner in world.owners.items() if k != "0"}
    world.run(50)
    starts = [owner for at, key, owner in world.log if key == "0" and owner and at > since]
    assert 8 * executors <= len(starts) <= 10 * executors
    assert rest == {k: owner for k, owner in world.owners.items() if k != "0"}
    for member in world.members.values():
        member.fails_on = set()
    settled(world, 10)


def test_a_pinned_shard_that_cannot_be_started_rests_too() -> None:
    world = settled(World(3, 6, policy=OFF))
    world.order(pin("0", "e3"))
    world.members["e3"].fails_on = {"0"}
    world.run(30)
    assert len(world.sent(c.AssignShards)) <= 8
    world.members["e3"].fails_on = set()
    settled(world, 10)
    assert world.owners["0"] == "e3"


def test_a_failed_start_is_forgotten_after_a_while() -> None:
    world = World(2, 4, policy=OFF)
    world.members["e1"].fails_on = {"0"}
    settled(world, 10)
    assert world.owners["0"] == "e2"
    assert world.controller is not None
    mind = world.controller.mind(world.space, world.now)
    assert len(mind.failures) == 1
    world.run(70)
    assert len(mind.failures) == 0


def test_a_drain_goes_where_a_start_failed_rather_than_nowhere() -> None:
    world = World(2, 4, policy=OFF)
    world.members["e1"].fails_on = {"0"}
    settled(world, 10)
    world.members["e1"].fails_on = set()
    world.order(drain("e2"))
    world.run_until(lambda w: w.status("e2") == "drained", 5)


# -- namespaces --------------------------------------------------------------------------------


def test_a_namespace_made_anew_waits_for_those_who_may_still_act_in_the_former_one() -> None:
    world = settled(World(2, 4, policy=OFF))
    world.members["e1"].is_cut_off = True
    world.order(c.DeleteNamespace(namespace=NS, force=True))
    world.order(create(NamespaceKind.FIXED, 4, policy=OFF))
    world.run(9)
    assert world.runs("0") in ([], ["e1"])
    settled(world, 20)
    assert set(world.owners.values()) == {"e2"}


def test_a_pass_of_very_many_moves_goes_in_commands_of_bounded_size() -> None:
    policy = quick(
        Policy(join_ramp_ratio=1.0),
        move_budget_ratio=1.0,
        max_in_flight=10_000,
        max_in_flight_per_executor=10_000,
    )
    world = World(1, 0, policy=policy, kind=NamespaceKind.OPEN)
    world.order(declare(*(f"{number:0250}" for number in range(240))))
    settled(world)
    world.add("e2")
    world.run_until(lambda w: bool(w.space.in_flight), 60)
    starts = world.sent(c.StartHandoffs)
    moves = [Placement(move.key, move.target) for start in starts for move in start.moves]
    assert len(moves) > 100
    assert len(starts) == len(list(chunks(moves))) > 1
