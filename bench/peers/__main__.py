"""Heartbeats with 100 loads beside etcd and Redis doing the same job the do-it-yourself way.

`python -m bench.peers [--json] [--seconds N] [--rounds N]`. Three nodes of ours, three of Debian's
etcd (a lease kept alive, and the loads put: through its JSON gateway by the driver that asks ours,
and by gRPC) and one Redis (a key that expires and a hash of loads), each with 64 executors that
beat as often as they are answered. What is compared is beats per second of all the servers'
processor time, round by round; the drivers' is not counted. A peer that is not installed is skipped
with the reason. Exit status 0 only when etcd's gateway is reached three times over.

What an answer means: ours, that a majority confirmed the leader after the beat came, with the loads
in the leader's memory (they go through the log once a minute); etcd's, that the loads are synced to
the disks of a majority; Redis's, that they are in the memory of one process.
"""

import argparse
import asyncio
import importlib.util
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final, Literal

import aiohttp
import msgspec

from bench.api import target
from bench.api.driven import driven
from bench.api.driver import FIRST_SEQUENCE, Drive
from bench.cluster import Nodes
from bench.consensus import etcd
from bench.cpu import cpu_s
from bench.peers.driver import TTL_S, Keep, Kept, report
from bench.processes import Processes, free_ports
from bench.rows import Bar, Row, higher_is_better, machine, missed, progress, publish

OURS: Final = "heartbeats_per_core_s"
BARS: Final = (Bar(f"{OURS}_etcd_http", 3.0),)
"""HTTP on both sides, by one driver. Its gRPC is shown and not judged: ours is HTTP only."""
SLACK_S: Final = 30.0
READY_S: Final = 20.0
LOOK_S: Final = 0.05

Measure = Callable[[float], Awaitable[tuple[int, float]]]
"""Beats for so many seconds: how many were answered, and the servers' processor time."""


def lacks() -> dict[str, str]:
    """The peers that cannot be measured here, and why."""
    found = {}
    why = etcd.lack()
    if why is not None:
        found["etcd_http"] = found["etcd_grpc"] = why
    elif importlib.util.find_spec("grpc") is None:
        found["etcd_grpc"] = "grpcio is not installed (extra `bench`)"
    if shutil.which("redis-server") is None:
        found["redis"] = "redis-server is not installed (Debian: redis-server)"
    return found


@asynccontextmanager
async def ours(folder: Path) -> AsyncIterator[Measure]:
    """Three nodes in memory, asked at their leader."""
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes)
        try:
            await nodes.start_all()
            held = await target.furnish(nodes)
            beats = target.heartbeats(target.USUAL, held, random.Random(1))
            leader = nodes.api[await nodes.leader()]
        finally:
            await nodes.close()
        pids = [process.pid for process in processes.running.values()]
        sequence = FIRST_SEQUENCE

        async def measure(seconds: float) -> tuple[int, float]:
            nonlocal sequence
            before_s = cpu_s(pids)
            task = Drive(leader, beats, seconds, warm_up_s=0.0, first_sequence=sequence)
            found = await driven(folder, processes, task)
            sequence = found.last_sequence
            return found.answers, cpu_s(pids) - before_s

        yield measure


@asynccontextmanager
async def of_etcd(folder: Path) -> AsyncIterator[Measure]:
    """Three nodes of etcd, asked at their leader."""
    async with Processes(folder) as processes:
        url = await etcd.start(folder, processes)
        yield _kept(folder, processes, "etcd", url)


@asynccontextmanager
async def of_etcd_by_http(folder: Path) -> AsyncIterator[Measure]:
    """The same through its JSON gateway, by the driver that asks ours: two requests a beat."""
    async with Processes(folder) as processes:
        url = await etcd.start(folder, processes)
        pids = [process.pid for process in processes.running.values()]
        fleet = target.USUAL
        async with aiohttp.ClientSession() as session:
            for number in range(1, fleet.executors + 1):
                lease = {"TTL": str(TTL_S), "ID": str(number)}
                async with session.post(f"{url}/v3/lease/grant", json=lease) as answer:
                    answer.raise_for_status()
        beats = [
            [etcd.keep_alive(number), etcd.put(f"/executors/{number}", report(fleet.loads, number))]
            for number in range(1, fleet.executors + 1)
        ]

        async def measure(seconds: float) -> tuple[int, float]:
            before_s = cpu_s(pids)
            found = await driven(folder, processes, Drive(url, beats, seconds, warm_up_s=0.0))
            return found.answers // 2, cpu_s(pids) - before_s

        yield measure


@asynccontextmanager
async def of_redis(folder: Path) -> AsyncIterator[Measure]:
    """One Redis that keeps nothing on disk."""
    (port,) = free_ports(1)
    async with Processes(folder) as processes:
        program = shutil.which("redis-server") or "redis-server"
        argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        await processes.start("redis", [*argv, "--appendonly", "no", "--dir", str(folder)])
        await _answers(port)
        yield _kept(folder, processes, "redis", f"redis://127.0.0.1:{port}")


async def _answers(port: int) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(LOOK_S)
                continue
            writer.close()
            return


def _kept(
    folder: Path, processes: Processes, system: Literal["etcd", "redis"], url: str
) -> Measure:
    pids = [process.pid for process in processes.running.values()]

    async def measure(seconds: float) -> tuple[int, float]:
        fleet = target.USUAL
        path = folder / "keep.json"
        keep = Keep(system, url, fleet.executors, fleet.loads, seconds)
        path.write_bytes(msgspec.json.encode(keep))
        before_s = cpu_s(pids)
        argv = [sys.executable, "-m", "bench.peers.driver", str(path)]
        process = await processes.start("keeper", argv, has_output=True)
        if process.stdout is None:
            raise RuntimeError("the driver has no output")
        async with asyncio.timeout(seconds + SLACK_S):
            line = await process.stdout.readline()
        await processes.kill("keeper")
        if not line:
            raise RuntimeError(f"the driver broke; see {folder / 'keeper.log'}")
        return msgspec.json.decode(line, type=Kept).beats, cpu_s(pids) - before_s

    return measure


System = Callable[[Path], AbstractAsyncContextManager[Measure]]
SYSTEMS: Final[dict[str, System]] = {
    "ours": ours,
    "etcd_http": of_etcd_by_http,
    "etcd_grpc": of_etcd,
    "redis": of_redis,
}


async def run(folder: Path, seconds: float, rounds: int) -> dict[str, list[float]]:
    """Beats per core second of each system, round by round, in turns."""
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        for name, system in SYSTEMS.items():
            if name in lacks():
                continue
            at = folder / f"{name}-{number}"
            at.mkdir()
            async with system(at) as measure:
                beats, spent_s = await measure(seconds)
            found.setdefault(name, []).append(beats / spent_s)
            progress(
                f"round {number + 1}  {name:9} {beats / seconds:8,.0f} beats/s"
                f"  {beats / spent_s:8,.0f} per core second of all its processes"
            )
    return found


def rows_of(found: dict[str, list[float]], names: dict[str, str]) -> list[Row]:
    """Ours beside each peer: the median of each, and of the rounds' ratios."""
    mine = found["ours"]
    rows = []
    for peer, theirs in found.items():
        if peer == "ours":
            continue
        label, value = f"{OURS}_{peer}", median(mine)
        row = higher_is_better(label, value, "per core s", names[peer], median(theirs))
        ratio = median(a / b for a, b in zip(mine, theirs, strict=True))
        rows.append(Row(row.name, row.value, row.unit, row.peer, row.peer_value, ratio))
    return rows or [Row(OURS, median(mine), "per core s")]


def names() -> dict[str, str]:
    """The peers with their versions and with what an answer of theirs is worth."""
    found = {}
    if etcd.lack() is None:
        told = f"etcd {etcd.version_of(_version(['etcd', '--version']))}, three nodes"
        found["etcd_http"] = f"{told}, synced to disk, v3 JSON gateway"
        found["etcd_grpc"] = f"{told}, synced to disk, gRPC"
    if "redis" not in lacks():
        told = _version(["redis-server", "--version"]).partition("v=")[2].split(" ", 1)[0]
        found["redis"] = f"Redis {told}, one process, nothing kept"
    return found


def _version(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--seconds", type=float, default=3.0, help="each measurement (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (default 3)")
    args = parser.parse_args()
    began = time.monotonic()
    skipped = lacks()
    for peer, why in skipped.items():
        progress(f"{peer} is skipped: {why}")
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-bench-") as folder:
        found = asyncio.run(run(Path(folder), max(0.5, args.seconds), max(1, args.rounds)))
    rows = rows_of(found, names())
    faults = missed(rows, [] if "etcd_http" in skipped else BARS)
    summary: dict[str, object] = {
        "ok": not faults,
        "executors": target.USUAL.executors,
        "loads_per_heartbeat": target.USUAL.loads,
        "skipped": skipped,
        **machine(),
        "missed": faults,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=args.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
