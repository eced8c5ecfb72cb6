"""Asks the user how loaded the shards are, apart from the heartbeats.

Decides when to ask. A `loads` that hangs or raises costs news, never a heartbeat.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from client.callbacks import called, is_being_ended
from client.shard import LOAD_MAX

LoadsCallback = Callable[[], Awaitable[Mapping[str, float]] | Mapping[str, float]]

_log: Final = logging.getLogger(__name__)


class LoadSampler:
    """Asks the user's `loads`; heartbeats take the newest answer."""

    def __init__(self, loads: LoadsCallback | None) -> None:
        self._loads: Final = loads
        self._newest: Mapping[str, float] = {}

    def take(self) -> Mapping[str, float] | None:
        """None when the handles measure; empty ("no news") without an answer since last time."""
        if self._loads is None:
            return None
        newest, self._newest = self._newest, {}
        return newest

    async def run(
        self, interval_s: Callable[[], float], observe_lease: Callable[[], object]
    ) -> None:
        """Ask twice per heartbeat, so that each has a fresh answer, until cancelled."""
        while self._loads is not None:
            observe_lease()  # user code hears of a lost lease before anything else
            try:
                found = await called(self._loads)
                self._newest = {k: float(v) for k, v in found.items() if 0.0 <= v <= LOAD_MAX}
            except (Exception, asyncio.CancelledError):  # whatever user code raises costs news only
                if is_being_ended():
                    raise
                _log.exception("loads_failed")
            await asyncio.sleep(interval_s() / 2)
