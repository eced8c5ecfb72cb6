"""Writes through the front doors: our HTTP API beside etcd's, by one driver, in turns.

Decides servers, requests, connections and rows. An operator's pin of a shard to the executor
that owns it is our write: one entry in the log, and no move.
"""

import random
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bench.api import target
from bench.api.driven import driven
from bench.api.driver import Drive, Request
from bench.cluster import Nodes
from bench.consensus import etcd
from bench.consensus.measure import VALUE
from bench.cpu import cpu_s
from bench.processes import Processes
from bench.rows import Row, higher_is_better, lower_is_better, progress

CONNECTIONS: Final = (1, 64, 256)
"""One for the latency of a write alone; 64 as of a busy service; 256 for the most it can do."""
KEYS: Final = 50
"""Different keys that a connection writes, round and round."""
SECONDS: Final = 3.0
DURABLE: Final = "ours-journal"
PEER: Final = "etcd"

POOL: Final = 256
"""Shards that are written at all: an operator pins hundreds, hardly thousands."""
Front = tuple[str, Callable[[int], list[list[Request]]]]
"""The leader's URL, and what so many connections send."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One server at one number of connections."""

    writes_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    cpu_ms: float
    """Processor time of all three nodes for one write; nan where the system does not tell."""


Found = dict[tuple[str, int], Measured]
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
        nodes = [process.pid for process in processes.running.values()]
        for count in CONNECTIONS:
            before_s = cpu_s(nodes)
            # No warm-up, so that what the nodes spend and what they answer are of one time.
            task = Drive(url, requests(count), SECONDS, warm_up_s=0.0)
            driver = await driven(folder, processes, task)
            one = Measured(
                writes_per_s=driver.answers_per_s,
                latency_p50_ms=driver.latency_p50_ms,
                latency_p99_ms=driver.latency_p99_ms,
                cpu_ms=(cpu_s(nodes) - before_s) * 1e3 / max(1.0, driver.answers_per_s * SECONDS),
            )
            progress(
                f"front door  {name:16} {count:4} connections {one.writes_per_s:8,.0f} writes/s"
                f"  p50 {one.latency_p50_ms:.2f} ms  p99 {one.latency_p99_ms:.2f} ms"
                f"  {one.cpu_ms:.3f} ms of processors"
            )
            best = found.get((name, count))
            found[name, count] = one if best is None else best_of(one, best)


def best_of(one: Measured, other: Measured) -> Measured:
    """The best of each figure: other programs disturb a round, they never improve one."""
    return Measured(
        writes_per_s=max(one.writes_per_s, other.writes_per_s),
        latency_p50_ms=min(one.latency_p50_ms, other.latency_p50_ms),
        latency_p99_ms=min(one.latency_p99_ms, other.latency_p99_ms),
        cpu_ms=min(one.cpu_ms, other.cpu_ms),
    )


def rows_of(found: Found) -> list[Row]:
    """Our journal beside etcd, with one connection and with many; memory beside the journal."""
    peer = peer_name() if (PEER, 1) in found else None
    rows: list[Row] = []
    for server, suffix in ((DURABLE, "journal"), ("ours", "memory")):
        for count in CONNECTIONS:
            ours, theirs = found[server, count], found.get((PEER, count))
            figures = [
                ("http_write_latency_p50", "ms", "latency_p50_ms"),
                ("http_write_latency_p99", "ms", "latency_p99_ms"),
                ("http_writes_per_s", "writes/s", "writes_per_s"),
                ("http_processor_time", "ms/write", "cpu_ms"),
            ]
            for name, unit, field in figures:
                label = f"{name}_{suffix}_{count}"
                value = getattr(ours, field)
                if theirs is None or peer is None:
                    rows.append(Row(label, value, unit))
                    continue
                beside = higher_is_better if field == "writes_per_s" else lower_is_better
                rows.append(beside(label, value, unit, peer, getattr(theirs, field)))
    return rows


async def _ours(folder: Path, processes: Processes, *, has_journal: bool) -> Front:
    nodes = Nodes(folder, processes, has_journal=has_journal)
    try:
        await nodes.start_all()
        held = await target.furnish(nodes)
        url = nodes.api[await nodes.leader()]
    finally:
        await nodes.close()
    owners = [(key, executor) for executor, shards in held.items() for key in shards]
    owners = random.Random(POOL).sample(owners, POOL)
    return url, lambda count: pins(owners, count)


def pins(owners: list[tuple[str, str]], connections: int) -> list[list[Request]]:
    """Each connection binds shards of its own choice to who owns them anyway."""
    rng = random.Random(connections)
    return [
        [
            Request(
                "POST",
                f"/v1/namespaces/{target.NAMESPACE}/shards/{quote(key)}/pin",
                f'{{"executor":"{executor}"}}'.encode(),
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
    numbers = random.Random(POOL).sample(range(target.USUAL.shards), POOL)
    return [
        [etcd.put(f"/bench/shards/{number}", VALUE) for number in rng.sample(numbers, KEYS)]
        for _ in range(connections)
    ]


def peer_name() -> str:
    """The peer with its version."""
    told = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=False)  # noqa: S607 - from the path, as it is started
    return f"etcd {etcd.version_of(told.stdout)}, three nodes, synced to disk, v3 JSON gateway"
