"""Heartbeats and owner look-ups through HTTP, beside a bare aiohttp handler.

`python -m bench.api [--json] [--seconds N] [--rounds N]`. One node alone, then the leader of three,
directly and by way of a follower; drivers (raw asyncio sockets, kept connections) and the peer are
processes of their own, and all take turns in one run. What is compared is answers per second of the
server's processor time, round by round, and the median of the rounds counts: other programs on
the machine change that least. Exit status 0 only when one node alone reaches its share of the peer.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench.api import kinds, target
from bench.api.driven import driven
from bench.api.driver import FIRST_SEQUENCE, Drive, Driven
from bench.api.kinds import Kind
from bench.cluster import Nodes
from bench.cpu import cpu_s
from bench.processes import Processes, free_ports
from bench.rows import Bar, Row, machine, missed, progress, publish

PEER: Final = "bare aiohttp handler"
DIRECT: Final = "the leader asked directly"
SHARE: Final = 0.6
"""Of what the bare handler does; the rest is for leases, quorum, routing and bounds."""
BARS: Final = tuple(Bar(f"{name}_1_node", SHARE) for name in kinds.JUDGED)
"""Of one node alone. What three do is shown: they share their cores with the driver."""
SIZES: Final = (1, 3)


@dataclass(frozen=True, slots=True)
class Round:
    """One driver at one server."""

    driven: Driven
    per_core_s: float
    """Answers a second of the processor time of the server and of those it hands requests to."""


@dataclass(slots=True)
class Measurements:
    """All rounds of each kind of request at each server."""

    rounds: dict[tuple[str, str], list[Round]] = field(default_factory=dict)

    def add(self, kind: str, server: str, one: Round) -> None:
        """Take a round in."""
        self.rounds.setdefault((kind, server), []).append(one)

    def ratio(self, kind: str, server: str, peer: str) -> float:
        """The median of the rounds' ratios: what disturbs a round disturbs both sides of it."""
        pairs = zip(self.rounds[kind, server], self.rounds[kind, peer], strict=True)
        return median(ours.per_core_s / theirs.per_core_s for ours, theirs in pairs)

    def per_core_s(self, kind: str, server: str) -> float:
        """The median of the rounds."""
        return median(one.per_core_s for one in self.rounds[kind, server])

    def best(self, kind: str, server: str) -> Driven:
        """The round with most answers a second: other programs slow a round, none speeds one."""
        return max((one.driven for one in self.rounds[kind, server]), key=_rate)


def _rate(one: Driven) -> float:
    return one.answers_per_s


class Bench:
    """Drivers take turns at the servers of one size of cluster."""

    def __init__(self, folder: Path, processes: Processes, seconds: float) -> None:
        self._folder = folder
        self._processes = processes
        self._seconds = seconds
        self._sequence = FIRST_SEQUENCE

    async def measure(self, url: str, kind: Kind, names: Sequence[str]) -> Round:
        """One driver at one server; raises when anything was not answered with 200.

        `names` are the processes whose time is counted.
        """
        pids = [self._processes.running[name].pid for name in names]
        task = Drive(url, kind.connections, self._seconds, first_sequence=self._sequence)
        before_s = cpu_s(pids)
        found = await driven(self._folder, self._processes, task)
        spent_s = cpu_s(pids) - before_s
        self._sequence = found.last_sequence
        return Round(found, found.answers / spent_s)


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
            fleets = [target.USUAL] if size > 1 else [target.USUAL, target.LARGE]
            held = {fleet: await target.furnish(nodes, fleet) for fleet in fleets}
            asked = (kinds.of_three_nodes if size > 1 else kinds.of_one_node)(held, rng)
            bench = Bench(folder, processes, seconds)
            for number in range(rounds):
                for kind in asked:
                    for server, (url, names) in (await _servers(nodes, port, kind)).items():
                        one = await bench.measure(url, kind, names)
                        found.add(kind.name, server, one)
                        _tell(f"{size} node(s)  round {number + 1}  {kind.name:30} {server:8}", one)
        finally:
            await nodes.close()
    return found


async def _servers(nodes: Nodes, bare_port: int, kind: Kind) -> dict[str, tuple[str, list[str]]]:
    """The two that take turns: their addresses, and the processes that work for an answer."""
    leader = await nodes.leader()
    at_leader = (nodes.api[leader], [leader])
    if not kind.is_forwarded:
        return {"node": at_leader, "peer": (f"http://127.0.0.1:{bare_port}", ["bare"])}
    follower = next(name for name in nodes.names if name != leader)
    return {"node": (nodes.api[follower], [follower, leader]), "peer": at_leader}


def _tell(label: str, one: Round) -> None:
    of = one.driven
    progress(
        f"{label} {one.per_core_s:8,.0f} per core second  {of.answers_per_s:8,.0f}/s"
        f"  p50 {of.latency_p50_ms:.2f} ms  p99 {of.latency_p99_ms:.2f} ms"
    )


def rows_of(size: int, found: Measurements) -> list[Row]:
    """The figures of one size beside the peer's."""
    label = "1_node" if size == 1 else f"{size}_nodes"
    rows: list[Row] = []
    for kind in dict.fromkeys(kind for kind, _ in found.rounds):
        peer = DIRECT if kind.endswith("_forwarded") else PEER
        ours, best = found.per_core_s(kind, "node"), found.best(kind, "node")
        name = f"{kind}_{label}"
        ratio = found.ratio(kind, "node", "peer")
        rows += [
            Row(name, ours, "per core s", peer, found.per_core_s(kind, "peer"), ratio),
            Row(f"{name}_wall", best.answers_per_s, "1/s"),
            Row(f"{name}_p50", best.latency_p50_ms, "ms"),
            Row(f"{name}_p99", best.latency_p99_ms, "ms"),
            Row(f"{name}_p999", best.latency_p999_ms, "ms"),
        ]
    return rows


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.api", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--seconds", type=float, default=1.0, help="each measurement (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (default 3)")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-bench-") as folder:
        found = asyncio.run(run(Path(folder), max(0.5, args.seconds), max(1, args.rounds)))
    rows = [row for size, of_size in found.items() for row in rows_of(size, of_size)]
    faults = missed(rows, BARS)
    summary: dict[str, object] = {
        "ok": not faults,
        "connections": target.USUAL.executors,
        "driver": "raw asyncio sockets under uvloop, one process",
        **machine(),
        "missed": faults,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=args.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
