"""Deploys under load: every node, or every executor, is restarted while shards are called."""

import asyncio
import contextlib

import aiohttp
import pytest

from bench.cluster import Nodes
from bench.moves.calls import Caller, Traffic
from bench.moves.fleet import NAMESPACE, ServedFleet
from bench.moves.served import Task
from bench.processes import Processes
from client import ShardCoordinatorError
from client.clock import lease_now_s

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LEASE_S = 4.0
POLICY = {
    "lease_ttl_s": LEASE_S,
    "heartbeat_interval_s": 0.5,
    "initial_hold_s": 0.2,
    "balancer": {"mode": "off"},  # what moves in these tests moves for the restarts
}
PER_S = 500
LOOK_UP_S = 0.02
LINGER_S = 1.0
"""A caller's table is behind by milliseconds; a busy machine is granted much more."""


@contextlib.asynccontextmanager
async def served(folder, *, executors, shards=64, policy=POLICY, **task):
    """Executors that are called all the time, and what became of the calls."""
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes)
        fleet = ServedFleet(
            folder,
            processes,
            nodes,
            executors=executors,
            keys=[f"shard-{number}" for number in range(shards)],
            task=Task(name="", host="", urls=[], namespace=NAMESPACE, **task),
        )
        async with fleet.started(policy), aiohttp.ClientSession() as session:
            traffic = Traffic(Caller(fleet.router, session), fleet.keys, PER_S)
            async with traffic.flowing():
                yield fleet, traffic
                await asyncio.sleep(0.5)


async def look_ups(router, keys, failed):
    """Asks a node for one owner after the other, over HTTP."""
    done = 0
    while True:
        for key in keys:
            try:
                await router.lookup(key)
            except ShardCoordinatorError as error:
                failed.append(error)
            done += 1
            await asyncio.sleep(LOOK_UP_S)


async def test_every_node_restarted_fails_no_call_and_moves_no_shard(tmp_path):
    async with served(tmp_path, executors=4) as (fleet, traffic):
        failed = []
        asking = asyncio.create_task(look_ups(fleet.router, fleet.keys, failed))
        for name in fleet.nodes.names:
            await asyncio.sleep(1.0)
            assert await fleet.nodes.terminate(name) == 0
            await fleet.nodes.start(name)
            await fleet.nodes.ready([name])
        await asyncio.sleep(1.0)
        asking.cancel()
        assert failed == []
        assert set(fleet.moves.values()) == {0}
    assert traffic.failed == []
    assert traffic.sent_max == 1
    assert len(traffic.calls) > 3 * PER_S


async def test_every_executor_restarted_fails_no_call_and_moves_no_shard_twice_for_one(tmp_path):
    async with served(tmp_path, executors=8, linger_s=LINGER_S) as (fleet, traffic):
        for name in fleet.names:
            before = fleet.moves
            await asyncio.sleep(0.5)
            assert await fleet.processes.terminate(name) == 0
            await fleet.start_executor(name)
            await fleet.until_joined([name])
            assert all(after - before[key] <= 1 for key, after in fleet.moves.items())
    assert traffic.failed == []
    assert traffic.sent_max <= 2
    assert len(traffic.calls) > 8 * PER_S


async def test_a_version_that_is_rolled_out_sends_no_shard_to_who_is_yet_to_be_replaced(tmp_path):
    # The balancer is on and would level what each restart leaves uneven.
    policy = POLICY | {"balancer": {"interval_s": 0.2, "smoothing_horizon_s": 2.0}}
    async with served(tmp_path, executors=8, policy=policy, linger_s=LINGER_S, version="v1") as (
        fleet,
        traffic,
    ):
        replaced: set[str] = set()
        for name in fleet.names:
            before = {key: len(owners) for key, owners in fleet.owners.items()}
            await asyncio.sleep(0.5)
            assert await fleet.processes.terminate(name) == 0
            await fleet.start_executor(name, version="v2")
            await fleet.until_joined([name])
            came = [owners[before[key] :] for key, owners in fleet.owners.items()]
            assert max(map(len, came)) <= 1
            receivers = {owner for owners in came for owner in owners}
            assert receivers
            # While the first is replaced, nobody is new yet.
            assert not replaced or receivers <= replaced
            replaced.add(name)
            if len(replaced) == len(fleet.names) - 1:
                break  # with the last of them versions differ no more
    assert traffic.failed == []
    assert traffic.sent_max <= 2


async def test_every_executor_that_will_be_back_keeps_every_shard(tmp_path):
    async with served(tmp_path, executors=4, back_within_s=20.0) as (fleet, _):
        longest_s = 0.0
        for name in fleet.names:
            gone_at = lease_now_s()
            assert await fleet.processes.terminate(name) == 0
            vacant = fleet.operator.shards(NAMESPACE, state="vacant")
            assert {shard.reserved async for shard in vacant} == {name}
            await fleet.start_executor(name)
            await fleet.until(
                lambda: len(fleet.router.owners()) == len(fleet.keys), "every shard is owned"
            )
            longest_s = max(longest_s, lease_now_s() - gone_at)
        assert set(fleet.moves.values()) == {0}
        # A process is up again in two seconds; this is no wait for a lease.
        assert longest_s < 20.0
