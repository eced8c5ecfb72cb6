"""How often the same event is written: enough to see it, never so often that a disk fills with it.

An event is told by its template, so what is in its fields makes it no new one. What is left out is
counted, and told when its time is over. Bounded: templates that come from code are few, and of
sentences that differ each time only so many are remembered.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 10.0
LINES_MAX: Final = 100
"""Of one event in one window: ten a second, 100 MB a day at most."""

KNOWN_MAX: Final = 1024
"""Events that are remembered; more are made by foreign sentences alone, and the oldest go first."""

COUNTED: Final = ("debug", "info", "warning", "error", "critical", "left_out")
"""There from the start: of a series that begins at one nobody sees the first."""


@dataclass(slots=True)
class _Window:
    """One event's last window."""

    ends_at: float
    written: int = 0
    left_out: int = 0


class Repeats(logging.Filter):
    """Lets each event through so often; counts what it sees by level."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._windows: dict[tuple[str, int, str], _Window] = {}
        self.lines: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
        """Written, by level; and `left_out`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this one is written."""
        now = self._monotonic()
        key = (record.name, record.levelno, str(record.msg)[:200])
        window = self._windows.get(key)
        if window is None or window.ends_at <= now:
            left_out = 0 if window is None else window.left_out
            window = self._begin(key, now)
            if left_out:
                _tell(record, left_out)
        if window.written >= LINES_MAX:
            window.left_out += 1
            self.lines["left_out"] += 1
            return False
        window.written += 1
        self.lines[record.levelname.lower()] += 1
        return True

    def _begin(self, key: tuple[str, int, str], now: float) -> _Window:
        self._windows.pop(key, None)
        while len(self._windows) >= KNOWN_MAX:
            del self._windows[next(iter(self._windows))]
        window = self._windows[key] = _Window(now + WINDOW_S)
        return window


def _tell(record: logging.LogRecord, left_out: int) -> None:
    """Say with the first line of a window what was left out of the last one."""
    if record.args and not isinstance(record.args, tuple):
        return  # arguments by name, which only libraries use
    template = str(record.msg) if record.args else str(record.msg).replace("%", "%%")
    record.msg = f"{template} left_out=%d"
    record.args = (*(record.args or ()), left_out)
