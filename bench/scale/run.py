"""One cluster of three nodes and its phases, from an empty namespace to the loss of a tenth.

Decides what is done in which order and what counts as done. Must not know which figures are good.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.cluster import Nodes
from bench.processes import Processes
from bench.rows import Row, progress
from bench.scale.executors import Executors
from bench.scale.notes import Notebook, lag_of

NAMESPACE: Final = "scale"
NEW: Final = {
    "lease_ttl_s": 1.0,  # for so long nobody is placed in a new namespace
    "heartbeat_interval_s": 0.3,
    "initial_hold_s": 1.0,
    # A short horizon, or a leader that is new would listen for minutes before its first pass.
    "balancer": {"mode": "off", "smoothing_horizon_s": 10.0},
}
LEASE_S: Final = 15.0
INTERVAL_S: Final = 5.0
LASTING: Final = {"lease_ttl_s": LEASE_S, "heartbeat_interval_s": INTERVAL_S}
"""Three heartbeats in a lease, as with the default; so many loads as often as needs be."""
STRETCH: Final = 1.01
"""What a leader adds to a lease for clocks that run wrong."""
DECLARED: Final = 2_000
"""Keys of one request, and so of one command."""
POLL_S: Final = 0.1
ASK_S: Final = 120.0
PHASE_S: Final = 900.0
"""The longest of any phase, also on a machine that has more to do."""
BEATS_S: Final = 20.0
PASSES_S: Final = 20.0
LOSSES: Final = 3
"""Of one executor, of which the middle one counts: right after a member came back one took twice
as long as any other."""
LOST_RATIO: Final = 0.1
BEHIND: Final = 200
"""Entries that a node may be behind when it counts as caught up: others go on writing."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is measured."""

    shards: int
    executors: int
    kind: str

    @property
    def label(self) -> str:
        """Part of the names of rows."""
        return f"{self.kind}_{self.shards}_on_{self.executors}"


@dataclass(slots=True)
class Run:
    """One size on one cluster."""

    size: Size
    folder: Path
    processes: Processes
    entries: int
    rows: list[Row] = field(default_factory=list)
    nodes: Nodes = field(init=False)
    executors: Executors = field(init=False)
    books: dict[str, Notebook] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = Nodes(self.folder, self.processes)
        self.executors = Executors(self.nodes, NAMESPACE, self.size.executors, INTERVAL_S)
        self.books = {}

    def row(self, name: str, value: float, unit: str) -> None:
        """Note a figure."""
        self.rows.append(Row(f"{name}_{self.size.label}", value, unit))

    async def go(self) -> None:
        """Every phase."""
        for name in self.nodes.names:
            await self._start(name)
        await self.nodes.ready(self.nodes.names, PHASE_S)
        await self._fill()
        try:
            await self._place()
            await self._beats()
            await self._plan()
            await self._snapshot()
            await self._catch_up()
            for number in range(LOSSES):
                await self._lose(1, f"loss_of_one_{number + 1}")
            self._middle_loss()
            await self._lose(int(self.size.executors * LOST_RATIO), "loss_of_a_tenth")
        finally:
            await self.executors.end()
            await self.nodes.close()
        for kind, value in self._memory().items():
            self.row(f"memory_{kind}", value, "MB")

    async def _start(self, name: str, life: int = 1) -> None:
        notes = self.folder / f"{name}-{life}.notes"
        self.books[name] = Notebook(notes)
        self.nodes.program = ("-m", "bench.scale.node", str(notes), str(self.entries))
        await self.nodes.start(name)

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[None]:
        """Note how long it took, and what the loops did meanwhile."""
        began = time.monotonic()
        progress(f"{self.size.label}: {name}")
        yield
        until = time.monotonic()
        self.row(f"{name}_took", until - began, "s")
        await asyncio.sleep(1.0)  # until the last half second is written down
        notes = [book.between(began, until + 1.0) for book in self.books.values()]
        lags = [lag_of(some) for some in notes]
        for kind in ("p99", "max", "wall_p99", "wall_max"):
            self.row(f"{name}_lag_{kind}", max(getattr(lag, kind) for lag in lags), "ms")
        worst = max(lag.max for lag in lags)
        held = max(note.memory_mb for some in notes for note in some)
        self.row(f"{name}_memory", held, "MB")
        progress(
            f"   {until - began:.1f} s, longest turn {worst:.1f} ms of the processor, {held:.0f} MB"
        )

    # -- phases --------------------------------------------------------------------------

    async def _fill(self) -> None:
        size = self.size
        body: dict[str, Any] = {"kind": size.kind, "policy": {**NEW, "max_shards": 1_000_000}}
        if size.kind == "fixed":
            body["shard_count"] = size.shards
        async with self.phase("declare"):
            await self._ask("PUT", "", body)
            if size.kind == "open":
                for first in range(0, size.shards, DECLARED):
                    some = range(first, min(size.shards, first + DECLARED))
                    await self._ask("POST", "/shards", {"keys": [f"tenant-{n:07}" for n in some]})
            await self._until(lambda: self._leading_shards() == size.shards)
        await self._ask("PATCH", "", {"policy": LASTING})

    async def _place(self) -> None:
        async with self.phase("place"):
            began = time.monotonic()
            await self.executors.join()
            self.executors.begin()
            await self._until(lambda: self._is_settled(self.size.executors))
        placed_at = self._settled_at(began)
        self.row("place_all", placed_at - began, "s")
        await self.executors.read_sets()

    async def _beats(self) -> None:
        await asyncio.sleep(INTERVAL_S)  # everybody has told all its loads once
        async with self.phase("beats"):
            before, said = self._cpu_s(), self._said()
            await asyncio.sleep(BEATS_S)
            after, beats = self._cpu_s(), self._said() - said
        leader = await self.nodes.leader()
        used = {name: after[name] - before[name] for name in after}
        self.row("beat_leader_cpu", 1e3 * used[leader] / max(1, beats), "ms/beat")
        self.row("beats_leader_share", used.pop(leader) / BEATS_S, "of a core")
        self.row("beats_follower_share", max(used.values()) / BEATS_S, "of a core")

    async def _plan(self) -> None:
        """Passes that plan and move nothing: what each then moves depends on nobody's limits."""
        balancer = {"mode": "dry_run", "interval_s": INTERVAL_S}
        async with self.phase("plan"):
            await self._ask("PATCH", "", {"policy": {"balancer": balancer}})
            await asyncio.sleep(PASSES_S)
            await self._ask("PATCH", "", {"policy": {"balancer": {"mode": "off"}}})
        passes, seconds = await self._passes()
        if not passes:
            raise RuntimeError("no pass was made while passes were to be measured")
        self.row("passes", passes, "passes")
        self.row("pass_from_first_to_last_slice", seconds / max(1.0, passes), "s")

    async def _snapshot(self) -> None:
        """Small writes until every node has made one more snapshot of it all."""
        before = {name: book.last.snapshot if book.last else 0 for name, book in self.books.items()}
        async with self.phase("snapshot"):
            writing = asyncio.create_task(self._write())
            await self._until(lambda: self._is_snapshot_made(before))
            writing.cancel()

    def _is_snapshot_made(self, before: dict[str, int]) -> bool:
        return all(
            book.last is not None and book.last.snapshot > before[name]
            for name, book in self.books.items()
        )

    async def _write(self) -> None:
        number = 0
        while True:
            some = [self._cordon((number + n) % self.size.executors) for n in range(8)]
            await asyncio.gather(*some, return_exceptions=True)
            number += 8

    async def _cordon(self, number: int) -> None:
        for order in ("cordon", "uncordon"):
            path = f"/executors/executor-{number:04}/{order}"
            await self._ask("POST", path, {"reason": "bench"})

    async def _catch_up(self) -> None:
        """A member comes back with an empty memory, once no snapshot is under way.

        One that is made meanwhile is sent as well, and until it is read there are two states.
        """
        await self._until(self._is_log_short)
        leader = await self.nodes.leader()
        name = next(one for one in self.nodes.names if one != leader)
        await self.nodes.kill(name)
        async with self.phase("catch_up"):
            await self._start(name, life=2)
            await self._until(lambda: self._has_caught_up(name, leader))

    def _is_log_short(self) -> bool:
        """Whether no node has so many entries behind its snapshot that it makes another one."""
        lasts = [book.last for book in self.books.values()]
        return all(one is not None and one.applied - one.snapshot < self.entries for one in lasts)

    def _has_caught_up(self, name: str, leader: str) -> bool:
        fresh, there = self.books[name].last, self.books[leader].last
        if fresh is None or there is None:
            return False
        return fresh.shards == there.shards and fresh.applied >= there.applied - BEHIND

    async def _lose(self, count: int, name: str) -> None:
        living = [one for one in self.executors.members if not one.is_silent]
        lost = living[:count]
        async with self.phase(name):
            began = time.monotonic()
            for one in lost:
                one.is_silent = True
            await self._until(lambda: self._is_settled(len(living) - count))
        over_at = max(one.acknowledged_at for one in lost) + LEASE_S * STRETCH
        self.row(f"{name}_rehomed_after_expiry", self._settled_at(began) - over_at, "s")

    def _middle_loss(self) -> None:
        name = "rehomed_after_expiry"
        took = [
            row.value
            for row in self.rows
            if row.name.startswith("loss_of_one_") and name in row.name
        ]
        self.row(f"loss_of_one_{name}", statistics.median(took), "s")

    # -- looking -------------------------------------------------------------------------

    async def _ask(self, method: str, path: str, body: object) -> None:
        leader = self.nodes.api[await self.nodes.leader(PHASE_S)]
        url = f"{leader}/v1/namespaces/{NAMESPACE}{path}"
        status, said = await self.nodes.ask(method, url, body=body, timeout_s=ASK_S)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {said[:300]!r}")

    async def _until(self, holds: Any) -> None:
        async with asyncio.timeout(PHASE_S):
            while not holds():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(POLL_S)

    def _leading(self) -> Notebook | None:
        """The book of the node that leads now."""
        leading = [
            (book.last.at, name)
            for name, book in self.books.items()
            if book.last is not None and book.last.is_leading and name in self.nodes.living
        ]
        return self.books[max(leading)[1]] if leading else None

    def _leading_shards(self) -> int:
        book = self._leading()
        return 0 if book is None or book.last is None else book.last.shards

    def _is_settled(self, executors: int) -> bool:
        """Whether so many executors hold everything."""
        book = self._leading()
        if book is None:
            return False
        changes = book.changes(0.0)
        return bool(changes) and (changes[-1].executors, changes[-1].vacant) == (executors, 0)

    def _settled_at(self, since: float) -> float:
        """When the last of these changes came."""
        book = self._leading()
        return max((one.at for one in book.changes(since)), default=since) if book else since

    def _cpu_s(self) -> dict[str, float]:
        return {name: book.last.cpu_s for name, book in self.books.items() if book.last}

    def _said(self) -> int:
        return sum(one.sequence for one in self.executors.members)

    def _memory(self) -> dict[str, float]:
        """The most that any node held, and what the leader held last."""
        held = [note.memory_mb for book in self.books.values() for note in book.read()]
        leader = self._leading()
        last = 0.0 if leader is None or leader.last is None else leader.last.memory_mb
        return {"max": max(held), "leader": last}

    async def _passes(self) -> tuple[float, float]:
        """How many there were since this leader began, and how long they took in all."""
        leader = self.nodes.api[await self.nodes.leader()]
        _, text = await self.nodes.ask("GET", f"{leader}/metrics", timeout_s=ASK_S)
        found = {"count": 0.0, "sum": 0.0}
        for line in text.decode().splitlines():
            for kind in found:
                if line.startswith(f"shard_coordinator_plan_seconds_{kind}{{"):
                    found[kind] = float(line.rsplit(" ", 1)[1])
        return found["count"], found["sum"]
