"""Whether a figure stays where it is: a line through it, and how far its slope is noise.

Pure. Decides that looks which follow closely are one: what a process holds now it held a moment
ago, so each minute counts as one point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from typing import Final

MINUTE_S: Final = 60.0
SLOPES: Final = 3.0
"""A slope within so many standard errors of zero is none."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through points in time."""

    mean: float
    per_hour: float
    error_per_hour: float
    """Standard error of the slope."""

    def is_flat(self, negligible_per_hour: float) -> bool:
        """Whether it does not rise, as far as can be told, or by nothing of consequence."""
        return self.per_hour <= max(negligible_per_hour, SLOPES * self.error_per_hour)


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Of (seconds, figure) in the order of time; flat while there are fewer than three minutes."""
    minutes = [
        [figure for _, figure in some]
        for _, some in groupby(points, key=lambda point: int(point[0] // MINUTE_S))
    ]
    ys = [sum(some) / len(some) for some in minutes]
    xs = [at * MINUTE_S / 3600.0 for at in range(len(ys))]
    mean = sum(ys) / len(ys) if ys else 0.0
    if len(ys) < 3:
        return Trend(mean, 0.0, 0.0)
    x = sum(xs) / len(xs)
    width = sum((a - x) ** 2 for a in xs)
    slope = sum((a - x) * (b - mean) for a, b in zip(xs, ys, strict=True)) / width
    off = sum((b - mean - slope * (a - x)) ** 2 for a, b in zip(xs, ys, strict=True))
    return Trend(mean, slope, sqrt(off / (len(ys) - 2) / width))
