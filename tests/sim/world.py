"""Virtual time and what happens in it: one heap of events, one seed, nothing else.

Decides the order of events. Must not know nodes or networks.
"""

import heapq
import random
from collections.abc import Callable

READING_S = 2e-5
"""What one reading of the clock costs: loops that wait for time to pass must end."""


class World:
    """A heap of calls at virtual times. `now` never goes back."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._count = 0

    def read(self) -> float:
        """The time, as a node reads it."""
        self.now += READING_S
        return self.now

    def clock(self, rate: float, offset_s: float) -> Callable[[], float]:
        """A clock of its own beginning, that runs this much faster than the world's."""
        return lambda: offset_s + rate * self.read()

    def at(self, when_s: float, call: Callable[..., None], *args: object) -> None:
        """Calls at this time, or now if it is past; equal times keep their order."""
        self._count += 1
        heapq.heappush(self._heap, (when_s, self._count, call, args))

    def after(self, delay_s: float, call: Callable[..., None], *args: object) -> None:
        """Calls this much later."""
        self.at(self.now + delay_s, call, *args)

    def run_until(self, end_s: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Runs what is due; ends early once `is_over`."""
        while self._heap and self._heap[0][0] <= end_s and not is_over():
            when_s, _, call, args = heapq.heappop(self._heap)
            self.now = max(self.now, when_s)
            call(*args)
        if not is_over():
            self.now = max(self.now, end_s)
