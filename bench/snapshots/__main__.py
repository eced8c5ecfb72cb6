"""Loop stalls of three processes on loopback while a large state is written, sent and read.

`python -m bench.snapshots [--shards N] [--json]`. Exit status 0 only when the promises hold: no
stall above 50 ms, all the writes of 1,000 a second done, a fresh node caught up meanwhile, the same
bytes on every node, no election, bounded memory.
"""

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.processes import Processes, free_ports
from bench.rows import Row, progress, publish

STALL_MAX_MS: Final = 50.0
RSS_MAX_MB: Final = 600.0
RATE: Final = 1_000.0
RATE_MIN: Final = 0.95
"""Share of the rate that must be reached: the writer is on time but for the last turn."""
COMPACTION_ENTRIES: Final = 25_000
"""Half of the product's: a run of a minute has some, and what a slow receiver needs is kept."""
WRITING_S: Final = 3.0
"""What writes alone cost, before the first compaction of them."""
CATCH_UP_S: Final = 240.0
FILL_S: Final = 900.0
PHASE_S: Final = 300.0
POLL_S: Final = 0.05


class Member:
    """A member process: orders out, answers in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count()
        self._reading: asyncio.Task[None] | None = None

    async def start(self, processes: Processes, peers: dict[str, str], entries: int) -> None:
        self._process = await processes.start(
            self.name,
            [
                sys.executable,
                "-m",
                "bench.snapshots.member",
                self.name,
                json.dumps(peers),
                str(entries),
            ],
            has_output=True,
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            answer = json.loads(line)
            future = self._waiting.pop(answer.pop("id"))
            if future.done():
                continue
            if "error" in answer:
                future.set_exception(RuntimeError(f"{self.name}: {answer['error']}"))
            else:
                future.set_result(answer)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(RuntimeError(f"{self.name} ended"))

    async def ask(self, do: str, timeout_s: float = 30.0, **details: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._ids)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        order = json.dumps({"id": number, "do": do, **details})
        self._process.stdin.write(order.encode() + b"\n")
        async with asyncio.timeout(timeout_s):
            return await future

    async def forget(self) -> None:
        """Its process was ended."""
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)


class Run:
    """One cluster from its start to the verdict."""

    def __init__(self, shards: int, processes: Processes, entries: int) -> None:
        self.shards = shards
        self._processes = processes
        self._entries = entries
        names = ("n1", "n2", "n3")
        self._peers = {
            name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(3), strict=True)
        }
        self.members = {name: Member(name) for name in names}
        self.rows: list[Row] = []
        self.broken: list[str] = []

    async def statuses(self) -> dict[str, dict[str, Any]]:
        asked = [member.ask("status") for member in self.members.values()]
        return dict(zip(self.members, await asyncio.gather(*asked), strict=True))

    async def leader(self) -> Member:
        end = time.monotonic() + 30.0
        while time.monotonic() < end:
            seen = await self.statuses()
            if sorted(one["role"] for one in seen.values()) == ["follower", "follower", "leader"]:
                name = next(name for name, one in seen.items() if one["role"] == "leader")
                return self.members[name]
            await asyncio.sleep(POLL_S)
        raise TimeoutError("no leader")

    def row(self, name: str, value: float, unit: str) -> None:
        self.rows.append(Row(name, value, unit))

    def must(self, what: str, *, holds: bool) -> None:
        if not holds:
            self.broken.append(what)

    async def lag(self, phase: str) -> None:
        """Note what the loops did since the last time, and judge it."""
        asked = [member.ask("lag") for member in self.members.values()]
        found = await asyncio.gather(*asked)
        worst = {key: max(one[key] for one in found) for key in found[0]}
        for key in ("stall_max_ms", "stall_p99_ms", "wall_max_ms", "wall_p99_ms"):
            self.row(f"{phase}_{key.removesuffix('_ms')}", worst[key], "ms")
        progress(
            f"{phase:10} stall max {worst['stall_max_ms']:6.1f} ms"
            f"  p99 {worst['stall_p99_ms']:5.1f}"
            f"   wall max {worst['wall_max_ms']:6.1f}  p99 {worst['wall_p99_ms']:5.1f}"
        )
        self.must(
            f"{phase}: the loop stood still for {worst['stall_max_ms']:.1f} ms",
            holds=worst["stall_max_ms"] <= STALL_MAX_MS,
        )

    async def go(self) -> None:
        for member in self.members.values():
            await member.start(self._processes, self._peers, self._entries)
        leader = await self.leader()
        began = time.monotonic()
        await leader.ask("fill", FILL_S, shards=self.shards)
        progress(f"filled with {self.shards:,} shards in {time.monotonic() - began:.1f} s")
        leader = await self.leader()
        await self._lull()
        for member in self.members.values():
            await member.ask("lag")
        term = (await leader.ask("status"))["term"]
        await asyncio.sleep(2.0)
        await self.lag("idle")
        writing = asyncio.create_task(leader.ask("write", PHASE_S, rate=RATE, shards=self.shards))
        await asyncio.sleep(WRITING_S)
        await self.lag("writing")
        await self._compactions()
        await self.lag("compaction")
        await self._catch_up(leader)
        await self.lag("catch_up")
        await leader.ask("rest")
        written = await writing
        rate = written["writes"] / written["seconds"]
        self.row("writes_per_s", rate, "writes/s")
        self.must(f"{rate:.0f} writes a second", holds=rate >= RATE * RATE_MIN)
        self.must(f"{written['failed']} writes failed", holds=written["failed"] == 0)
        await self._agree(term)

    async def _lull(self) -> None:
        """Until nobody makes a snapshot of the filling any more."""
        before: list[int] = []
        while True:
            seen = [one["snapshot"] for one in (await self.statuses()).values()]
            if seen == before:
                return
            before = seen
            await asyncio.sleep(3.0)

    async def _compactions(self) -> None:
        """Until every node has made a snapshot and cut its log."""
        before = {name: one["snapshot"] for name, one in (await self.statuses()).items()}
        end = time.monotonic() + PHASE_S
        while time.monotonic() < end:
            seen = await self.statuses()
            if all(one["snapshot"] > before[name] for name, one in seen.items()):
                self.row("snapshot_bytes", seen["n1"]["snapshot_bytes"], "bytes")
                return
            await asyncio.sleep(POLL_S)
        raise TimeoutError("no compaction")

    async def _catch_up(self, leader: Member) -> None:
        """A member loses its memory and comes back, while writes go on."""
        name = next(name for name in self.members if name != leader.name)
        await self._processes.kill(name)
        await self.members[name].forget()
        fresh = self.members[name] = Member(name)
        await fresh.start(self._processes, self._peers, self._entries)
        began = time.monotonic()
        while time.monotonic() - began < CATCH_UP_S:
            goal = (await leader.ask("status"))["commit"]
            seen = await fresh.ask("status")
            if seen["role"] == "follower" and seen["applied"] >= goal - RATE:
                took = time.monotonic() - began
                self.row("catch_up", took, "s")
                progress(f"{name} caught up in {took:.1f} s")
                return
            await asyncio.sleep(POLL_S)
        raise TimeoutError(f"{name} did not catch up within {CATCH_UP_S:g} s")

    async def _agree(self, term: int) -> None:
        """Everybody holds the same bytes, in the term in which it began."""
        end = time.monotonic() + 30.0
        while time.monotonic() < end:
            seen = await self.statuses()
            if len({one["applied"] for one in seen.values()}) == 1:
                break
            await asyncio.sleep(POLL_S)
        self.must("there was an election", holds={o["term"] for o in seen.values()} == {term})
        rss = max(one["rss_max_mb"] for one in seen.values())
        self.row("rss_max", rss, "MB")
        self.must(f"{rss:.0f} MB of memory", holds=rss < RSS_MAX_MB)
        asked = [member.ask("digest", 60.0) for member in self.members.values()]
        found = await asyncio.gather(*asked)
        self.must("the nodes differ", holds=len({one["digest"] for one in found}) == 1)


async def measure(shards: int, entries: int, folder: Path) -> Run:
    async with Processes(folder) as processes:
        run = Run(shards, processes, entries)
        try:
            await run.go()
        except (TimeoutError, RuntimeError) as failure:
            run.broken.append(f"{type(failure).__name__}: {failure}")
        return run


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.snapshots", description=__doc__)
    parser.add_argument("--shards", type=int, default=1_000_000)
    parser.add_argument("--entries", type=int, default=COMPACTION_ENTRIES, help="per compaction")
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-bench-") as folder:
        run = asyncio.run(measure(asked.shards, asked.entries, Path(folder)))
        for path in sorted(Path(folder).glob("*.log")) if run.broken else ():
            progress(f"{path.stem}: {path.read_text(errors='replace')[-2000:]}")
    publish(
        run.rows,
        {"ok": not run.broken, "shards": asked.shards, "broken": run.broken},
        as_json=asked.json,
    )
    return 0 if not run.broken else 1


if __name__ == "__main__":
    sys.exit(main())
