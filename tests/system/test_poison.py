"""A shard whose start ends the process of whoever starts it: it is parked, the fleet lives on."""

import asyncio
import contextlib
import sys

import msgspec
import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from client import Operator
from client.errors import ShardCoordinatorError
from tests.system.worker import Task
from tests.waiting import until

NAMESPACE = "work"
NAMES = ("one", "two", "three", "four")
SHARDS = 12
CRASHES_MAX = 8
"""Five tell one of twelve shards on four executors; a start may be slower than a placement."""
POLICY = {
    "lease_ttl_s": 4.0,
    "heartbeat_interval_s": 0.4,
    "initial_hold_s": 1.5,
    "balancer": {"mode": "off"},
}

pytestmark = pytest.mark.slow


class Supervisor:
    """Starts each executor again as soon as it has ended, and counts how often."""

    def __init__(self, folder, processes, urls):
        self._folder = folder
        self._processes = processes
        self._urls = urls
        self.crashes = 0

    def poison(self, *keys):
        (self._folder / "poison").write_text(" ".join(keys))

    async def start(self, name):
        task = Task(
            name=name,
            urls=self._urls,
            namespace=NAMESPACE,
            store=str(self._folder / "store.db"),
            told=str(self._folder / f"{name}.told"),
            lock_dir=str(self._folder),
            poison=str(self._folder / "poison"),
        )
        body = msgspec.json.encode(task).decode()
        await self._processes.start(name, [sys.executable, "-m", "tests.system.worker", body])

    async def watch(self, name):
        while True:
            await self.start(name)
            await self._processes.running[name].wait()
            del self._processes.running[name]
            self.crashes += 1


async def settled(operator, within_s, *, but=()):
    """The shards, once all but these are owned."""
    async with asyncio.timeout(within_s):
        while True:
            await asyncio.sleep(0.1)
            with contextlib.suppress(ShardCoordinatorError):
                shards = {one.key: one async for one in operator.shards(NAMESPACE)}
                states = {key: one.state for key, one in shards.items() if key not in but}
                if len(shards) == SHARDS and set(states.values()) == {"owned"}:
                    return shards


async def test_a_shard_that_ends_its_executors_is_parked_and_the_fleet_lives_on(tmp_path):
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        operator = Operator(nodes.urls)
        supervisor = Supervisor(tmp_path, processes, nodes.urls)
        supervisor.poison()
        watchers = []
        try:
            await nodes.start_all()
            await operator.create_namespace(
                NAMESPACE, kind="fixed", shard_count=SHARDS, policy=POLICY
            )
            watchers = [asyncio.create_task(supervisor.watch(name)) for name in NAMES]
            await settled(operator, 30)
            assert supervisor.crashes == 0

            supervisor.poison("7")
            first = (await operator.shard(NAMESPACE, "7")).executor
            others = [name for name in NAMES if name != first]
            await operator.move_shard(NAMESPACE, "7", others[0], reason="test")

            async def is_parked():
                return (await operator.shard(NAMESPACE, "7")).state == "parked"

            await until(is_parked, 60.0)
            assert 3 <= supervisor.crashes <= CRASHES_MAX
            told = await operator.shard(NAMESPACE, "7")
            assert told.parked.startswith("poison: present at")
            assert {strike.kind for strike in told.strikes} == {"crash"}
            crashes = supervisor.crashes
            shards = await settled(operator, 30, but=["7"])
            assert [key for key, one in shards.items() if one.state == "parked"] == ["7"]

            supervisor.poison()
            await operator.undrain_shard(NAMESPACE, "7", reason="repaired")
            await settled(operator, 15)
            assert supervisor.crashes == crashes
        finally:
            for watcher in watchers:
                watcher.cancel()
            await operator.close()
            await nodes.close()
