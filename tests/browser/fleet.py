"""Real clusters for a browser: three nodes as processes, and executors of the client kit.

A large fleet is one of plain heartbeats: a thousand executors of the kit would be a thousand tasks.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench.cluster import Nodes
from bench.processes import Processes
from client import Executor, Operator, Shard
from tests.waiting import until

NAMESPACE = "flights"
POLICY: dict[str, Any] = {
    "lease_ttl_s": 4.0,
    "heartbeat_interval_s": 0.5,
    "initial_hold_s": 0.2,
    "join_ramp_ratio": 1.0,
    "balancer": {"mode": "off", "interval_s": 1.0, "smoothing_horizon_s": 20.0, "high_mark": 0.75},
}
PATIENCE_S = 60.0
"""A browser and three nodes share two cores with whatever else runs."""


class Fleet:
    """What a test asks of it, and does to it."""

    def __init__(self, nodes: Nodes, operator: Operator) -> None:
        self.nodes = nodes
        self.operator = operator
        self._rng = random.Random(7)

    async def get(self, path: str, node: str | None = None) -> Any:
        url = self.nodes.api[node or self.nodes.living[0]]
        status, body = await self.nodes.ask("GET", url + path, timeout_s=20.0)
        assert status == 200, body
        return msgspec.json.decode(body)

    async def follower(self) -> str:
        cluster = await until(self._led, PATIENCE_S)
        return next(name for name in self.nodes.living if name != cluster.leader)

    async def _led(self) -> Any:
        seen = await self.nodes.sight(self.nodes.living[0])
        return seen if seen is not None and seen.leader in self.nodes.living else None

    async def executor(self, name: str, host: str) -> None:
        """Run an executor until it is cancelled."""

        async def start(shard: Shard) -> None:
            shard.set_load(0.01 * self._rng.lognormvariate(0.0, 1.0))

        async with Executor(
            self.nodes.urls,
            namespace=NAMESPACE,
            name=name,
            host=host,
            address=f"{host}.example:7933",
            version="2026.11.1",
            join_timeout_s=PATIENCE_S,
            on_start=start,
            on_stop=lambda _: None,
        ):
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Fleet]:
    """Three nodes with nothing in them."""
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(nodes.close)
            await nodes.start_all()
            yield Fleet(nodes, await stack.enter_async_context(Operator(nodes.urls)))


@contextlib.asynccontextmanager
async def executors(
    fleet: Fleet, count: int = 6, shards: int = 90, **policy: Any
) -> AsyncIterator[None]:
    """So many executors with measured shards."""
    await fleet.operator.create_namespace(NAMESPACE, kind="open", policy=POLICY | policy)
    names = {f"executor-{number}": f"host-{(number + 1) // 2}" for number in range(1, count + 1)}
    running = [asyncio.create_task(fleet.executor(*one)) for one in names.items()]
    try:
        await until(lambda: _are_there(fleet, names), PATIENCE_S)
        await fleet.operator.declare_shards(
            NAMESPACE, [f"route-{number:03}" for number in range(shards)]
        )
        await until(lambda: is_measured(fleet, NAMESPACE), PATIENCE_S)
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _are_there(fleet: Fleet, names: Mapping[str, str]) -> bool:
    told = await fleet.get(f"/v1/namespaces/{NAMESPACE}/executors")
    return {one["executor"] for one in told["executors"]} == set(names)


async def is_measured(fleet: Fleet, namespace: str) -> bool:
    told = await fleet.get(f"/v1/namespaces/{namespace}/balance/placement")
    return told["vacant"] == told["unmeasured"] == 0 and told["hottest"] > 0.0


# -- a large one ---------------------------------------------------------------------------------


LARGE = "large"
LEASE_S = 20.0
BEAT_S = 6.0
AT_ONCE = 16


@contextlib.asynccontextmanager
async def large_fleet(fleet: Fleet, count: int, shards: int) -> AsyncIterator[None]:
    """A thousand executors by hand: they beat, and say once what their shards weigh."""
    await fleet.operator.create_namespace(
        LARGE,
        kind="fixed",
        shard_count=shards,
        policy={**POLICY, "lease_ttl_s": LEASE_S, "heartbeat_interval_s": BEAT_S},
    )
    leader = await until(lambda: _leader_api(fleet), PATIENCE_S)
    base = f"{leader}/v1/namespaces/{LARGE}/executors"
    names = [f"e{number:04}" for number in range(count)]
    async with aiohttp.ClientSession() as session:
        hands = _Hands(session, base)
        await hands.all_beat(names, joining=True)
        beating = asyncio.create_task(hands.go_on(names))
        try:
            await until(lambda: _is_placed(fleet), 3 * PATIENCE_S)
            await hands.report(names)
            await until(lambda: is_measured(fleet, LARGE), PATIENCE_S)
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)


async def _leader_api(fleet: Fleet) -> str | None:
    found: str | None = (await fleet.get("/v1/cluster"))["leader_api"]
    return found


async def _is_placed(fleet: Fleet) -> bool:
    await asyncio.sleep(1.0)
    told = await fleet.get(f"/v1/namespaces/{LARGE}/balance/placement")
    return bool(told["vacant"] == 0)


class _Hands:
    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session, self._base = session, base
        self._sequence = 0
        self._rng = random.Random(11)
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def go_on(self, names: list[str]) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self.all_beat(names)

    async def all_beat(self, names: list[str], **fields: Any) -> None:
        self._sequence += 1
        await asyncio.gather(*(self._beat(name, self._sequence, **fields) for name in names))

    async def report(self, names: list[str]) -> None:
        await asyncio.gather(*map(self._report, names))

    async def _report(self, name: str) -> None:
        async with (
            self._turns,
            self._session.get(f"{self._base}/{name}/assignments?incarnation={name}") as answer,
        ):
            told = await answer.json()
        shards = {
            line["key"]: {"epoch": line["epoch"], "load": self._rng.lognormvariate(0, 1) * 0.005}
            for line in told["assignments"]
        }
        self._sequence += 1
        await self._beat(name, self._sequence, shards=shards)

    async def _beat(self, name: str, sequence: int, **fields: Any) -> None:
        body = {"incarnation": name, "sequence": sequence, "host": f"h{name[-3:]}", **fields}
        if "shards" not in fields and fields.get("joining"):
            body["shards"] = {}
        await until(lambda: self._is_heard(name, body), PATIENCE_S)

    async def _is_heard(self, name: str, body: dict[str, Any]) -> bool:
        async with (
            self._turns,
            self._session.post(f"{self._base}/{name}/heartbeat", json=body) as answer,
        ):
            if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:  # between two leaders
                return False
            # A report overtook this one: the lease is renewed by it.
            assert answer.status in {HTTPStatus.OK, HTTPStatus.CONFLICT}, await answer.text()
            return True
