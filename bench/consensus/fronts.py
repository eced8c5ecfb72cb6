"""Writes through the front doors: our HTTP API beside etcd's, by one driver, in turns.

Decides the servers, the requests and the connections. An operator's pin of a shard to the executor
that owns it is our write: one entry in the log, and no move. Must not know how rows are shown.
"""

import random
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bench.api import target
from bench.api.driven import driven
from bench.api.driver import Drive, Driven, Request
from bench.cluster import Nodes
from bench.consensus import etcd
from bench.consensus.measure import VALUE
from bench.processes import Processes
from bench.rows import progress

CONNECTIONS: Final = (1, 64, 256)
"""One for the latency of a write alone; 64 as of a busy service; 256 for the most it can do."""
KEYS: Final = 50
"""Different keys that a connection writes, round and round."""
SECONDS: Final = 3.0
DURABLE: Final = "ours-journal"
PEER: Final = "etcd"

Front = tuple[str, Callable[[int], list[list[Request]]]]
"""The leader's URL, and what so many connections send."""
Found = dict[tuple[str, int], Driven]
"""The best round of each server at each number of connections."""


async def run(folder: Path, rounds: int) -> Found:
    """Every round of every server; without etcd only ours."""
    servers: dict[str, Callable[[Path, Processes], Awaitable[Front]]] = {
        DURABLE: lambda at, processes: _ours(at, processes, has_journal=True),
        "ours": lambda at, processes: _ours(at, processes, has_journal=False),
    }
    if etcd.lack() is None:
        servers[PEER] = _etcd
    found: Found = {}
    for number in range(rounds):
        for name, start in servers.items():
            at = folder / f"front-{name}-{number}"
            at.mkdir()
            await _round(at, name, start, found)
    return found


async def _round(
    folder: Path,
    name: str,
    start: Callable[[Path, Processes], Awaitable[Front]],
    found: Found,
) -> None:
    async with Processes(folder) as processes:
        url, requests = await start(folder, processes)
        for count in CONNECTIONS:
            one = await driven(folder, processes, Drive(url, requests(count), SECONDS))
            before = found.get((name, count))
            progress(
                f"front door  {name:16} {count:4} connections {one.answers_per_s:8,.0f} writes/s"
                f"  p50 {one.latency_p50_ms:.2f} ms  p99 {one.latency_p99_ms:.2f} ms"
            )
            if before is None or one.answers_per_s > before.answers_per_s:
                found[name, count] = one


async def _ours(folder: Path, processes: Processes, *, has_journal: bool) -> Front:
    nodes = Nodes(folder, processes, has_journal=has_journal)
    try:
        await nodes.start_all()
        held = await target.furnish(nodes)
        url = nodes.api[await nodes.leader()]
    finally:
        await nodes.close()
    owners = [(key, executor) for executor, shards in held.items() for key in shards]
    return url, lambda count: pins(owners, count)


def pins(owners: list[tuple[str, str]], connections: int) -> list[list[Request]]:
    """Each connection binds shards of its own choice to who owns them anyway."""
    rng = random.Random(connections)
    return [
        [
            Request(
                "POST",
                f"/v1/namespaces/{target.NAMESPACE}/shards/{quote(key)}/pin",
                f'{{"executor":"{executor}"}}',
            )
            for key, executor in rng.sample(owners, KEYS)
        ]
        for _ in range(connections)
    ]


async def _etcd(folder: Path, processes: Processes) -> Front:
    url = await etcd.start(folder, processes)
    return url, puts


def puts(connections: int) -> list[list[Request]]:
    """Each connection writes assignments of as many shards of its own choice."""
    rng = random.Random(connections)
    numbers = range(target.SHARDS)
    return [
        [etcd.put(f"/bench/shards/{number}", VALUE) for number in rng.sample(numbers, KEYS)]
        for _ in range(connections)
    ]


def peer_name() -> str:
    """The peer with its version."""
    told = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=False)  # noqa: S607 - from the path, as it is started
    return f"etcd {etcd.version_of(told.stdout)}, three nodes, synced to disk, v3 JSON gateway"
