"""Hashing, the Uber rule, the Mergify rule, this planner and a solver, on snapshots of real load.

`python -m bench.balance --data DIR [--heldout DIR] [--level default|level|tight] [--json]
[--executors N ...] [--starts hash,drift,join,leave] [--methods ...] [--solver-seconds S]
[--svg FILE]`. DIR holds CSV files with the columns `key,load`, gzipped or not. Every method runs
from the same states until it comes to rest, at one move in a hundred shards a cycle and without
cooldown. `bound` is the least spread that any placement could have. Exit status 0 only when the
bars of the level hold.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.balance import solver
from bench.balance.cases import METHODS, Asked, Row, rows_of
from bench.balance.ours import LEVELS
from bench.balance.snapshots import executor_counts, read_folder
from bench.balance.starts import STARTS
from bench.balance.verdict import misses, summary
from bench.chart import axis, points, save
from bench.rows import progress

CHART: Final = Path("bench/results/balance.svg")


def measured(options: argparse.Namespace) -> Iterator[Row]:
    """Every row, folder after folder."""
    asked = Asked(
        options.level, options.starts, options.methods, solver_seconds=options.solver_seconds
    )
    for folder, is_heldout in ((options.data, False), (options.heldout, True)):
        if folder is None:
            continue
        for snapshot in read_folder(folder):
            for count in options.executors or executor_counts(snapshot):
                progress(f"{snapshot.name}: {len(snapshot.loads)} shards on {count} executors")
                yield from rows_of(snapshot, count, asked, is_heldout=is_heldout)


def table_line(row: Row) -> str:
    """One row for people."""
    case = f"{row.snapshot} {row.shards}/{row.executors}"
    return (
        f"{case:48} {row.start:6} {row.method:15} spread {row.spread:7.4f} (bound {row.bound:7.4f})"
        f"  max/mean {row.max_over_mean:6.3f}  moves {row.moves:6}  load {row.moved_load:6.1%}"
        f"  {row.seconds:7.3f} s"
    )


def sums_table(found: dict[str, object]) -> str:
    """The means for people."""
    heads = ("excess: mean", "median", "worst", "moves", "of shards", "of load", "near", "seconds")
    widths = (13, 9, 9, 8, 10, 9, 9, 9)
    cells = (f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    lines = [f"{'start.method':22}{''.join(cells)}"]
    for name, one in found.items():
        if isinstance(one, dict):
            lines.append(
                f"{name:22} {one['excess_mean']:12.4f} {one['excess_median']:8.4f} "
                f"{one['excess_max']:8.4f} {one['moves']:7} {one['moves_share_mean']:9.1%} "
                f"{one['moved_load_mean']:8.1%} {one['within_half_a_point']:4}/{one['cases']:<3} "
                f"{one['seconds']:8.2f}"
            )
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """What is left above the bound, against what it cost, from hashing."""
    chosen = [row for row in rows if row.start == rows[0].start]
    series = {
        method: [(row.moved_load, row.excess) for row in chosen if row.method == method]
        for method in METHODS
        if any(row.method == method for row in chosen)
    }
    flat = [one for found in series.values() for one in found]
    x = axis("share of the load that was moved", [a for a, _ in flat])
    y = axis("spread above the best possible", [b for _, b in flat])
    save(path, points(f"Spread left, and what it cost ({rows[0].start})", x, y, series))
    progress(f"drawn: {path}")


def main() -> int:
    """Run, print, draw, judge."""
    options = _parser().parse_args()
    unknown = [one for one in options.starts if one not in STARTS]
    unknown += [one for one in options.methods if one not in METHODS]
    if unknown:
        progress(f"unknown: {', '.join(unknown)}")
        return 2
    if options.solver_seconds > 0.0 and not solver.is_installed():
        progress("no solver: OR-tools is not installed (pip install '.[bench]')")
        options.solver_seconds = 0.0
    rows = []
    for row in measured(options):
        rows.append(row)
        print(json.dumps(asdict(row)) if options.json else table_line(row), flush=True)
    if not rows:
        progress("no snapshot with the columns key,load was found")
        return 2
    said = misses(rows, options.level)
    found = {**summary(rows), "level": options.level, "missed": said}
    print(json.dumps(found) if options.json else sums_table(found))
    draw(rows, options.svg)
    for one in said:
        progress(f"missed: {one}")
    return 1 if said else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.balance", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of key,load CSV files")
    parser.add_argument("--heldout", type=Path, help="a second folder, rows marked as held out")
    parser.add_argument("--level", choices=list(LEVELS), default="default")
    parser.add_argument(
        "--executors", type=_counts, default=(), help="N or N,N: the same for every snapshot"
    )
    parser.add_argument("--starts", type=_names, default=tuple(STARTS), help=",".join(STARTS))
    parser.add_argument("--methods", type=_names, default=METHODS, help=",".join(METHODS))
    parser.add_argument(
        "--solver-seconds", type=float, default=0.0, help="CP-SAT's time for each case; 0: without"
    )
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--svg", type=Path, default=CHART, help=f"default: {CHART}")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
