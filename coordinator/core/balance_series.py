"""How even a fleet has been, as a series of points: for pictures, never for a rule.

Decides how points are kept in order of time and how many. Must not know how a figure comes about
nor who looks at it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PAST_MAX: Final = 720
"""Points in the replicated state, one a minute at most: half a day, in 60 KB of a namespace."""

RECENT_MAX: Final = 720
"""Points in the leader's memory, one each few seconds: the last hour."""


@dataclass(frozen=True, slots=True)
class BalancePoint:
    """How evenly the load lay at one moment; utilisations, but for the spread."""

    at_ms: int
    """Wall clock of the leader."""
    hottest: float
    mean: float
    coldest: float
    spread: float
    """Standard deviation by mean."""
    executors: int
    best_possible: float | None = None
    """The hottest one under the best of all placements, where that is known."""
    static_hash: float | None = None
    """The hottest one under static hashing, where that is known."""


def extended(past: Sequence[BalancePoint], point: BalancePoint) -> tuple[BalancePoint, ...]:
    """The past with one more point, in order of time and within its bound.

    Points that claim to be later than the new one were given by a clock that ran ahead.
    """
    kept = [one for one in past if one.at_ms < point.at_ms]
    return (*kept[-(PAST_MAX - 1) :], point)


class RecentPoints:
    """The newest points of one leader."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: deque[BalancePoint] = deque(maxlen=RECENT_MAX)

    def add(self, point: BalancePoint) -> None:
        """Keep a point; later ones were given by a clock that ran ahead."""
        while self._points and self._points[-1].at_ms >= point.at_ms:
            self._points.pop()
        self._points.append(point)

    @property
    def newest(self) -> BalancePoint | None:
        """The last point that was added."""
        return self._points[-1] if self._points else None

    def behind(self, past: Sequence[BalancePoint], since_ms: int) -> list[BalancePoint]:
        """Points after a moment: of the past as far as these do not reach back, then these."""
        first_ms = self._points[0].at_ms if self._points else None
        older = (one for one in past if first_ms is None or one.at_ms < first_ms)
        return [one for one in (*older, *self._points) if one.at_ms > since_ms]
