"""What is driven: nodes with executors that own real shards, and the requests about them.

Decides sizes. The executors are records only: their heartbeats are what the driver sends.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from bench.api.driver import FIRST_SEQUENCE, JSON, Request
from bench.cluster import Nodes

NAMESPACE: Final = "bench"
LOOKUPS: Final = 200
"""Different keys that a connection asks for, round and round."""
POLICY: Final = {
    "lease_ttl_s": 1.0,  # for so long nobody is placed in a new namespace
    "heartbeat_interval_s": 0.5,
    "initial_hold_s": 0.5,
    "balancer": {"mode": "off"},
}
LASTING: Final = {
    "lease_ttl_s": 600.0,  # nobody is lost while something else is measured
    "heartbeat_interval_s": 60.0,
}
KIND: Final = {"kind": "fixed"}
PASSING: Final = {503, 504}
"""No leader for a moment, an outcome not known yet, or claims that are still heard."""
PLACE_S: Final = 120.0
"""A hundred thousand shards on a busy machine."""
ASK_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Executors of one namespace, each with as many shards and a connection of its own."""

    namespace: str
    executors: int
    loads: int
    """Shards of each executor, so loads in each of its heartbeats."""

    @property
    def shards(self) -> int:
        """All of them."""
        return self.executors * self.loads

    @property
    def names(self) -> list[str]:
        """The executors."""
        return [f"executor-{number}" for number in range(self.executors)]

    def path(self, executor: str) -> str:
        """Where an executor speaks."""
        return f"/v1/namespaces/{self.namespace}/executors/{executor}"


USUAL: Final = Fleet(NAMESPACE, 64, 100)
LARGE: Final = Fleet("bench-large", 16, 1_000)
"""Heartbeats ten times as long; as many shards would take as much of the run as all the rest."""


class Assignment(msgspec.Struct, frozen=True):
    """One line of an executor's set."""

    key: str
    epoch: int


class Assignments(msgspec.Struct, frozen=True):
    """An executor's set."""

    assignments: list[Assignment]


Held = dict[str, dict[str, int]]
"""What each executor owns: key -> epoch."""


async def furnish(nodes: Nodes, fleet: Fleet = USUAL) -> Held:
    """Make the namespace, let the executors in, and give each its shards."""
    space = f"/v1/namespaces/{fleet.namespace}"
    await done(nodes, "PUT", space, {**KIND, "shard_count": fleet.shards, "policy": POLICY})
    await done(nodes, "PATCH", space, {"policy": LASTING})
    for name in fleet.names:
        joining = {"incarnation": name, "sequence": 1, "joining": True, "shards": {}}
        await done(nodes, "POST", f"{fleet.path(name)}/heartbeat", joining)
    async with asyncio.timeout(PLACE_S):
        while True:
            held = {name: await _held(nodes, fleet.path(name), name) for name in fleet.names}
            if sum(map(len, held.values())) == fleet.shards:
                return held
            await asyncio.sleep(0.2)


async def done(nodes: Nodes, method: str, path: str, body: object = None) -> bytes:
    """One request at any node, again while there is no leader; raises on any other refusal."""
    async with asyncio.timeout(PLACE_S):
        while True:
            status, answer = await nodes.ask(
                method, f"{nodes.urls[0]}{path}", body=body, timeout_s=ASK_S
            )
            if status in {200, 201}:
                return answer
            if status not in PASSING:
                raise RuntimeError(f"{method} {path}: {status} {answer!r}")
            await asyncio.sleep(0.1)


async def _held(nodes: Nodes, path: str, name: str) -> dict[str, int]:
    answer = await done(nodes, "GET", f"{path}/assignments?incarnation={name}")
    found = msgspec.json.decode(answer, type=Assignments)
    return {one.key: one.epoch for one in found.assignments}


def heartbeats(
    fleet: Fleet, held: Held, rng: random.Random, media: str = JSON, *, has_loads: bool = True
) -> list[list[Request]]:
    """One connection per executor, which reports every shard it holds with its load.

    Without loads it says that it holds what it held.
    """
    encode = msgspec.json.encode if media == JSON else msgspec.msgpack.encode
    return [
        [
            Request(
                "POST",
                f"{fleet.path(name)}/heartbeat",
                encode(
                    {
                        "incarnation": name,
                        "sequence": FIRST_SEQUENCE,
                        "host": f"host-{number // 8}",
                        "address": f"10.0.0.{number}:7933",
                        "capacity": 1.0,
                        "process": {"cpu_cores": 0.83, "event_loop_lag_s": 0.004, "backlog": 0},
                    }
                    | ({"shards": _loads(shards, rng)} if has_loads else {})
                ),
                media,
            )
        ]
        for number, (name, shards) in enumerate(held.items())
    ]


def _loads(shards: dict[str, int], rng: random.Random) -> dict[str, object]:
    return {key: {"epoch": epoch, "load": round(rng.random(), 4)} for key, epoch in shards.items()}


def lookups(rng: random.Random, fleet: Fleet = USUAL, query: str = "") -> list[list[Request]]:
    """As many connections, each asking for keys of its own choice."""
    return [
        [
            Request("GET", f"/v1/namespaces/{fleet.namespace}/shards/{quote(key)}/owner{query}")
            for key in (str(rng.randrange(fleet.shards)) for _ in range(LOOKUPS))
        ]
        for _ in range(fleet.executors)
    ]
