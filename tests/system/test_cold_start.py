"""All three nodes lose their memory: who lives on keeps its shards, in earnest and in processes."""

import asyncio
import contextlib
import signal

import pytest

from bench.cluster import Nodes
from bench.demo.fleet import Fleet
from bench.demo.ledger import by_key, epoch_faults, moves, overlaps
from bench.demo.workload import Workload, read_series
from bench.processes import Processes
from client.clock import lease_now_s

NAMESPACE = "flights"
EXECUTORS = {f"executor-{number}": f"host-{number}" for number in range(1, 5)}
SHARDS = 40
SLACK_S = 10.0
"""For three interpreters to start and a leader to be elected on a busy machine."""


class SeededNodes(Nodes):
    """Nodes whose settings name the namespace, so that a new cluster makes it again."""

    lease_s = 2.0

    def config(self, name):
        path = super().config(name)
        policy = f"lease_ttl_s = {self.lease_s}, heartbeat_interval_s = 0.3, initial_hold_s = 0.2"
        path.write_text(
            f'{path.read_text()}[namespaces.{NAMESPACE}]\nkind = "open"\n'
            f'policy = {{ {policy}, balancer = {{ mode = "off" }} }}\n'
        )
        return path


@contextlib.asynccontextmanager
async def placed(folder, lease_s):
    """Executors that run every shard; nothing moves them but what a test does."""
    series = read_series()
    async with Processes(folder) as processes:
        nodes = SeededNodes(folder, processes)
        nodes.lease_s = lease_s
        fleet = Fleet(
            folder,
            processes,
            namespace=NAMESPACE,
            executors=EXECUTORS,
            keys=sorted(series)[:SHARDS],
            workload=Workload(series, lease_now_s()),
            nodes=nodes,
        )
        try:
            await fleet.start_nodes({})
            await fleet.start_executors()
            await fleet.place(SLACK_S + lease_s)
            assert await fleet.until(lambda: len(running(fleet)) == SHARDS, SLACK_S)
            yield fleet
        finally:
            await fleet.close()


def running(fleet):
    """Shards that run now and their executors, by the executors' own notes."""
    return {one.key: one.executor for one in fleet.tenures() if one.ended_at is None}


async def lose_all(fleet, *, for_s):
    """Kill every node, and start them again with nothing but their settings."""
    former = fleet.router.cursor.cluster_id
    for name in fleet.nodes.names:
        await fleet.nodes.kill(name)
    await asyncio.sleep(for_s)
    await fleet.nodes.start_all()
    return former


async def recovered(fleet, former, keys, lease_s):
    """Whether a new cluster's table names an owner for each of these shards."""

    def is_known():
        cursor = fleet.router.cursor
        return cursor.cluster_id != former and set(keys) <= set(fleet.router.owners())

    return await fleet.until(is_known, lease_s + SLACK_S)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_fleet_whose_leases_ran_out_meanwhile_gets_back_every_shard(tmp_path):
    lease_s = 2.0
    async with placed(tmp_path, lease_s) as fleet:
        before, epochs = running(fleet), fleet.router.owners()
        since = lease_now_s()
        former = await lose_all(fleet, for_s=3 * lease_s)
        assert await recovered(fleet, former, before, lease_s)
        assert await fleet.until(lambda: running(fleet) == before, SLACK_S)
        tenures = fleet.tenures()
        assert moves(tenures, since, lease_now_s()) == 0
        assert (overlaps(tenures), epoch_faults(tenures)) == ([], [])
        after = fleet.router.owners()
        assert {key: owner.executor for key, owner in after.items()} == before
        assert all(after[key].epoch > epochs[key].epoch for key in before)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_fleet_that_kept_its_leases_goes_on_and_who_slept_is_waited_for(tmp_path):
    lease_s = 10.0
    async with placed(tmp_path, lease_s) as fleet:
        sleeper = "executor-4"
        before = running(fleet)
        kept = {key: name for key, name in before.items() if name != sleeper}
        await asyncio.sleep(1.0)  # it notes until when it may act: by that its end is judged
        since = lease_now_s()
        fleet.processes.send(sleeper, signal.SIGSTOP)
        former = await lose_all(fleet, for_s=0.0)
        # Of an open namespace nobody remembers what nobody claims: it is asked for again.
        await fleet.operator.declare_shards(NAMESPACE, fleet.keys)
        assert await recovered(fleet, former, before, lease_s)
        fleet.processes.send(sleeper, signal.SIGCONT)
        assert await fleet.until(lambda: len(fleet.router.owners()) == SHARDS, SLACK_S)
        await asyncio.sleep(1.0)
        tenures = fleet.tenures()
        assert (overlaps(tenures), epoch_faults(tenures)) == ([], [])
        of_key = by_key(tenures)
        for key, name in kept.items():
            (only,) = of_key[key]  # it was never stopped
            assert (only.executor, only.ended_at) == (name, None)
            assert only.epoch_last > only.epoch_first
        lost = [key for key in before if key not in kept]
        assert {of_key[key][0].executor for key in lost} == {sleeper}
        assert moves(tenures, since, lease_now_s()) <= len(lost)
