"""The load that the demo replays: departures from New York, carrier by carrier and route by route.

Decides which hours are replayed and when. Every process computes the same hour from the same
start, so nobody has to be told. Must not know executors or coordinators.
"""

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SERIES: Final = Path(__file__).parents[1] / "data" / "nyc_flights_hourly_8weeks.csv.gz"
DAY_HOURS: Final = range(6, 21)
"""Local hours that are replayed: from 21 to 5 hardly anything departs, and a night of two or
three departures would say nothing about balance."""
DAYS: Final = 56
HOUR_S: Final = 1.0
"""An hour of data per second: the demo's horizon of 24 s is then more than one day of them."""
CAPACITY: Final = 16.0
"""Departures an hour that one executor counts as its capacity: eight of them then run at about
45 %, so that the five that are left in the end are not overloaded."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Departures per hour of every shard, from the moment the replay began."""

    departures: Mapping[str, Mapping[int, int]]
    began_at: float
    hour_s: float = HOUR_S

    @property
    def keys(self) -> list[str]:
        """Every shard key, in order."""
        return sorted(self.departures)

    def hour_at(self, now: float) -> int:
        """Which hour of the series is replayed; after the last one it begins again."""
        passed = max(0, int((now - self.began_at) / self.hour_s)) % (DAYS * len(DAY_HOURS))
        day, hour = divmod(passed, len(DAY_HOURS))
        return day * 24 + DAY_HOURS[hour]

    def load(self, key: str, hour: int) -> float:
        """Departures of one shard within one hour of the series."""
        return float(self.departures[key].get(hour, 0))


def read_series(path: Path = SERIES) -> dict[str, dict[int, int]]:
    """Departures by shard and hour, as they stand in the file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return {row["key"]: _cells(row["cells_every_hour"]) for row in csv.DictReader(lines)}


def _cells(text: str) -> dict[int, int]:
    pairs = (cell.split(":") for cell in text.split())
    return {int(hour): int(count) for hour, count in pairs}
