"""Signs that a process is at its limit, which no limit can hide: they go with each heartbeat.

Decides what is measured and over which time. CPU is a figure for people; how late the loop is and
how much waits are what tells a full process from a busy one, since CPU stops rising at its cap.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from client.protocol import ProcessSignals

BacklogCallback = Callable[[], float]

_log: Final = logging.getLogger(__name__)


class Signals:
    """CPU, lag of the loop and backlog since the last acknowledged report."""

    def __init__(
        self,
        clock: Callable[[], float],
        backlog: BacklogCallback | None = None,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock: Final = clock
        self._backlog: Final = backlog
        self._cpu_clock: Final = cpu_clock
        self._cpu_s = cpu_clock()
        self._since = clock()
        self._lag_s = 0.0

    def observe_lag(self, lag_s: float) -> None:
        """A timer came this late."""
        self._lag_s = max(self._lag_s, lag_s)

    def read(self, now: float) -> ProcessSignals:
        """The figures since the last acknowledged report."""
        window_s = now - self._since
        used_s = max(0.0, self._cpu_clock() - self._cpu_s)
        backlog = self._asked()
        return ProcessSignals(
            cpu_cores=used_s / window_s if window_s > 0.0 else UNSET,
            event_loop_lag_s=self._lag_s,
            backlog=UNSET if backlog is None else backlog,
        )

    def acknowledge(self) -> None:
        """The report has arrived: a new window begins."""
        self._cpu_s, self._since, self._lag_s = self._cpu_clock(), self._clock(), 0.0

    def _asked(self) -> float | None:
        """What user code says waits; whatever it raises costs this figure, not a heartbeat."""
        if self._backlog is None:
            return None
        try:
            waiting = float(self._backlog())
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - see above
            _log.exception("backlog_failed")
            return None
        return waiting if math.isfinite(waiting) and waiting >= 0.0 else None
