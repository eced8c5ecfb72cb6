"""Slow, oversized, waiting and deaf callers at once: python -m bench.attack --seconds 30 [--json].

Three real nodes, all attackers on the leader, while honest executors send 160 heartbeats a second
to it. There are no tokens: whoever attacks is let in, as with a stolen one. Exit status: 0 when the
bars hold.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from bench.attack.attackers import Attack
from bench.attack.honest import EXECUTORS, Fleet, Notes
from bench.cluster import Nodes
from bench.processes import Processes
from bench.rows import Row, percentile, progress, publish

QUIET_S: Final = 5.0
P99_MAX_MS: Final = 250.0
MEMORY_MAX_MB: Final = 400.0
"""More than before the attack: some 40 KiB for each of 9,000 connections, and what large answers
may take (`[limits]`)."""
MEMORY_TLS_MAX_MB: Final = 800.0
"""TLS keeps 25 KiB for each, and another 130 for each of 2,000 that sent all they could."""
WAITERS_MAX: Final = 3_000
RECOVERY_S: Final = 30.0
LIMITS: Final = f"[limits]\nwatch_waiters = {WAITERS_MAX}\n"
NAMESPACE: Final = "honest"


@dataclass(frozen=True, slots=True)
class Sight:
    """A node from outside."""

    rss_mb: float
    files: int


def look(pid: int) -> Sight:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Sight(pages * 4096 / (1 << 20), len(list(Path(f"/proc/{pid}/fd").iterdir())))


async def watched(pid: int, seen: list[Sight]) -> None:
    while True:
        seen.append(look(pid))
        await asyncio.sleep(0.2)


async def waiters(nodes: Nodes, url: str) -> float:
    """Open long polls, as the node counts them."""
    _, told = await nodes.ask("GET", f"{url}/metrics", timeout_s=RECOVERY_S)
    for line in told.decode().splitlines():
        if line.startswith("shard_coordinator_watch_waiters "):
            return float(line.split()[1])
    return -1.0


async def until(holds: Callable[[], Any], timeout_s: float) -> float | None:
    """Seconds until it held; None if it did not in time."""
    began = time.monotonic()
    while time.monotonic() - began < timeout_s:
        if await holds():
            return time.monotonic() - began
        await asyncio.sleep(0.1)
    return None


async def measure(arguments: argparse.Namespace, folder: Path) -> tuple[list[Row], dict[str, Any]]:
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes, has_tls=arguments.tls, extra=LIMITS)
        await nodes.start_all()
        name = await nodes.leader()
        url, pid = nodes.api[name], processes.running[name].pid
        fleet = Fleet(url, NAMESPACE, nodes.tls)
        try:
            await fleet.start()
            fleet.notes.take()
            await asyncio.sleep(QUIET_S)
            before, at_rest = fleet.notes.take(), look(pid)
            owners = await fleet.owners()
            progress("honest executors are at work; now the others")
            seen: list[Sight] = []
            watching = asyncio.create_task(watched(pid, seen))
            became = await attack(arguments, url, nodes.ca, processes, folder)
            during = fleet.notes.take()
            watching.cancel()

            async def is_over() -> bool:
                # The honest keep what they opened when answers were slow: one connection each.
                return (
                    look(pid).files <= at_rest.files + EXECUTORS and await waiters(nodes, url) <= 0
                )

            recovered_s = await until(is_over, RECOVERY_S)
            fleet.notes.take()
            await asyncio.sleep(QUIET_S)
            after, in_the_end = fleet.notes.take(), look(pid)
            lost, waiting = await fleet.lost(), await waiters(nodes, url)
            is_same = await fleet.owners() == owners
            still_leads = await nodes.leader() == name
        finally:
            await fleet.stop()
            await nodes.close()
    top = max(seen, key=lambda sight: sight.rss_mb)
    rows = [
        *waits("before", before),
        *waits("during", during),
        *waits("after", after),
        Row("memory_before", at_rest.rss_mb, "MB"),
        Row("memory_most", top.rss_mb, "MB"),
        Row("memory_after", in_the_end.rss_mb, "MB"),
        Row("files_most", max(sight.files for sight in seen), "descriptors"),
        Row("files_before", at_rest.files, "descriptors"),
        Row("files_after", in_the_end.files, "descriptors"),
        Row("waiters_after", waiting, "long polls"),
        Row("recovery", -1.0 if recovered_s is None else recovered_s, "s"),
    ]
    memory_max_mb = MEMORY_TLS_MAX_MB if arguments.tls else MEMORY_MAX_MB
    p99_ms = percentile(sorted(during.waited_s), 0.99) * 1e3
    failed = [
        *([f"p99 of heartbeats {p99_ms:.0f} ms"] if not p99_ms < P99_MAX_MS else []),
        *([f"{lost} leases lost"] if lost else []),
        *(during.failed[:5]),
        *([] if is_same else ["shards moved"]),
        *([] if still_leads else ["the leader lost its lead"]),
        *([] if recovered_s is not None else ["connections or waiters stayed"]),
        *([] if top.rss_mb - at_rest.rss_mb < memory_max_mb else ["too much memory"]),
        *([] if became.get("waiter_429") else ["the flood of waiters met no bound"]),
        *_faults(folder, nodes.names),
    ]
    summary = {
        "heartbeat_p99_ms": round(p99_ms, 1),
        "heartbeats": len(during.waited_s),
        "heartbeats_failed": len(during.failed),
        "leases_lost": lost,
        "memory_grown_mb": round(top.rss_mb - at_rest.rss_mb, 1),
        "memory_bound_mb": memory_max_mb,
        "recovered_s": recovered_s,
        "attackers": became,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "failed": failed,
    }
    return rows, summary


async def attack(
    arguments: argparse.Namespace, url: str, ca: str, processes: Processes, folder: Path
) -> dict[str, int]:
    """All of them at once; what became of them."""
    order = Attack(
        port=int(url.rpartition(":")[2]),
        namespace=NAMESPACE,
        seconds=arguments.seconds,
        slow_headers=arguments.slow // 2,
        slow_bodies=arguments.slow - arguments.slow // 2,
        oversized=arguments.oversized,
        waiters=arguments.waiters,
        unread=arguments.unread,
        ca=ca,
    )
    path = folder / "attack.json"
    path.write_bytes(msgspec.json.encode(order))
    argv = [sys.executable, "-m", "bench.attack.attackers", str(path)]
    started = await processes.start("attackers", argv, has_output=True)
    assert started.stdout is not None
    async with asyncio.timeout(arguments.seconds + 60):
        told = await started.stdout.read()
    await processes.finish("attackers", 10.0)
    became: dict[str, int] = json.loads(told)
    return became


def waits(when: str, notes: Notes) -> list[Row]:
    ordered = sorted(notes.waited_s)
    return [
        Row(f"heartbeat_p{name}_{when}", percentile(ordered, share) * 1e3, "ms")
        for name, share in (("50", 0.5), ("99", 0.99))
    ]


def _faults(folder: Path, names: list[str]) -> list[str]:
    return [
        line
        for name in names
        for line in (folder / f"{name}.log").read_text(errors="replace").splitlines()
        if "Traceback" in line or " CRITICAL " in line or "request_failed" in line
    ][:5]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.attack", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of attack (30)")
    parser.add_argument("--slow", type=int, default=2_000, help="half headers, half bodies (2000)")
    parser.add_argument("--oversized", type=int, default=2_000, help="bodies at once (2000)")
    parser.add_argument("--waiters", type=int, default=4_000, help="where 3000 may wait (4000)")
    parser.add_argument("--unread", type=int, default=200, help="who read nothing (200)")
    parser.add_argument("--tls", action="store_true", help="the API speaks TLS")
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--keep", type=Path, help="folder for logs, kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows, summary = uvloop.run(measure(arguments, folder))
    publish(rows, summary, as_json=arguments.json)
    return 1 if summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
