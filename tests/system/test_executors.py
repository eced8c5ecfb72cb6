"""Executors are lost and shards are moved; each shard has one owner at a time."""

import asyncio
from dataclasses import replace

import pytest

from bench.demo.ledger import by_key, epoch_faults, moves, orphaned_s, overlaps
from bench.demo.lookups import LEASE_SLACK_S, Crash
from client.clock import lease_now_s
from tests.system.running import LEASE_S, judged, running


async def test_a_crashed_executors_shards_run_again_within_lease_and_a_second(tmp_path):
    async with running(tmp_path) as fleet:
        victim = "executor-2"
        lost = [key for key in fleet.keys if fleet.owner_of(key) == victim]
        kept = {key: fleet.owner_of(key) for key in fleet.keys if key not in lost}
        assert lost
        crash = Crash(victim, lease_now_s(), LEASE_S)
        await fleet.processes.kill(victim)
        assert await fleet.until(lambda: fleet.owned_by(victim) == 0, LEASE_S + LEASE_SLACK_S)
        await asyncio.sleep(0.5)
        tenures = await judged(fleet, crashes=[crash])
        orphaned = orphaned_s(tenures, victim, crash.at)
        assert sorted(orphaned) == lost
        assert max(orphaned.values()) < LEASE_S + LEASE_SLACK_S
        assert {key: fleet.owner_of(key) for key in kept} == kept


async def test_a_planned_move_keeps_one_owner_and_costs_a_blink(tmp_path):
    async with running(tmp_path) as fleet:
        names = sorted(fleet.executors)
        moved = fleet.keys[:12]
        since = lease_now_s()
        targets = {}
        for key in moved:
            owner = fleet.owner_of(key)
            targets[key] = names[(names.index(owner) + 1) % len(names)]
            await fleet.operator.move_shard("flights", key, targets[key], reason="test")
        assert await fleet.until(
            lambda: all(fleet.owner_of(key) == targets[key] for key in moved), 5.0
        )
        await asyncio.sleep(0.3)
        tenures = await judged(fleet)
        assert moves(tenures, since, lease_now_s()) == len(moved)
        of_key = by_key(tenures)
        for key in moved:
            source, target = of_key[key]
            assert target.executor == targets[key]
            assert 0.0 <= target.began_at - source.ended_at < 1.0
        assert all(len(of_key[key]) == 1 for key in fleet.keys if key not in moved)


async def test_a_restarted_executor_gets_its_shards_back_and_no_other_shard_moves(tmp_path):
    # Long enough for an interpreter to start on a busy machine: after it the shards would be gone.
    lease_s = 5.0
    async with running(tmp_path, lease_s=lease_s) as fleet:
        name = "executor-3"
        own = [key for key in fleet.keys if fleet.owner_of(key) == name]
        crash = Crash(name, lease_now_s(), lease_s)
        await fleet.processes.kill(name)
        await fleet.start_executor(name)
        # Its former incarnation may still act until its lease is over: only then may it start.
        assert await fleet.until(lambda: _runs_again(fleet, name, own, crash.at), lease_s + 5.0)
        tenures = await judged(fleet, crashes=[crash])
        assert moves(tenures, crash.at, lease_now_s()) == 0


@pytest.mark.slow
async def test_with_a_proof_of_death_a_restarted_executor_does_not_wait_for_the_lease(tmp_path):
    lease_s = 30.0  # nothing in this test may wait for it
    locks = tmp_path / "locks"
    async with running(tmp_path, lock_dir=locks, routers=False) as fleet:
        name = "executor-3"
        own = [key for key in fleet.keys if fleet.owner_of(key) == name]
        await fleet.operator.change_policy("flights", {"lease_ttl_s": lease_s})
        await asyncio.sleep(1.0)  # everybody's lease is a long one by now
        await fleet.processes.kill(name)
        killed_at = lease_now_s()
        await fleet.start_executor(name, lock_dir=locks)
        assert await fleet.until(lambda: _runs_again(fleet, name, own, killed_at), 10.0)
        await asyncio.sleep(0.3)
        tenures = [
            replace(one, ended_at=killed_at, valid_until=killed_at)  # not the end of its lease
            if one.executor == name and one.began_at < killed_at
            else one
            for one in fleet.tenures()
        ]
        assert overlaps(tenures) == []
        assert epoch_faults(tenures) == []
        assert moves(tenures, killed_at, lease_now_s()) == 0
        # From the first shard on; before it an interpreter has to start, on a busy machine.
        began = [one.began_at for one in tenures if one.began_at > killed_at]
        assert len(began) == len(own)
        assert max(began) - min(began) < 1.0


def _runs_again(fleet, name, own, since):
    fresh = {
        tenure.key
        for tenure in fleet.tenures()
        if tenure.executor == name and tenure.began_at > since
    }
    return fresh == set(own)


async def test_a_leaving_executor_hands_every_shard_over_without_a_gap_in_look_ups(tmp_path):
    async with running(tmp_path) as fleet:
        name = "executor-1"
        own = [key for key in fleet.keys if fleet.owner_of(key) == name]
        assert await fleet.processes.terminate(name) == 0
        assert fleet.owned_by(name) == 0
        tenures = await judged(fleet)
        last = {tenure.key: tenure for tenure in tenures}
        assert all(last[key].executor != name for key in own)
        assert all(tenure.ended_at is not None for tenure in tenures if tenure.executor == name)
