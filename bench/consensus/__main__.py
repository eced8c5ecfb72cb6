"""Write latency and throughput, three processes on loopback, beside stock PySyncObj.

In memory as the peer is, and with the journal beside what the disk takes for one sync. Then through
the front doors: an operator's write over HTTP beside the same in etcd, where that is installed.

`python -m bench.consensus [--json] [--rounds N] [--only layer|http]`. Exit status 0 only when the
bars hold; there is none for etcd.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.consensus import etcd, fronts
from bench.consensus.disk import sync_p50_ms
from bench.consensus.measure import Measured
from bench.processes import Processes, free_ports
from bench.rows import (
    Bar,
    Row,
    higher_is_better,
    lower_is_better,
    machine,
    missed,
    progress,
    publish,
)

SYSTEMS: Final = {
    "ours": ("bench.consensus.ours",),
    "ours-journal": ("bench.consensus.ours", "--journal"),
    "stock": ("bench.consensus.stock", "batching"),
    "stock-unbatched": ("bench.consensus.stock", "no-batching"),
}
PEERS: Final = {
    "stock": "PySyncObj 0.3.17, own transport, auto tick, batching",
    "stock-unbatched": "PySyncObj 0.3.17, own transport, auto tick, no batching",
}
ROUND_S: Final = 35.0
"""Election, 2 s of latency, 3.5 s of throughput; then something is wrong."""
FINISH_S: Final = 5.0
JUDGED: Final = ("ours", *PEERS)
JOURNAL_ROUNDS: Final = 2
"""The journal is not judged against the peer, which has none."""
FURTHER_ROUNDS: Final = 2
FURTHER_UNTIL_S: Final = 88.0
"""No further round begins that would probably end after this: a minute and a half in all."""
FAILED_MAX: Final = 3
"""Rounds that may fail: the peer loses its lead on a busy machine; more than this is a fault."""
BARS: Final = (
    Bar("write_latency_p50", 100.0),
    Bar("writes_per_s_at_2000", 10.0),
)


class RoundFailed(Exception):  # noqa: N818 - it says what happened
    """A round came to nothing: a write was refused or lost its leader."""


async def round_of(system: str, folder: Path) -> Measured:
    """One cluster from start to end; the leader's figures."""
    ports = [str(port) for port in free_ports(3)]
    command = [*SYSTEMS[system]]
    if command[-1] == "--journal":
        command.append(tempfile.mkdtemp(prefix="journal-", dir=folder))
    async with Processes(folder) as processes:
        members = [
            await processes.start(
                f"{system}-{number}",
                [sys.executable, "-m", *command, str(number), *ports],
                has_output=True,
            )
            for number in range(3)
        ]
        lines = [
            asyncio.create_task(member.stdout.readline()) for member in members if member.stdout
        ]
        try:
            async with asyncio.timeout(ROUND_S):
                told = json.loads(await first_line(lines))
                if "failed" in told:
                    raise RoundFailed(f"{system}: {told['failed']}")
                return Measured(**told)
        finally:
            for task in lines:
                task.cancel()
            await asyncio.gather(*lines, return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.gather(
                    *[processes.finish(name, FINISH_S) for name in list(processes.running)]
                )


async def first_line(lines: list[asyncio.Task[bytes]]) -> bytes:
    """What the first of them says; an end without a word is a fault."""
    for task in asyncio.as_completed(lines):
        if line := await task:
            return line
    raise RoundFailed("every member ended without a report")


def tail_of_logs(folder: Path) -> str:
    """The last words of every member."""
    return "\n".join(
        f"{path.stem}: {line}"
        for path in sorted(folder.glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()[-5:]
    )


async def run(rounds: int, folder: Path) -> dict[str, list[Measured]]:
    """Every round of every system.

    The systems take turns, so that a busy machine hurts all of them. It does not hurt all alike:
    the peer mostly sleeps, we mostly compute. So there are further rounds while a bar is missed.
    """
    found: dict[str, list[Measured]] = {system: [] for system in SYSTEMS}
    began, failed = time.monotonic(), 0
    for number in range(rounds + FURTHER_ROUNDS):
        if number >= rounds:
            next_end = (time.monotonic() - began) * (number + 1) / number
            if next_end > FURTHER_UNTIL_S or not missed(rows_of(best_of(found)), BARS):
                break
        for system in SYSTEMS if number < JOURNAL_ROUNDS else JUDGED:
            try:
                one = await round_of(system, folder)
            except (RoundFailed, TimeoutError) as failure:
                failed += 1
                progress(f"round {number + 1}  {system:16} failed: {failure or 'no word in time'}")
                if failed > FAILED_MAX or (number + 1 >= rounds and not found[system]):
                    progress(tail_of_logs(folder))
                    raise
                continue
            progress(
                f"round {number + 1}  {system:16} p50 {one.latency_p50_ms:8.3f} ms"
                f"  p99 {one.latency_p99_ms:8.3f} ms  {one.writes_per_s:10,.0f} writes/s"
            )
            found[system].append(one)
    return found


def best_of(found: dict[str, list[Measured]]) -> dict[str, Measured]:
    """The best of each figure, system by system: the round that was disturbed least."""
    return {
        system: Measured(
            latency_p50_ms=min(one.latency_p50_ms for one in rounds),
            latency_p99_ms=min(one.latency_p99_ms for one in rounds),
            latency_writes=sum(one.latency_writes for one in rounds),
            writes_per_s=max(one.writes_per_s for one in rounds),
            writes=sum(one.writes for one in rounds),
        )
        for system, rounds in found.items()
    }


def journal_rows(journal: Measured, memory: Measured, sync_ms: float) -> list[Row]:
    """What keeping costs: one sync of leader and follower each, and what the disk alone takes."""
    return [
        lower_is_better(
            "write_latency_p50_journal",
            journal.latency_p50_ms,
            "ms",
            "two syncs of the same disk, one after the other",
            2 * sync_ms,
        ),
        Row("write_latency_p99_journal", journal.latency_p99_ms, "ms"),
        higher_is_better(
            "writes_per_s_at_2000_journal",
            journal.writes_per_s,
            "writes/s",
            "this project's layer in memory",
            memory.writes_per_s,
        ),
        Row("disk_sync_p50", sync_ms, "ms"),
    ]


def rows_of(best: dict[str, Measured]) -> list[Row]:
    """Our figures beside the peer's: batching for latency as issued, its best for throughput."""
    ours = best["ours"]
    fastest = max(PEERS, key=lambda system: best[system].writes_per_s)
    quickest = min(PEERS, key=lambda system: best[system].latency_p50_ms)
    return [
        lower_is_better(
            "write_latency_p50",
            ours.latency_p50_ms,
            "ms",
            PEERS["stock"],
            best["stock"].latency_p50_ms,
        ),
        lower_is_better(
            "write_latency_p50_best_peer",
            ours.latency_p50_ms,
            "ms",
            PEERS[quickest],
            best[quickest].latency_p50_ms,
        ),
        lower_is_better(
            "write_latency_p99",
            ours.latency_p99_ms,
            "ms",
            PEERS["stock"],
            best["stock"].latency_p99_ms,
        ),
        higher_is_better(
            "writes_per_s_at_2000",
            ours.writes_per_s,
            "writes/s",
            PEERS[fastest],
            best[fastest].writes_per_s,
        ),
    ]


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.consensus", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each system (default 3)")
    parser.add_argument("--only", choices=["layer", "http"], help="half of it")
    args = parser.parse_args()
    began = time.monotonic()
    rounds = max(1, args.rounds)
    rows: list[Row] = []
    faults: list[str] = []
    skipped = {} if etcd.lack() is None else {"etcd": etcd.lack()}
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-bench-") as name:
        folder = Path(name)
        if args.only != "http":
            sync_ms = sync_p50_ms(folder)
            best = best_of(asyncio.run(run(rounds, folder)))
            rows += rows_of(best) + journal_rows(best["ours-journal"], best["ours"], sync_ms)
            faults = missed(rows, BARS)
        if args.only != "layer":
            for peer, why in skipped.items():
                progress(f"{peer} is skipped: {why}")
            rows += fronts.rows_of(asyncio.run(fronts.run(folder, rounds)))
    summary: dict[str, object] = {
        "ok": not faults,
        "members": 3,
        "storage": "memory and journal",
        "skipped": skipped,
        **machine(),
        "missed": faults,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=args.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
