"""What both systems are asked to do, and how the leader's process times it.

Decides the work and the clock. Each system brings one `write(value, done)`.
"""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Final

from bench.rows import percentile

IN_FLIGHT: Final = 2_000
"""Writes that wait at once when throughput is measured."""
LATENCY_S: Final = 2.0
LATENCY_WRITES_MAX: Final = 500
"""Enough for a median; the slow peer does about 20 in its time."""
WARM_UP_S: Final = 0.5
THROUGHPUT_S: Final = 3.0
"""The peer confirms bursts of 2,000 a few times a second: a shorter window would count by luck."""
WRITE_TIMEOUT_S: Final = 10.0
LEADER_S: Final = 20.0
"""An election takes about a second; on a busy machine several."""

VALUE: Final = {"owner": "executor-17", "epoch": 1_829_347_823_616}
"""What is written: about the size of one assignment."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one system."""

    latency_p50_ms: float
    latency_p99_ms: float
    latency_writes: int
    writes_per_s: float
    writes: int


class Counter:
    """Counts writes that were confirmed within the window that is measured."""

    def __init__(self, now: float) -> None:
        self.begin = now + WARM_UP_S
        self.end = self.begin + THROUGHPUT_S
        self.writes = 0

    def confirm(self, now: float) -> bool:
        """Count one; whether another is wanted."""
        if self.begin <= now < self.end:
            self.writes += 1
        return now < self.end


def latencies_of(write: Callable[[int], None]) -> list[float]:
    """Ascending latencies of writes one after the other, in seconds."""
    for number in range(3):
        write(number)
    found: list[float] = []
    end = time.perf_counter() + LATENCY_S
    while time.perf_counter() < end and len(found) < LATENCY_WRITES_MAX:
        start = time.perf_counter()
        write(len(found))
        found.append(time.perf_counter() - start)
    return sorted(found)


async def async_latencies_of(write: Callable[[int], Awaitable[None]]) -> list[float]:
    """The same where a write is awaited."""
    for number in range(3):
        await write(number)
    found: list[float] = []
    end = time.perf_counter() + LATENCY_S
    while time.perf_counter() < end and len(found) < LATENCY_WRITES_MAX:
        start = time.perf_counter()
        await write(len(found))
        found.append(time.perf_counter() - start)
    return sorted(found)


def measured(latencies: list[float], counter: Counter) -> Measured:
    """The round as a record."""
    return Measured(
        latency_p50_ms=percentile(latencies, 0.5) * 1e3,
        latency_p99_ms=percentile(latencies, 0.99) * 1e3,
        latency_writes=len(latencies),
        writes_per_s=counter.writes / THROUGHPUT_S,
        writes=counter.writes,
    )


def report(found: Measured) -> None:
    """Tell the parent, as one line."""
    print(json.dumps(asdict(found)), flush=True)


def report_failure(why: BaseException) -> None:
    """Tell the parent that this round came to nothing."""
    print(json.dumps({"failed": f"{type(why).__name__}: {why}"}), flush=True)
