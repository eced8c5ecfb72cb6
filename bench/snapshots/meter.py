"""How long a loop was kept from turning, seen from inside it.

Decides what a stall is: by how much a timer was late, and of that no more than the CPU time that
the loop's thread spent meanwhile. The wall clock alone also contains what the machine gave to
others, the CPU time alone what was done before the timer was due.
"""

import asyncio
import resource
import time
from dataclasses import dataclass
from typing import Final

from bench.rows import percentile

LOOK_EVERY_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Lag:
    """What was seen since the last time it was asked for, in milliseconds."""

    stall_max_ms: float
    stall_p99_ms: float
    wall_max_ms: float
    wall_p99_ms: float
    looks: int


async def look() -> tuple[float, float]:
    """Milliseconds that a timer was late by the clock, and of these how many were a stall."""
    wall_s, cpu_s = time.perf_counter(), time.thread_time()
    await asyncio.sleep(LOOK_EVERY_S)
    late_s = max(0.0, time.perf_counter() - wall_s - LOOK_EVERY_S)
    return late_s * 1e3, min(late_s, time.thread_time() - cpu_s) * 1e3


class Meter:
    """Turns with the loop and notes the gaps."""

    def __init__(self) -> None:
        self._stalls: list[float] = []
        self._walls: list[float] = []

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            late_ms, stall_ms = await look()
            self._walls.append(late_ms)
            self._stalls.append(stall_ms)

    def take(self) -> Lag:
        """What was seen; the next answer begins anew."""
        stalls, walls = sorted(self._stalls), sorted(self._walls)
        self._stalls, self._walls = [], []
        return Lag(
            stall_max_ms=max(stalls, default=0.0),
            stall_p99_ms=percentile(stalls, 0.99) if stalls else 0.0,
            wall_max_ms=max(walls, default=0.0),
            wall_p99_ms=percentile(walls, 0.99) if walls else 0.0,
            looks=len(stalls),
        )


def rss_max_mb() -> float:
    """The most memory this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
