"""A load series replayed under hashing, the Uber rule, the Mergify rule and this planner.

`python -m bench.replay --series FILE --executors N --horizon-s S [--level ...] [--weigh] [--json]
[--svg FILE]`. Executors are compared by their load in a trailing window (a day of hourly steps, an
hour of minutes): `excess_over_best` is the mean, over all judged steps, of the hottest one above
the best that any placement could have had, had the window been known in advance. Several horizons
may be given as S,S,S. Each method rests moved shards as its authors do: Cadence a minute, Mergify
an hour, this planner a quarter of the horizon. Exit status 0 only when ours is at or below the Uber
rule's excess, with no more moves unless it is below it by a tenth.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.balance.ours import LEVELS, Ours
from bench.balance.rules import Mergify, Rule, Uber
from bench.chart import axis, lines, save
from bench.replay.play import Played, Setting, mean, play
from bench.replay.series import Series, read_series
from bench.rows import progress

CHART: Final = Path("bench/results/replay.svg")
UBER_COOLDOWN_S: Final = 60.0
MERGIFY_COOLDOWN_S: Final = 3600.0
OURS_COOLDOWN_RATIO: Final = 0.25
"""Of the horizon: the policy's own default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One method at one horizon."""

    series: str
    method: str
    level: str
    executors: int
    horizon_s: float
    excess_over_best: float
    moves: int
    moved_load: float
    moves_again: int
    steps_judged: int
    seconds: float


def played(
    series: Series, options: argparse.Namespace, horizon_s: float
) -> Iterator[tuple[str, Played]]:
    """Every method in turn."""
    rules: dict[str, tuple[Callable[[], Rule] | None, float]] = {
        "hash": (None, 0.0),
        "uber": (Uber, UBER_COOLDOWN_S),
        "mergify": (Mergify, MERGIFY_COOLDOWN_S),
        "ours": (lambda: Ours(*LEVELS[options.level]), horizon_s * OURS_COOLDOWN_RATIO),
    }
    for method, (rule, cooldown_s) in rules.items():
        progress(f"{series.name}: {method}, horizon {horizon_s:g} s")
        setting = Setting(options.executors, horizon_s, cooldown_s, on_after=series.window)
        yield method, play(series, None if rule is None else rule(), setting)


def row_of(
    series: Series, options: argparse.Namespace, horizon_s: float, method: str, found: Played
) -> Row:
    """The figures of one method."""
    return Row(
        series=series.name,
        method=method,
        level=options.level,
        executors=options.executors,
        horizon_s=horizon_s,
        excess_over_best=mean(found.excess),
        moves=found.moves,
        moved_load=found.moved_load,
        moves_again=found.moves_again,
        steps_judged=len(found.excess),
        seconds=found.seconds,
    )


def misses(rows: list[Row]) -> list[str]:
    """Where the Uber rule does better at the same horizon."""
    uber = {row.horizon_s: row for row in rows if row.method == "uber"}
    said = []
    for row in rows:
        theirs = uber[row.horizon_s]
        if row.method != "ours":
            continue
        if row.excess_over_best > theirs.excess_over_best:
            said.append(f"horizon {row.horizon_s:g} s: a hotter hottest executor than by Uber's")
        elif row.moves > theirs.moves and row.excess_over_best > 0.9 * theirs.excess_over_best:
            said.append(f"horizon {row.horizon_s:g} s: {row.moves} moves, Uber's {theirs.moves}")
    return said


def draw(series: Series, found: Played, options: argparse.Namespace) -> None:
    """Hottest, mean and coldest executor over time."""
    hours = series.step_s / 3600.0
    track = [(at * hours, *values) for at, values in enumerate(found.track)]
    named = {
        name: [(one[0], one[1 + place]) for one in track]
        for place, name in enumerate(("hottest", "mean", "coldest"))
    }
    x = axis("hours", [one[0] for one in track])
    y = axis("load in the trailing window", [one[1] for one in track])
    title = f"{series.name} on {options.executors} executors, level {options.level}"
    mark = (series.window * hours, "switched on")
    save(options.svg, lines(title, x, y, named, mark=mark))
    progress(f"drawn: {options.svg}")


def main() -> int:
    """Run, print, draw, judge."""
    options = _parser().parse_args()
    series = read_series(options.series, is_weighed=options.weigh)
    rows = []
    for at, horizon_s in enumerate(options.horizon_s):
        for method, found in played(series, options, horizon_s):
            row = row_of(series, options, horizon_s, method, found)
            rows.append(row)
            print(json.dumps(asdict(row)) if options.json else _line(row), flush=True)
            if method == "ours" and at == 0:
                draw(series, found, options)
    said = misses(rows)
    if options.json:
        print(json.dumps({"series": series.name, "level": options.level, "missed": said}))
    for one in said:
        progress(f"missed: {one}")
    return 1 if said else 0


def _line(row: Row) -> str:
    return (
        f"horizon {row.horizon_s:9g} s  {row.method:8} {row.excess_over_best:7.1%} over the best"
        f"  {row.moves:6} moves ({row.moves_again} of a shard moved before)"
        f"  {row.moved_load:7.2f} times all load  {row.seconds:6.2f} s"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.replay", description=__doc__)
    parser.add_argument("--series", type=Path, required=True, help="file of cells per shard")
    parser.add_argument("--executors", type=int, required=True)
    parser.add_argument("--horizon-s", type=_seconds, required=True, help="S or S,S,S")
    parser.add_argument("--level", choices=list(LEVELS), default="default")
    parser.add_argument("--weigh", action="store_true", help="calls by their mean duration")
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--svg", type=Path, default=CHART, help=f"default: {CHART}")
    return parser


def _seconds(text: str) -> tuple[float, ...]:
    return tuple(float(one) for one in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
