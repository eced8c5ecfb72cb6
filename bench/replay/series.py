"""Load over time: what every shard did in every step of a series.

Decides how the file is read. Columns are `key`, optionally `mean_ms`, and `cells_every_hour` or
`cells_every_minute`, whose cells are `t:count` joined by spaces; steps without a cell are zero.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.balance.snapshots import open_text

STEPS_S: Final = {"cells_every_hour": 3600.0, "cells_every_minute": 60.0}
WINDOWS_S: Final = {3600.0: 86_400.0, 60.0: 3600.0}
"""Over which executors are compared: a day of hours, an hour of minutes. Shorter ones would judge
the chance within them, longer ones hide what a fleet suffers."""


@dataclass(frozen=True, slots=True)
class Series:
    """Load by shard in each step."""

    name: str
    step_s: float
    steps: tuple[Mapping[str, float], ...]
    keys: tuple[str, ...]

    @property
    def window(self) -> int:
        """Steps over which executors are compared."""
        return round(WINDOWS_S[self.step_s] / self.step_s)


def read_series(path: Path, *, is_weighed: bool = False) -> Series:
    """A file of cells; weighed, a call counts as the seconds that it takes in the mean."""
    cells: dict[int, dict[str, float]] = {}
    keys = []
    csv.field_size_limit(1 << 24)  # a shard that is never idle has one long cell
    with open_text(path) as lines:
        reader = csv.DictReader(lines)
        column = next((name for name in STEPS_S if name in (reader.fieldnames or ())), "")
        if not column:
            raise ValueError(f"{path.name} has none of the columns {', '.join(STEPS_S)}")
        for row in reader:
            keys.append(row["key"])
            weight = float(row["mean_ms"]) / 1000.0 if is_weighed else 1.0
            for cell in row[column].split():
                step, _, count = cell.partition(":")
                cells.setdefault(int(step), {})[row["key"]] = float(count) * weight
    steps = tuple(cells.get(at, {}) for at in range(max(cells, default=-1) + 1))
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    return Series(name, STEPS_S[column], steps, tuple(sorted(keys)))
