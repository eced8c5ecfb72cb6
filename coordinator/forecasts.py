"""Long calculations beside the loop: what a plan would be, now or on a fleet that is not there.

Decides how they are kept from holding anything up: the picture is taken in slices on the loop, the
rest is done on that picture alone by a thread, one calculation at a time, and none that is larger
than a bound. It must not know what is calculated.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from coordinator.clock import Clock
from coordinator.core.controller import Mind
from coordinator.core.controller.balance import SLICE_WORK
from coordinator.core.controller.picture import Picture, taking_picture
from coordinator.core.namespace import NamespaceState

T = TypeVar("T")

WORK_MAX: Final = 1_000_000
"""Shards times fleets of one calculation: some ten seconds of a thread beside a busy loop."""


class BusyError(Exception):
    """Another calculation is under way on this node."""


class Forecasts:
    """One node's calculations."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: asyncio.Future[Any] | None = None

    async def picture(self, namespace: NamespaceState, mind: Mind) -> Picture:
        """The namespace as a pass would see it now; the loop turns meanwhile."""
        slices = taking_picture(namespace, mind, self._clock.monotonic())
        done = 0
        while True:
            try:
                done += next(slices)
            except StopIteration as end:
                picture: Picture = end.value
                return picture
            if done >= SLICE_WORK:
                done = 0
                await asyncio.sleep(0)

    async def beside(self, work: Callable[[], T]) -> T:
        """The result of work that touches nothing of the loop's; BusyError while there is some.

        It goes on when whoever asked is gone, and so does the refusal of others.
        """
        if self._running is not None and not self._running.done():
            raise BusyError
        running = asyncio.get_running_loop().run_in_executor(None, work)
        self._running = running
        return await asyncio.shield(running)
