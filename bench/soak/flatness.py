"""Whether a figure stays where it is: a line through it, and how far its slope can be told.

Pure. Looks which follow closely are one, since what a process holds now it held a moment ago, so
each minute counts as one point. Minutes resemble their neighbours, too: the error of the slope is
widened by as much as what is left of neighbouring minutes goes together. Decides what "within
noise" means: the 95 % confidence interval of the slope reaches down to what is of no consequence,
and, lest a figure pass because little can be told of it, does not reach up to what would be a leak.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import sqrt
from typing import Final

MINUTE_S: Final = 60.0
ALIKE_MAX: Final = 0.9
"""Neighbouring minutes count as no more alike than that: of 20 the figure itself is uncertain."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through points in time."""

    mean: float
    per_hour: float
    error_per_hour: float
    """Half of the slope's 95 % confidence interval."""

    def is_flat(self, negligible_per_hour: float, leak_per_hour: float) -> bool:
        """Whether it does not rise by anything of consequence, and that can be told."""
        least = self.per_hour - self.error_per_hour
        most = self.per_hour + self.error_per_hour
        return least <= negligible_per_hour and most < leak_per_hour


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Of (seconds, figure) in the order of time; flat while there are fewer than four minutes."""
    minutes = [
        [figure for _, figure in some]
        for _, some in groupby(points, key=lambda point: int(point[0] // MINUTE_S))
    ]
    ys = [sum(some) / len(some) for some in minutes]
    xs = [at * MINUTE_S / 3600.0 for at in range(len(ys))]
    mean = sum(ys) / len(ys) if ys else 0.0
    if len(ys) < 4:
        return Trend(mean, 0.0, 0.0)
    x = sum(xs) / len(xs)
    width = sum((a - x) ** 2 for a in xs)
    slope = sum((a - x) * (b - mean) for a, b in zip(xs, ys, strict=True)) / width
    off = [b - mean - slope * (a - x) for a, b in zip(xs, ys, strict=True)]
    squares = sum(one**2 for one in off)
    alike = _alike(off, squares)
    error = sqrt(squares / (len(ys) - 2) / width) * sqrt((1.0 + alike) / (1.0 - alike))
    return Trend(mean, slope, _student(len(ys) - 2) * error)


def _alike(off: Sequence[float], squares: float) -> float:
    """How far what is left of a minute goes with what is left of the next, from 0 on."""
    if squares <= 0.0:
        return 0.0
    return min(ALIKE_MAX, max(0.0, sum(a * b for a, b in pairwise(off)) / squares))


def _student(freedom: int) -> float:
    """How many standard errors half of a 95 % interval is; 1 % off from ten degrees on."""
    return 1.96 + 2.4 / freedom + 3.0 / freedom**3
