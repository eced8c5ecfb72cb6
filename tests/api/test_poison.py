"""Poison over HTTP: a shard that kills whoever starts it is parked, shown, and let run again."""

import asyncio
from typing import Any

import pytest

from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = ("e1", "e2", "e3")


class Fleet:
    """Executors that die of one shard, and are started again at once with the lock file."""

    def __init__(self, api: Caller, ns: str, poison: str) -> None:
        self.api, self.ns, self.poison = api, ns, poison
        self.numbers = dict.fromkeys(NAMES, 1)
        self.crashes = 0

    async def beat(self, name: str, sequence: int, **fields: Any) -> None:
        incarnation = f"{name}-{self.numbers[name]}"
        answer = await self.api.beat(self.ns, name, sequence, incarnation=incarnation, **fields)
        assert answer.status == 200, answer.raw

    async def live(self) -> None:
        sequence = 1
        for name in NAMES:
            await self.beat(name, 1)
        while True:
            sequence += 1
            for name in NAMES:
                await self.beat(name, sequence)
                if self.poison in await self.assigned(name):
                    await self.crash(name)
            await asyncio.sleep(0.02)

    async def assigned(self, name: str) -> list[str]:
        incarnation = f"{name}-{self.numbers[name]}"
        path = f"{self.ns}/executors/{name}/assignments?incarnation={incarnation}"
        return [line["key"] for line in (await self.api.get(path)).body["assignments"]]

    async def crash(self, name: str) -> None:
        dead = f"{name}-{self.numbers[name]}"
        self.numbers[name] += 1
        self.crashes += 1
        await self.beat(name, 1, joining=True, predecessor_dead=dead)


async def test_a_shard_that_kills_its_executors_is_parked_and_says_why(api: Caller):
    ns = await api.namespace("fixed", 12, lease_ttl_s=30, initial_hold_s=0.1)
    fleet = Fleet(api, ns, "7")
    living = asyncio.ensure_future(fleet.live())
    try:

        async def parked() -> Any:
            assert not living.done(), living.exception()
            shard = (await api.get(f"{ns}/shards/7")).body
            return shard if shard["state"] == "parked" else None

        shard = await until(parked)
        assert shard["parked"].startswith(f"poison: present at {fleet.crashes} crashes")
        assert len(shard["strikes"]) == fleet.crashes
        assert {strike["kind"] for strike in shard["strikes"]} == {"crash"}
        assert {strike["executor"] for strike in shard["strikes"]} <= set(NAMES)
        refused = await api.get(f"{ns}/shards/7/owner")
        assert (refused.status, refused.reason) == (409, "shard_parked")
        routing = (await api.get(f"{ns}/routing")).body
        assert routing["parked"] == ["7"]
        (event,) = (await api.get(f"{ns}/events?kind=shard_parked")).body["events"]
        assert (event["shard"], event["cause"]) == ("7", "poison")
        assert event["detail"] == shard["parked"]
        text = (await api.get("/metrics")).raw.decode()
        name = ns.rpartition("/")[2]
        assert f'shard_coordinator_shards_parked_for_poison{{namespace="{name}"}} 1.0' in text

        crashes, fleet.poison = fleet.crashes, ""
        undrained = await api.post(f"{ns}/shards/7/undrain", {"reason": "repaired"})
        assert undrained.status in {200, 202}
        assert undrained.body["strikes"] == []

        async def is_owned() -> bool:
            return bool((await api.get(f"{ns}/shards/7")).body["state"] == "owned")

        await until(is_owned)
        assert fleet.crashes == crashes
    finally:
        living.cancel()


async def test_a_threshold_is_set_by_policy_and_null_parks_nothing(api: Caller):
    ns = await api.namespace(poison_threshold=None)
    assert (await api.get(ns)).body["policy"]["poison_threshold"] is None
    changed = await api.ask("PATCH", ns, {"policy": {"poison_threshold": 5}})
    assert changed.body["policy"]["poison_threshold"] == 5
    refused = await api.ask("PATCH", ns, {"policy": {"poison_threshold": 1}})
    assert refused.body["errors"][0]["path"] == "policy.poison_threshold"
