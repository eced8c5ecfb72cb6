"""How many balancing moves there may be per time: a budget that refills as time passes.

Decides by a ratio of the shards per window. Must not know which moves it is spent on. A change of
leader starts it anew; pass `spent` to carry on from what is known of the predecessor.
"""

from dataclasses import dataclass
from math import ceil, floor


@dataclass(slots=True)
class MoveBudget:
    """Moves spent, forgotten evenly over a window; `now` is any monotonic time in seconds."""

    ratio: float
    window_s: float
    now: float
    spent: float = 0.0

    def allowance(self, shards: int) -> int:
        """Most moves in one window: at least 2, for a swap needs two; none at a ratio of 0."""
        if self.ratio <= 0.0 or shards <= 0:
            return 0
        # Rounded up only where there is more than rounding: 0.07 * 100 is a little over 7.
        return max(2, ceil(self.ratio * shards - 1e-9))

    def available(self, shards: int, now: float) -> int:
        """Whole moves that may be made now."""
        self._forget(shards, now)
        return max(0, floor(self.allowance(shards) - self.spent + 1e-9))

    def take(self, moves: int, shards: int, now: float) -> int:
        """Spend up to `moves`; how many were to be had."""
        taken = max(0, min(moves, self.available(shards, now)))
        self.spent += taken
        return taken

    def give_back(self, moves: int) -> None:
        """Moves taken that were then not made."""
        self.spent = max(0.0, self.spent - moves)

    def _forget(self, shards: int, now: float) -> None:
        if now > self.now:
            refilled = self.allowance(shards) * (now - self.now) / self.window_s
            self.spent = max(0.0, self.spent - refilled)
            self.now = now
