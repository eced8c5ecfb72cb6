"""A thousand executors with up to a million shards: what that costs three real nodes, and how costs
grow.

`python -m bench.scale [--json] [--shards N ...] [--executors N] [--kind open|fixed] [--no-growth]`.
For each number of shards a cluster is filled, its shards are placed, every executor reports a load
for each of its shards over HTTP, passes are planned (and nothing moved), snapshots are made, a
member loses its memory and comes back, one executor is lost, then a tenth of them. `lag` is how
long a node's loop stood still: processor time between two turns, the worst of the three nodes, for
on a busy machine the clock says what others did; `wall` rows are by the clock. `growth` fits a line
through the logarithms of costs from a thousand shards to a million. Exit status 0 only when the
bars hold.
"""

import argparse
import asyncio
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.failover.__main__ import tail_of_logs
from bench.processes import Processes
from bench.rows import Row, lower_is_better, progress, publish
from bench.scale import growth
from bench.scale.run import Run, Size

SIZES: Final = (100_000, 1_000_000)
ENTRIES: Final = 2_000
"""Per snapshot: a small part of the product's, so that a run has some."""
PHASES: Final = ("plan", "snapshot", "catch_up", "loss_of_a_tenth")
"""In which loops must go on turning."""
LAG_P99_MS: Final = 20.0
LAG_MAX_MS: Final = 100.0
MEMORY_MB: Final = 600.0
REHOMED_S: Final = 0.2
EXPONENT_MAX: Final = 1.05
SCATTERED: Final = "exponent_snapshot_scattered_by_shards"
"""Shown and not judged: beside the same work on records in order it says what caches cost."""
LARGEST: Final = 1_000_000


def bars_of(size: Size) -> dict[str, float]:
    """What each of these rows may be at most."""
    bars = {f"memory_max_{size.label}": MEMORY_MB}
    for phase in PHASES:
        bars[f"{phase}_lag_p99_{size.label}"] = LAG_P99_MS
        bars[f"{phase}_lag_max_{size.label}"] = LAG_MAX_MS
    if size.shards <= 1_000 * size.executors:
        bars[f"loss_of_one_rehomed_after_expiry_{size.label}"] = REHOMED_S
    return bars


def judged(rows: Sequence[Row], bars: dict[str, float]) -> tuple[list[Row], list[str]]:
    """Rows beside what is promised of them, and what is not kept."""
    shown = [
        lower_is_better(row.name, row.value, row.unit, "what is promised", bars[row.name])
        if row.name in bars
        else row
        for row in rows
    ]
    broken = [
        f"{row.name}: {row.value:.4g} {row.unit} where {bars[row.name]:g} are promised"
        for row in rows
        if row.name in bars and not row.value <= bars[row.name]
    ]
    absent = bars.keys() - {row.name for row in rows}
    return shown, broken + [f"{name}: not measured" for name in sorted(absent)]


async def measured(size: Size, entries: int) -> tuple[list[Row], list[str]]:
    """The figures of one size, and what went wrong."""
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-scale-") as folder:
        async with Processes(Path(folder)) as processes:
            run = Run(size, Path(folder), processes, entries)
            try:
                await run.go()
            except (TimeoutError, RuntimeError) as failure:
                progress(tail_of_logs(Path(folder)))
                return run.rows, [f"{size.label}: {type(failure).__name__}: {failure}"]
    rows, broken = judged(run.rows, bars_of(size))
    return rows, broken


def grown() -> tuple[list[Row], list[str]]:
    """The exponent of each cost."""
    rows: list[Row] = []
    lines = {f"{name}_by_shards": line for name, line in growth.by_shards(LARGEST).items()}
    lines |= {f"{name}_by_executors": line for name, line in growth.by_executors().items()}
    for name, points in lines.items():
        rows += _points(name, points)
        line = growth.fitted([size for size, _ in points], [cost for _, cost in points])
        rows.append(Row(f"exponent_{name}", line.exponent, ""))
    names = {row.name for row in rows if row.name.startswith("exponent_")}
    bars = dict.fromkeys(names - {SCATTERED}, EXPONENT_MAX)
    return judged(rows, bars)


def _points(name: str, points: Sequence[tuple[int, float]]) -> Iterator[Row]:
    for size, cost in points:
        yield Row(f"{name}_{size}", cost, "s of a core")


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--shards", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--executors", type=int, default=1_000)
    parser.add_argument("--kind", choices=("open", "fixed"), default="open")
    parser.add_argument("--entries", type=int, default=ENTRIES, help="per snapshot")
    parser.add_argument("--no-growth", action="store_true", help="only the clusters")
    told = parser.parse_args()
    began = time.monotonic()
    rows: list[Row] = []
    broken: list[str] = []
    for shards in told.shards:
        size = Size(shards, min(told.executors, shards), told.kind)
        found, said = asyncio.run(measured(size, told.entries))
        rows, broken = rows + found, broken + said
    if not told.no_growth:
        found, said = grown()
        rows, broken = rows + found, broken + said
    summary = {
        "ok": not broken,
        "missed": broken,
        "load_average": round(os.getloadavg()[0], 1),
        "seconds": math.ceil(time.monotonic() - began),
    }
    publish(rows, summary, as_json=told.json)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
