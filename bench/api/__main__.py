"""Heartbeats with 100 loads each and owner look-ups through HTTP, beside a bare aiohttp handler.

`python -m bench.api [--json] [--seconds N] [--rounds N]`. One node alone, then the leader of
three; drivers (raw asyncio sockets, kept connections) and the peer are processes of their own, and
all take turns in one run. Exit status 0 only when one node alone reaches its share of the peer.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.api import target
from bench.api.driven import driven
from bench.api.driver import FIRST_SEQUENCE, Drive, Driven, Request
from bench.cluster import Nodes
from bench.processes import Processes, free_ports
from bench.rows import Bar, Row, higher_is_better, lower_is_better, missed, progress, publish

PEER: Final = "bare aiohttp handler"
BARS: Final = (Bar("heartbeats_per_s_1_node", 0.6), Bar("owner_lookups_per_s_1_node", 0.6))
"""The rest is for leases, quorum, routing and bounds. Three nodes share two or four cores with the
driver on most machines, so their ratio is shown and not judged."""
SIZES: Final = (1, 3)
EXTRA_ROUNDS: Final = 2
"""While a bar is missed: on a busy machine the best of a few rounds is nearer to the truth."""


@dataclass(slots=True)
class Measurements:
    """The best round of each kind of request at each server."""

    best: dict[tuple[str, str], Driven] = field(default_factory=dict)

    def add(self, kind: str, server: str, driven: Driven) -> None:
        """Take a round in; the one that was disturbed least counts, for every server alike."""
        before = self.best.get((kind, server))
        if before is None or driven.answers_per_s > before.answers_per_s:
            self.best[kind, server] = driven


class Bench:
    """Drivers take turns at the servers of one size of cluster."""

    def __init__(self, folder: Path, processes: Processes, seconds: float) -> None:
        self._folder = folder
        self._processes = processes
        self._seconds = seconds
        self._sequence = FIRST_SEQUENCE

    async def measure(self, url: str, requests: list[list[Request]]) -> Driven:
        """One driver at one server; raises when anything was not answered with 200."""
        task = Drive(url, requests, self._seconds, first_sequence=self._sequence)
        found = await driven(self._folder, self._processes, task)
        self._sequence = found.last_sequence
        return found


async def run(folder: Path, seconds: float, rounds: int) -> dict[int, Measurements]:
    """Every size of cluster, one after the other."""
    return {size: await run_size(folder, size, seconds, rounds) for size in SIZES}


async def run_size(folder: Path, size: int, seconds: float, rounds: int) -> Measurements:
    """A cluster of this size and the peer, in turns."""
    found = Measurements()
    rng = random.Random(size)
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes, size)
        try:
            (port,) = free_ports(1)
            await processes.start("bare", [sys.executable, "-m", "bench.api.bare", str(port)])
            await nodes.start_all()
            held = await target.furnish(nodes)
            servers = {"node": nodes.api[await nodes.leader()], "bare": f"http://127.0.0.1:{port}"}
            kinds = {"heartbeats": target.heartbeats(held, rng), "lookups": target.lookups(rng)}
            bench = Bench(folder, processes, seconds)
            for number in range(rounds + EXTRA_ROUNDS):
                if number >= rounds and not missed(rows_of(size, found), bars_of(size)):
                    break
                for kind, requests in kinds.items():
                    for server, url in servers.items():
                        one = await bench.measure(url, requests)
                        found.add(kind, server, one)
                        progress(
                            f"{size} node(s)  round {number + 1}  {kind:10} {server:4}"
                            f"  {one.answers_per_s:8,.0f}/s  p50 {one.latency_p50_ms:.2f} ms"
                            f"  p99 {one.latency_p99_ms:.2f} ms"
                        )
        finally:
            await nodes.close()
    return found


def rows_of(size: int, found: Measurements) -> list[Row]:
    """The figures of one size beside the peer's."""
    label = "1_node" if size == 1 else f"{size}_nodes"
    names = {"heartbeats": "heartbeats", "lookups": "owner_lookups"}
    rows: list[Row] = []
    for kind, name in names.items():
        ours, peer = found.best[kind, "node"], found.best[kind, "bare"]
        rows += [
            higher_is_better(
                f"{name}_per_s_{label}", ours.answers_per_s, "1/s", PEER, peer.answers_per_s
            ),
            lower_is_better(
                f"{name}_p50_{label}", ours.latency_p50_ms, "ms", PEER, peer.latency_p50_ms
            ),
        ]
    return rows


def bars_of(size: int) -> list[Bar]:
    """The bars that a cluster of this size is held to."""
    return list(BARS) if size == 1 else []


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.api", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--seconds", type=float, default=2.0, help="each measurement (default 2)")
    parser.add_argument("--rounds", type=int, default=2, help="of each (default 2)")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-bench-") as folder:
        found = asyncio.run(run(Path(folder), max(0.5, args.seconds), max(1, args.rounds)))
    rows = [row for size, of_size in found.items() for row in rows_of(size, of_size)]
    faults = missed(rows, BARS)
    summary: dict[str, object] = {
        "ok": not faults,
        "loads_per_heartbeat": target.LOADS,
        "connections": target.EXECUTORS,
        "driver": "raw asyncio sockets under uvloop, one process",
        "cpus": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "missed": faults,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=args.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
