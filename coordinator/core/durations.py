"""How long things took, counted in buckets: bounded, and cheap enough for every request.

Decides the buckets. Must not know what is measured, nor by which clock.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Final

SHORT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""For what takes milliseconds, up to the time-out of a proposal."""

LONG_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""For what executors have a part in: from an immediate stop to one that hangs past its deadline."""


@dataclass(slots=True)
class Durations:
    """A histogram in seconds. Its last bucket takes whatever is longer than the longest bound."""

    bounds_s: tuple[float, ...] = SHORT_S
    counts: list[int] = field(init=False)
    total_s: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds_s) + 1)

    def observe(self, seconds: float) -> None:
        """One more; a bound is the highest value of its own bucket."""
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound with how many took at most so long; the last one is infinite."""
        return list(zip((*self.bounds_s, inf), accumulate(self.counts), strict=True))
