"""Loads of shards from a folder of CSV files, and on how many executors each is tried.

Decides what counts as a snapshot and the executor counts. Must not know any balancing rule.
"""

import csv
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import fsum, isfinite
from pathlib import Path
from typing import Final, TextIO, cast

SUFFIXES: Final = (".csv", ".csv.gz")

COUNTS_BY_SIZE: Final = (
    (100, 6),
    (500, 10),
    (1_000, 12),
    (2_000, 20),
    (3_000, 30),
    (5_000, 40),
    (50_000, 64),
)
"""Executors for fewer shards than this: some ten shards each when shards are few, and hundreds
when there are many, as fleets in the field have it."""
COUNT_LARGE: Final = 100
"""Executors from 50,000 shards on."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Load by shard key."""

    name: str
    loads: Mapping[str, float]

    @property
    def total(self) -> float:
        """The load of all shards."""
        return fsum(self.loads.values())


def read_folder(folder: Path) -> Iterator[Snapshot]:
    """Every file with columns `key,load`, by name; other files are passed over."""
    for path in sorted(folder.iterdir()):
        if path.name.endswith(SUFFIXES) and _columns(path)[:2] == ["key", "load"]:
            yield read_snapshot(path)


def read_snapshot(path: Path) -> Snapshot:
    """One file; a load that is negative or no number is an error, for it would be a silent zero."""
    loads: dict[str, float] = {}
    with open_text(path) as lines:
        for row in csv.DictReader(lines):
            load = float(row["load"])
            if not (isfinite(load) and load >= 0.0):
                raise ValueError(f"{path.name}: shard {row['key']!r} has the load {row['load']!r}")
            loads[row["key"]] = load
    return Snapshot(path.name.removesuffix(".gz").removesuffix(".csv"), loads)


def open_text(path: Path) -> TextIO:
    """The file's text, gzipped or not."""
    if path.name.endswith(".gz"):
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8", newline=""))
    return path.open(encoding="utf-8", newline="")


def executor_counts(snapshot: Snapshot) -> tuple[int, ...]:
    """Two counts: one by the number of shards, and one at which no shard is dominant.

    The second is the largest up to the first at which no shard is heavier than an even share;
    there a level fleet can be had. Where that is the first already, it is half of it.
    """
    first = count_by_size(len(snapshot.loads))
    second = min(first, count_without_dominant(snapshot))
    return (first, first // 2 if second == first else second)


def count_by_size(shards: int) -> int:
    """Executors for so many shards."""
    return next((count for limit, count in COUNTS_BY_SIZE if shards < limit), COUNT_LARGE)


def count_without_dominant(snapshot: Snapshot) -> int:
    """The most executors on which every shard fits into an even share; never fewer than two."""
    heaviest = max(snapshot.loads.values(), default=0.0)
    return max(2, int(snapshot.total / heaviest)) if heaviest > 0.0 else COUNT_LARGE


def _columns(path: Path) -> list[str]:
    with open_text(path) as lines:
        return next(csv.reader(lines), [])
