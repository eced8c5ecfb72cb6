"""What is driven: nodes with executors that own real shards, and the requests about them.

Decides sizes. The executors are records only: their heartbeats are what the driver sends.
"""

import asyncio
import random
from typing import Final
from urllib.parse import quote

import msgspec

from bench.api.driver import FIRST_SEQUENCE, Request
from bench.cluster import Nodes

NAMESPACE: Final = "bench"
EXECUTORS: Final = 64
"""As many connections: one each, as executors have."""
LOADS: Final = 100
"""Loads in each heartbeat."""
LOOKUPS: Final = 200
"""Different keys that a connection asks for, round and round."""
SHARDS: Final = EXECUTORS * LOADS
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
OK: Final = 200
RECOVERING: Final = 503
PLACE_S: Final = 20.0
ASK_S: Final = 5.0


class Assignment(msgspec.Struct, frozen=True):
    """One line of an executor's set."""

    key: str
    epoch: int


class Assignments(msgspec.Struct, frozen=True):
    """An executor's set."""

    assignments: list[Assignment]


def names() -> list[str]:
    """The executors."""
    return [f"executor-{number}" for number in range(EXECUTORS)]


def _path(executor: str) -> str:
    return f"/v1/namespaces/{NAMESPACE}/executors/{executor}"


async def furnish(nodes: Nodes) -> dict[str, dict[str, int]]:
    """Make the namespace, let the executors in, and give each its shards: key -> epoch."""
    leader = nodes.api[await nodes.leader()]
    status, body = await nodes.ask(
        "PUT",
        f"{leader}/v1/namespaces/{NAMESPACE}",
        body={"kind": "fixed", "shard_count": SHARDS, "policy": POLICY},
        timeout_s=ASK_S,
    )
    if status not in {200, 201}:
        raise RuntimeError(f"no namespace: {status} {body!r}")
    status, body = await nodes.ask(
        "PATCH",
        f"{leader}/v1/namespaces/{NAMESPACE}",
        body={"policy": LASTING},
        timeout_s=ASK_S,
    )
    if status != OK:
        raise RuntimeError(f"no lasting leases: {status} {body!r}")
    for name in names():
        status, body = await nodes.ask(
            "POST",
            f"{leader}{_path(name)}/heartbeat",
            body={"incarnation": name, "sequence": 1, "joining": True, "shards": {}},
            timeout_s=ASK_S,
        )
        if status != OK:
            raise RuntimeError(f"{name} could not join: {status} {body!r}")
    async with asyncio.timeout(PLACE_S):
        while True:
            held = {name: await _held(nodes, leader, name) for name in names()}
            if sum(map(len, held.values())) == SHARDS:
                return held
            await asyncio.sleep(0.2)


async def _held(nodes: Nodes, leader: str, name: str) -> dict[str, int]:
    url = f"{leader}{_path(name)}/assignments?incarnation={name}"
    status, body = await nodes.ask("GET", url, timeout_s=ASK_S)
    if status == RECOVERING:
        return {}
    if status != OK:
        raise RuntimeError(f"no assignments of {name}: {status} {body!r}")
    found = msgspec.json.decode(body, type=Assignments)
    return {one.key: one.epoch for one in found.assignments}


def heartbeats(held: dict[str, dict[str, int]], rng: random.Random) -> list[list[Request]]:
    """One connection per executor, which reports every shard it holds with its load."""
    return [
        [
            Request(
                "POST",
                f"{_path(name)}/heartbeat",
                msgspec.json.encode(
                    {
                        "incarnation": name,
                        "sequence": FIRST_SEQUENCE,
                        "host": f"host-{number // 8}",
                        "address": f"10.0.0.{number}:7933",
                        "capacity": 1.0,
                        "process": {"cpu_cores": 0.83, "event_loop_lag_s": 0.004, "backlog": 0},
                        "shards": {
                            key: {"epoch": epoch, "load": round(rng.random(), 4)}
                            for key, epoch in shards.items()
                        },
                    }
                ).decode(),
            )
        ]
        for number, (name, shards) in enumerate(held.items())
    ]


def lookups(rng: random.Random) -> list[list[Request]]:
    """As many connections, each asking for keys of its own choice."""
    return [
        [
            Request("GET", f"/v1/namespaces/{NAMESPACE}/shards/{quote(key)}/owner")
            for key in (str(rng.randrange(SHARDS)) for _ in range(LOOKUPS))
        ]
        for _ in range(EXECUTORS)
    ]
