"""The pulse of a node's process: how late its loop is, and food for the watchdog.

Decides when the watchdog is fed: only while the loop turns *and* consensus steps. A node whose
consensus has stopped looks alive from outside and is not. It must not depend on other nodes, or a
partition would have every node restarted.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from coordinator.consensus import Status
from coordinator.meters import Meters
from coordinator.notify import Notifier

BEAT_S: Final = 0.1
"""How often the loop is looked at; five times as often as an election needs."""

STATUS_EVERY_S: Final = 1.0
"""How often people are told at most who leads."""

FEEDS_A_WATCH: Final = 3
"""The watchdog is fed so many times within its time, so that one late word ends nothing."""


class Pulse:
    """Beats from `start` to `stop`."""

    def __init__(
        self, meters: Meters, notifier: Notifier, status: Callable[[], Status], name: str
    ) -> None:
        self._meters = meters
        self._notifier = notifier
        self._status = status
        self._name = name
        self._told = ""
        self._told_at = self._fed_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the loop must be running."""
        self._task = asyncio.get_running_loop().create_task(self._beat_forever(), name="pulse")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _beat_forever(self) -> None:
        monotonic = self._meters.monotonic
        while True:
            due = monotonic() + BEAT_S
            await asyncio.sleep(BEAT_S)
            now = monotonic()
            self._meters.loop_lag.observe(max(0.0, now - due))
            if self._notifier.is_heard:
                self.tell(now)

    def tell(self, now: float) -> None:
        """Say what is due: that it lives, and who leads."""
        status = self._status()
        watchdog_s = self._notifier.watchdog_s
        if (
            watchdog_s is not None
            and now - self._fed_at >= watchdog_s / FEEDS_A_WATCH - BEAT_S
            and status.stepped_age_s < watchdog_s / FEEDS_A_WATCH
        ):
            self._notifier.alive()
            self._fed_at = now
        if now - self._told_at >= STATUS_EVERY_S:
            line = describe(self._name, status)
            if line != self._told:
                self._notifier.status(line)
                self._told, self._told_at = line, now


def describe(name: str, status: Status) -> str:
    """A node in one line."""
    others = f"{sum(peer.connected for peer in status.peers)} of {len(status.peers)} peers"
    leader = "no leader known" if status.leader is None else f"leader {status.leader}"
    fault = "" if status.disk_fault is None else f"; disk: {status.disk_fault}"
    return f"{name}: {status.role}, {leader}, term {status.term}, {others} connected{fault}"
