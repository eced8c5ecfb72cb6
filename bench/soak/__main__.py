"""Churn of executors, shards, drains and leaders on three real nodes: does anything pile up?

`python -m bench.soak [--minutes N] [--seed S] [--json] [--keep DIR]`. Eight executors of the client
kit as processes run real shards while things happen to them and to the nodes (`churn.py`). First
hundreds of orders are given to nodes whose rings (events, changes, remembered keys) are short ones
(`bench.soak.node`), so that what grows from then on grows without a bound. Memory, what Python has
given out of it, and descriptors of the two nodes that are never killed must then be flat over the
last two thirds: a line through each minute's mean must not rise by more than its noise
(`flatness.py`), which is the 95 % confidence interval of its slope. No shard may ever have had two
owners, epochs must rise, no term may have had two leaders, and in the calm at the end every shard
must run and all nodes must hold the same bytes. Exit status 0 only then.
"""

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.cluster import Nodes
from bench.demo.fleet import Fleet, NotStarted
from bench.demo.ledger import epoch_faults, moves, overlaps
from bench.demo.workload import Workload, read_series
from bench.failover.elections import leaders_by_term, rivals
from bench.processes import Processes
from bench.rows import Row, progress, publish
from bench.scale.notes import Notebook
from bench.soak.churn import KILLED, Churn
from bench.soak.flatness import trend
from client import ShardCoordinatorError
from client.clock import lease_now_s

EXECUTORS: Final = 8
SHARDS: Final = 120
POLICY: Final = {
    "lease_ttl_s": 4.0,
    "heartbeat_interval_s": 0.8,
    "initial_hold_s": 0.5,
    "balancer": {"interval_s": 1.0, "smoothing_horizon_s": 24.0, "cooldown_s": 3.0},
}
ENTRIES: Final = 200
"""Per snapshot, one in two minutes: the log grows until it is cut, by a kilobyte an entry, and that
is no leak. Half an hour without a cut looked like 8 MB an hour."""
ORDERS: Final = 400
"""Given before anything is measured, more than any ring holds: each is a cordon and its end."""
AT_ONCE: Final = 8
SETTLED: Final = 1 / 3
"""Of the run: before that allocators and connections find their measure."""
FLAT: Final = (
    ("memory_mb", "MB", 2.0, 10.0),
    ("blocks", "blocks", 20_000.0, 100_000.0),
    ("descriptors", "descriptors", 4.0, 60.0),
)
"""What must not rise, by how much an hour is of no consequence, and by how much is a leak. A node's
memory moves by 2 MB in a minute by itself; a leak of 10 MB an hour would be 7 GB in a month. Blocks
are what Python has given out, 100 bytes each in the mean."""
CALM_S: Final = 120.0
JOIN_S: Final = 60.0


@dataclass(slots=True)
class Findings:
    """What came of it."""

    rows: list[Row] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


class NotedNodes(Nodes):
    """Nodes that write down what they hold (`bench.soak.node`), each life in a file of its own."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        super().__init__(folder, processes)
        self.books: dict[str, list[Notebook]] = {name: [] for name in self.names}
        self._notes_in = folder

    async def start(self, name: str, *options: str) -> None:
        """Start one node."""
        path = self._notes_in / f"{name}-{len(self.books[name])}.notes-of-node"
        self.books[name].append(Notebook(path))
        self.program = ("-m", "bench.soak.node", str(path), str(ENTRIES))
        await super().start(name, *options)


class Soak:
    """One run."""

    def __init__(self, folder: Path, processes: Processes, rng: random.Random) -> None:
        series = read_series()
        keys = sorted(series)
        self._folder = folder
        self._nodes = NotedNodes(folder, processes)
        self._fleet = Fleet(
            folder,
            processes,
            namespace="soak",
            executors={f"executor-{n}": f"host-{n}" for n in range(EXECUTORS)},
            keys=keys[:SHARDS],
            workload=Workload(series, lease_now_s()),
            nodes=self._nodes,
        )
        self._churn = Churn(self._fleet, keys, rng)

    async def go(self, minutes: float) -> Findings:
        """Fill, churn, calm down, judge."""
        fleet = self._fleet
        try:
            await fleet.start_nodes(POLICY)
            await fleet.start_executors(JOIN_S)
            await fleet.place(JOIN_S)
            await self._fill()
            began = time.monotonic()
            churning = asyncio.create_task(self._churn.go())
            for minute in range(int(minutes)):
                await asyncio.wait([churning], timeout=60.0)
                if churning.done():
                    break
                progress(f"{minute + 1} of {minutes:g} minutes: {dict(self._churn.counts)}")
            await asyncio.wait([churning], timeout=60.0 * (minutes % 1.0))
            churning.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await churning
            until = time.monotonic()
            found = Findings(counts=dict(self._churn.counts), refused=dict(self._churn.refused))
            await self._calm(found)
        finally:
            await fleet.close()
        self._judge(found, began, until)
        return found

    async def _fill(self) -> None:
        """Orders until all that is bounded is full."""
        progress(f"{ORDERS} orders, so that rings are full")
        operator, namespace = self._fleet.operator, self._fleet.namespace
        names = sorted(self._fleet.executors)

        async def order(name: str) -> None:
            for _ in range(ORDERS // AT_ONCE):
                await operator.cordon_executor(namespace, name, reason="fill")
                await operator.uncordon_executor(namespace, name, reason="fill")

        await asyncio.gather(*[order(names[n % len(names)]) for n in range(AT_ONCE)])

    async def _calm(self, found: Findings) -> None:
        """Bring back what is away, and wait until every shard runs and the nodes agree."""
        fleet = self._fleet
        for name in self._nodes.names:
            if name not in fleet.processes.running:
                await self._nodes.start(name)
        await self._nodes.ready(self._nodes.names, CALM_S)
        for name in fleet.executors:
            if name not in fleet.processes.running:
                await fleet.start_executor(name)
            with contextlib.suppress(ShardCoordinatorError):
                await fleet.operator.undrain_executor(fleet.namespace, name, reason="calm")
        for key in list(fleet.keys):
            await self._undone(key)
        if not await fleet.until(self._all_run, CALM_S):
            missing = [key for key in fleet.keys if not fleet.owner_of(key)]
            found.broken.append(f"without an owner in the calm: {missing[:5]}")
        digests = await self._digests()
        if len(digests) != 1:
            found.broken.append(f"the nodes hold different bytes: {digests}")

    async def _undone(self, key: str) -> None:
        """What a cut-off order may have left: a shard parked, or pinned, or not born."""
        operator, namespace = self._fleet.operator, self._fleet.namespace
        await operator.declare_shards(namespace, [key])
        for undo in (operator.undrain_shard, operator.unpin_shard):
            with contextlib.suppress(ShardCoordinatorError):
                await undo(namespace, key, reason="calm")

    def _all_run(self) -> bool:
        return all(self._fleet.owner_of(key) for key in self._fleet.keys)

    async def _digests(self) -> set[str]:
        """Of the same entry on every node; several when they differ, or never came to one."""
        deadline = time.monotonic() + CALM_S
        while time.monotonic() < deadline:
            names = self._nodes.names
            sights = await asyncio.gather(*[self._nodes.sight(n, "?digest=true") for n in names])
            seen = [one for one in sights if one is not None and one.digest is not None]
            if len(seen) == len(names) and len({one.applied_index for one in seen}) == 1:
                return {one.digest or "" for one in seen}
            await asyncio.sleep(0.2)
        return {"never at the same entry", ""}

    # -- judging -------------------------------------------------------------------------

    def _judge(self, found: Findings, began: float, until: float) -> None:
        tenures = self._fleet.tenures()
        found.broken += [f"two owners: {one}" for one in overlaps(tenures)]
        found.broken += [f"epochs: {pair}" for pair in epoch_faults(tenures)]
        found.broken += rivals(self._folder, self._nodes.names)
        since = began + (until - began) * SETTLED
        for name in self._nodes.names:
            if name != KILLED:
                self._judge_node(found, name, since, until)
        found.rows += [
            Row("minutes", (until - began) / 60.0, "min"),
            Row("starts_of_shards", len(tenures), "starts"),
            Row("moves", moves(tenures, 0.0, float("inf")), "moves"),
            Row("leaders", len(leaders_by_term(self._folder, self._nodes.names)), "terms"),
        ]

    def _judge_node(self, found: Findings, name: str, since: float, until: float) -> None:
        (book,) = self._nodes.books[name]  # it was started once
        notes = book.between(since, until)
        for what, unit, negligible, leak in FLAT:
            line = trend([(note.at, float(getattr(note, what))) for note in notes])
            found.rows += [
                Row(f"{name}_{what}", line.mean, unit),
                Row(f"{name}_{what}_slope", line.per_hour, f"{unit}/h"),
                Row(f"{name}_{what}_slope_error", line.error_per_hour, f"{unit}/h"),
            ]
            if not line.is_flat(negligible, leak):
                span = f"{line.per_hour:.2f} +- {line.error_per_hour:.2f}"
                found.broken.append(f"{name}: {what} grows by {span} an hour")


async def soaked(folder: Path, minutes: float, seed: int) -> Findings:
    """The whole run."""
    async with Processes(folder) as processes:
        soak = Soak(folder, processes, random.Random(seed))
        try:
            return await soak.go(minutes)
        except (NotStarted, TimeoutError, RuntimeError) as failure:
            return Findings(broken=[f"{type(failure).__name__}: {failure}"])


@contextlib.contextmanager
def _folder(kept: str | None) -> Iterator[Path]:
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-soak-") as folder:
        yield Path(folder)


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", help="notes and logs are left there")
    told = parser.parse_args()
    with _folder(told.keep) as folder:
        found = asyncio.run(soaked(folder, told.minutes, told.seed))
    summary: dict[str, Any] = {
        "ok": not found.broken,
        "missed": found.broken,
        "load_average": round(os.getloadavg()[0], 1),
        "done": found.counts,
        "refused": found.refused,
        "seed": told.seed,
    }
    publish(found.rows, summary, as_json=told.json)
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
