"""One member with the product's state in it, in its own process, told what to do on stdin.

`python -m bench.snapshots.member NAME PEERS_JSON ENTRIES`: a JSON order a line, a JSON answer a
line. Ends when its stdin does. The state and its consensus are the product's; there is no HTTP
API, and no leader's mind, which has stalls of its own.
"""

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict
from typing import Any

import uvloop

from bench.snapshots.meter import Meter, rss_max_mb
from coordinator.consensus import ConsensusConfig, ConsensusError, ConsensusNode
from coordinator.core.commands import (
    Applied,
    AssignShards,
    Bootstrap,
    CloseWindow,
    CreateNamespace,
    DeclareShards,
    Entry,
    JoinExecutor,
    PinShard,
)
from coordinator.core.shard import Cause
from coordinator.core.types import ExecutorProfile, NamespaceKind, Placement, Policy
from coordinator.replica import Replica, StateMachine
from coordinator.watches import Watches

NS = "jobs"
EXECUTORS = 100
FILL_KEYS = 2_000
"""In one command; an apply of them takes some milliseconds."""
TURN_S = 0.01


class Member:
    """The node and what it is asked to do."""

    def __init__(self, name: str, peers: dict[str, str], compaction_entries: int) -> None:
        self.machine = machine = StateMachine()
        config = ConsensusConfig(
            name=name, peers=peers, api_url="", compaction_min_entries=compaction_entries
        )
        self.node = ConsensusNode(config, machine, rng=random.Random())
        self.replica = Replica(machine, self.node, Watches())
        self.meter = Meter()
        self.is_writing = False

    async def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "status":
                return self.status()
            case "lag":
                return asdict(self.meter.take())
            case "fill":
                return await self.fill(order["shards"])
            case "write":
                return await self.write(order["rate"], order["shards"])
            case "rest":
                self.is_writing = False
                return {}
            case "digest":
                return {"digest": await self.replica.digest()}
            case what:
                raise ValueError(what)

    def status(self) -> dict[str, Any]:
        status = self.node.status()
        return {
            "role": status.role,
            "term": status.term,
            "applied": status.applied_index,
            "commit": status.commit_index,
            "snapshot": status.snapshot_index,
            "snapshot_bytes": status.snapshot_bytes,
            "log": status.log_entries,
            "rss_max_mb": rss_max_mb(),
        }

    async def _commit(self, entry: Entry) -> None:
        outcome = await self.replica.execute(entry, timeout_s=30.0)
        if not isinstance(outcome, Applied):
            raise TypeError(outcome)

    async def fill(self, shards: int) -> dict[str, Any]:
        await self._commit(Bootstrap(cluster_id="bench", epoch_base=1 << 40))
        policy = Policy(max_shards=1_000_000)
        await self._commit(
            CreateNamespace(
                namespace=NS, kind=NamespaceKind.OPEN, shard_count=0, policy=policy, at_ms=1
            )
        )
        revision = self.replica.state.namespaces[NS].info.created_revision
        await self._commit(CloseWindow(namespace=NS, created_revision=revision, at_ms=1))
        for number in range(EXECUTORS):
            await self._commit(
                JoinExecutor(
                    namespace=NS,
                    executor=f"executor-{number}",
                    incarnation=f"i-{number}",
                    profile=ExecutorProfile(host=f"host-{number}", address=f"10.0.0.{number}:80"),
                    at_ms=1,
                )
            )
        for first in range(0, shards, FILL_KEYS):
            keys = [f"tenant-{n}" for n in range(first, min(shards, first + FILL_KEYS))]
            await self._commit(DeclareShards(namespace=NS, keys=tuple(keys)))
            placed = tuple(
                Placement(key, f"executor-{n % EXECUTORS}") for n, key in enumerate(keys)
            )
            await self._commit(
                AssignShards(
                    namespace=NS, placements=placed, cause=Cause.PLACED, at_ms=1_800_000_000_000
                )
            )
        return {}

    async def write(self, rate: float, shards: int) -> dict[str, Any]:
        """Writes at a rate, not as fast as it goes, until told to rest."""
        rng = random.Random(1)
        self.is_writing = True
        began = due = time.perf_counter()
        lost = done = 0
        waiting: set[asyncio.Task[None]] = set()
        while self.is_writing:
            while due <= time.perf_counter():
                due += 1.0 / rate
                pin = PinShard(
                    namespace=NS,
                    key=f"tenant-{rng.randrange(shards)}",
                    executor=f"executor-{rng.randrange(EXECUTORS)}",
                    note="bench",
                )
                waiting.add(asyncio.create_task(self._commit(pin)))
            await asyncio.sleep(TURN_S)
            ended = {task for task in waiting if task.done()}
            waiting -= ended
            lost += sum(task.exception() is not None for task in ended)
            done += len(ended)
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            lost += isinstance(result, ConsensusError)
            done += 1
        return {"writes": done - lost, "failed": lost, "seconds": time.perf_counter() - began}


async def run(name: str, peers: dict[str, str], compaction_entries: int) -> None:
    member = Member(name, peers, compaction_entries)
    member.machine.aside.spare_the_loop()
    await member.node.start()
    metering = asyncio.create_task(member.meter.run())
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    tasks: set[asyncio.Task[None]] = set()

    async def answer(order: dict[str, Any]) -> None:
        try:
            found = await member.obey(order)
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": order["id"], **found}), flush=True)

    while line := await reader.readline():
        task = asyncio.create_task(answer(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    metering.cancel()
    await member.node.stop()


if __name__ == "__main__":
    uvloop.run(run(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])))
