"""The two clocks, told apart: monotonic seconds decide, wall milliseconds are shown to people."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the shells get their time from; the core is handed it as an argument."""

    def monotonic(self) -> float:
        """Seconds on this process's own clock, which never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC; may be wrong, may jump, never decides ownership."""
        ...


class SystemClock:
    """The machine's clocks."""

    # Asked several times for each request: a function around it would cost as much again.
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000
