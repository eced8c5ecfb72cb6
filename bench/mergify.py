"""Mergify's case, rebuilt: the worst of 8 to 16 single-core processes under each method.

`python -m bench.mergify [--data FILE] [--processes 8-16] [--quiet-mark 65] [--level ...] [--json]`.
FILE has the columns `key,load`, loads in percent of one core. Mergify's rule runs with its own
marks, 75 and 65 % of a core, and has its two moves a run; the planner runs with its gaps alone
(`ours`), and with a quiet mark under which a process is left alone (`ours_quiet`). Exit status 0
only when the worst process under the quiet mark is nowhere above the one under Mergify's rule.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.balance.ours import LEVELS, Ours
from bench.balance.rules import Mergify, Rule, Uber, run
from bench.balance.snapshots import Snapshot, read_snapshot
from bench.balance.starts import hashed
from bench.rows import progress
from coordinator.core.planner import waterfill

DATA: Final = Path(__file__).parent / "data" / "mergify_like.csv"
HIGH_MARK: Final = 75.0
LOW_MARK: Final = 65.0
IMPROVEMENT: Final = 2.0
"""Percent of a core, as published."""
PUBLISHED_HASH: Final = dict(
    zip(range(8, 17), (183, 127, 106, 118, 105, 94, 84, 99, 152), strict=True)
)
"""Worst process under static hashing in their own fleet, from which the data were rebuilt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The worst process under one method."""

    processes: int
    method: str
    worst: float
    bound: float
    """No placement has a lower one."""
    moves: int


def rows_of(snapshot: Snapshot, processes: int, level: str, quiet_mark: float) -> list[Row]:
    """Every method from the same hashed placement."""
    bound = waterfill(snapshot.loads, processes).max
    rules: Mapping[str, Callable[[], Rule] | None] = {
        "hash": None,
        "uber": Uber,
        "mergify": lambda: Mergify(HIGH_MARK, LOW_MARK, IMPROVEMENT, mean=1.0),
        "ours": lambda: Ours(*LEVELS[level]),
        "ours_quiet": lambda: Ours(*LEVELS[level], quiet_mark=quiet_mark),
    }
    found = []
    for method, rule in rules.items():
        fleet = hashed(snapshot, processes)
        if rule is not None:
            run(rule(), fleet)
        worst = fleet.figures().hottest_utilisation
        found.append(
            Row(
                processes=processes,
                method=method,
                worst=worst,
                bound=bound,
                moves=fleet.tally.moves,
            )
        )
    return found


def misses(rows: list[Row]) -> list[str]:
    """Where Mergify's own rule does better."""
    theirs = {row.processes: row.worst for row in rows if row.method == "mergify"}
    return [
        f"{row.processes} processes: {row.worst:.1f} % where Mergify's rule has "
        f"{theirs[row.processes]:.1f} %"
        for row in rows
        if row.method == "ours_quiet" and row.worst > theirs[row.processes]
    ]


def table(rows: list[Row]) -> str:
    """A line for each count, worst process and moves for each method."""
    methods = list(dict.fromkeys(row.method for row in rows))
    head = "".join(f"{name:>16}" for name in ["published hash", *methods, "bound"])
    lines = [f"{'processes':9}{head}"]
    for processes in dict.fromkeys(row.processes for row in rows):
        chosen = [row for row in rows if row.processes == processes]
        published = PUBLISHED_HASH.get(processes)
        cells = ["" if published is None else f"{published} %"]
        cells += [f"{row.worst:.0f} % ({row.moves})" for row in chosen]
        cells.append(f"{chosen[0].bound:.0f} %")
        lines.append(f"{processes:<9}{''.join(f'{cell:>16}' for cell in cells)}")
    return "\n".join(lines)


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.mergify", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="key,load in percent of a core")
    parser.add_argument("--processes", type=_span, default=_span("8-16"), help="N-N")
    parser.add_argument("--quiet-mark", type=float, default=65.0, help="percent of a core")
    parser.add_argument("--level", choices=list(LEVELS), default="level")
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    options = parser.parse_args()
    snapshot = read_snapshot(options.data)
    rows: list[Row] = []
    for processes in options.processes:
        rows += rows_of(snapshot, processes, options.level, options.quiet_mark)
    said = misses(rows)
    if options.json:
        for row in rows:
            print(json.dumps(asdict(row)))
        print(json.dumps({"level": options.level, "missed": said}))
    else:
        print(table(rows))
    for one in said:
        progress(f"missed: {one}")
    return 1 if said else 0


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    sys.exit(main())
