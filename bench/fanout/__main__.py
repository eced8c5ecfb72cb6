"""Long-polling routers: how soon the last of them knows of a change, and what that sends.

`python -m bench.fanout [--json] [--routers N] [--changes N]`. Three nodes, each with a third of the
routers; a change is a shard that is parked or freed again. Counted is from before the order is sent
until the last router has its answer, so the commit is part of it. The same with a hundred times as
many shards shows what a change sends; then the leader is killed, and a change made after that has
to reach everybody, those who lost their node too.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import msgspec

from bench.cluster import Nodes
from bench.cpu import cpu_s
from bench.fanout.routers import Seen, Told, Watch
from bench.processes import Processes
from bench.rows import Bar, Row, lower_is_better, machine, missed, progress, publish

SHARDS: Final = (1_000, 100_000)
POLICY: Final = {"lease_ttl_s": 1.0, "heartbeat_interval_s": 0.5}
"""For so long a new namespace hears who held its shards before."""
WATCHERS: Final = 2
"""Processes that the routers are spread over, so that they are not what is waited for."""
KNOWN_WITHIN_S: Final = 0.5
ROUTERS: Final = 8_000
EVEN_BYTES: Final = 1.05
ASK_S: Final = 20.0
REACH_S: Final = 60.0
"""Until all have to be told, on however busy a machine."""
LOOK_S: Final = 0.05
PROMISED: Final = "what is promised"


@dataclass(frozen=True, slots=True)
class Change:
    """One change on its way to everybody."""

    last_s: float
    first_s: float
    bytes_per_router: float
    cpu_s: float
    """Processor time of all nodes."""


class Watchers:
    """The processes of the routers."""

    def __init__(self, processes: Processes, names: list[str], routers: int) -> None:
        self._processes = processes
        self._names = names
        self.routers = routers

    @classmethod
    async def start(cls, folder: Path, processes: Processes, watch: Watch) -> "Watchers":
        """Share the routers out, start them, and wait until every poll is open."""
        routers = watch.routers
        names = [f"watch-{watch.path.split('/')[3]}-{number}" for number in range(WATCHERS)]
        for number, name in enumerate(names):
            share = routers // WATCHERS + (number < routers % WATCHERS)
            file = folder / f"{name}.json"
            file.write_bytes(msgspec.json.encode(msgspec.structs.replace(watch, routers=share)))
            argv = [sys.executable, "-m", "bench.fanout.routers", str(file)]
            await processes.start(name, argv, has_output=True)
        watchers = cls(processes, names, routers)
        await watchers.open()
        return watchers

    async def told(self) -> list[Told]:
        """What each process has to say now."""
        return list(await asyncio.gather(*[self._told(name) for name in self._names]))

    async def _told(self, name: str) -> Told:
        process = self._processes.running[name]
        if process.stdin is None or process.stdout is None:
            raise RuntimeError(f"{name} cannot be asked")
        process.stdin.write(b"\n")
        async with asyncio.timeout(REACH_S):
            return msgspec.json.decode(await process.stdout.readline(), type=Told)

    async def open(self) -> None:
        """Wait until every router's poll is open."""
        async with asyncio.timeout(REACH_S):
            while True:
                if sum(one.waiting for one in await self.told()) == self.routers:
                    return
                await asyncio.sleep(LOOK_S)

    async def reached(self, revision: int) -> Seen:
        """Wait until every router was told of this revision or of a later one."""
        async with asyncio.timeout(REACH_S):
            while True:
                seen = [
                    found
                    for told in await self.told()
                    for at, found in told.seen.items()
                    if at >= revision
                ]
                if sum(one.routers for one in seen) >= self.routers:
                    return Seen(
                        routers=sum(one.routers for one in seen),
                        bytes=sum(one.bytes for one in seen),
                        first_at=min(one.first_at for one in seen),
                        last_at=max(one.last_at for one in seen),
                    )
                await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """End them."""
        for name in self._names:
            await self._processes.kill(name)


class Bench:
    """One cluster, its namespaces and their routers."""

    def __init__(self, folder: Path, processes: Processes, nodes: Nodes, routers: int) -> None:
        self._folder = folder
        self._processes = processes
        self._nodes = nodes
        self._routers = routers
        self._keys = itertools.count()

    async def of_shards(self, shards: int, changes: int) -> tuple[Watchers, str, list[Change]]:
        """A namespace of so many shards, its routers, and some changes."""
        namespace = f"fanout-{shards}"
        kind = {"kind": "fixed", "shard_count": shards, "policy": POLICY}
        await self._insist("PUT", namespace, kind)
        table = await self._insist("GET", f"{namespace}/routing")
        path = f"/v1/namespaces/{namespace}/routing"
        watch = Watch(self._nodes.urls, path, table["cursor"], self._routers)
        watchers = await Watchers.start(self._folder, self._processes, watch)
        found = []
        for number in range(changes):
            await watchers.open()
            found.append(await self.change(watchers, namespace))
            progress(
                f"{shards:7,} shards  change {number + 1}  first {found[-1].first_s * 1e3:6.1f} ms"
                f"  last {found[-1].last_s * 1e3:7.1f} ms"
                f"  {found[-1].bytes_per_router:,.0f} bytes each"
            )
        return watchers, namespace, found

    async def change(self, watchers: Watchers, namespace: str) -> Change:
        """Park one shard and see everybody told."""
        pids = [self._processes.running[name].pid for name in self._nodes.living]
        before_s, began = cpu_s(pids), time.monotonic()
        key = next(self._keys)
        await self._insist("POST", f"{namespace}/shards/{key}/drain", {"reason": "bench.fanout"})
        table = await self._insist("GET", f"{namespace}/routing")
        seen = await watchers.reached(int(table["cursor"].rpartition(":")[2]))
        return Change(
            last_s=seen.last_at - began,
            first_s=seen.first_at - began,
            bytes_per_router=seen.bytes / seen.routers,
            cpu_s=cpu_s(pids) - before_s,
        )

    async def herd(self, watchers: Watchers, namespace: str) -> float:
        """Kill the leader; seconds until everybody knows of a change that was made after it."""
        began = time.monotonic()
        await self._nodes.kill(await self._nodes.leader())
        await self.change(watchers, namespace)
        return time.monotonic() - began

    async def _insist(self, method: str, path: str, body: object = None) -> Any:
        """Ask until it is done: a new namespace or a lost leader may take a moment."""
        async with asyncio.timeout(REACH_S):
            while True:
                try:
                    return await self._ask(method, path, body)
                except (RuntimeError, aiohttp.ClientError, OSError, TimeoutError):
                    await asyncio.sleep(LOOK_S)

    async def _ask(self, method: str, path: str, body: object) -> Any:
        url = self._nodes.api[await self._nodes.leader()]
        status, raw = await self._nodes.ask(
            method, f"{url}/v1/namespaces/{path}", body=body, timeout_s=ASK_S
        )
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {raw[:300]!r}")
        return msgspec.json.decode(raw)


async def run(folder: Path, routers: int, changes: int) -> list[Row]:
    """All of it, on one cluster."""
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes)
        try:
            await nodes.start_all()
            bench = Bench(folder, processes, nodes, routers)
            few, _, small = await bench.of_shards(SHARDS[0], changes)
            await few.stop()
            many, namespace, large = await bench.of_shards(SHARDS[1], changes)
            await many.open()
            herd_s = await bench.herd(many, namespace)
            told = await many.told()
        finally:
            await nodes.close()
    progress(f"after the kill: {sum(one.reconnects for one in told):,} connections made anew")
    return rows_of(routers, small, large, herd_s)


def rows_of(routers: int, small: list[Change], large: list[Change], herd_s: float) -> list[Row]:
    """The median change of each size, and the herd."""
    both = small + large
    return [
        lower_is_better(
            "last_router_knows",
            median(one.last_s for one in large),
            "s",
            PROMISED,
            KNOWN_WITHIN_S,
        ),
        Row("last_router_knows_worst", max(one.last_s for one in both), "s"),
        Row("first_router_knows", median(one.first_s for one in both), "s"),
        lower_is_better(
            "bytes_per_change",
            median(one.bytes_per_router for one in large),
            "bytes",
            f"with {SHARDS[0]:,} shards instead of {SHARDS[1]:,}",
            median(one.bytes_per_router for one in small),
        ),
        Row(
            "processor_time_per_router",
            median(one.cpu_s for one in both) / routers * 1e6,
            "us",
        ),
        Row("all_know_after_leader_kill", herd_s, "s"),
    ]


def bars_of(routers: int) -> list[Bar]:
    """What is judged: the time only with as many routers as it is promised for."""
    bars = [Bar("bytes_per_change", 1.0 / EVEN_BYTES)]
    return [Bar("last_router_knows", 1.0), *bars] if routers == ROUTERS else bars


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.fanout", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--routers", type=int, default=ROUTERS, help=f"default {ROUTERS:,}")
    parser.add_argument("--changes", type=int, default=5, help="of each size (default 5)")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-bench-") as folder:
        rows = asyncio.run(run(Path(folder), max(1, args.routers), max(1, args.changes)))
    faults = missed(rows, bars_of(args.routers))
    summary: dict[str, object] = {
        "ok": not faults,
        "nodes": 3,
        "routers": args.routers,
        **machine(),
        "missed": faults,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=args.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
