"""Long calculations beside the loop: what a plan would be, now or on a fleet that is not there.

Decides how they are kept from holding anything up: the picture is taken in slices on the loop, the
rest is done on that picture alone by a thread, one calculation at a time, and none that is larger
than a bound. It must not know what is calculated.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from coordinator.clock import Clock
from coordinator.core.controller import Mind
from coordinator.core.controller.balance import SLICE_WORK, why_held_up
from coordinator.core.controller.facts import BalanceFacts, gathering_facts
from coordinator.core.controller.picture import Picture, taking_picture
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Slices

T = TypeVar("T")

WORK_MAX: Final = 1_000_000
"""Shards times fleets of one calculation: some ten seconds of a thread beside a busy loop."""


SWITCH_S: Final = 0.0002
"""For so long a thread may go on when the loop wants the interpreter, instead of 5 ms: the loop
wants it back after each look at its sockets. Beside a what-if of 100,000 shards one turn in a
hundred came 27 ms late instead of 200 on a machine with five times as much to do as it could; the
switches cost the calculation a tenth."""

FRESH_S: Final = 2.0
"""Loads change with every heartbeat, a fleet's balance hardly in the interval between two."""

FEW: Final = 5_000
"""Of so many shards all is looked at in one turn of the loop, and always anew."""


class BusyError(Exception):
    """Another calculation is under way on this node."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found out about a namespace, or is being found out."""

    mark: tuple[int, int]
    """Whose mind it was, and at which revision."""
    at: float
    shards: int
    found: "asyncio.Future[BalanceFacts]"

    def is_fresh(self, mark: tuple[int, int], now: float) -> bool:
        """Whether it may be told again."""
        return self.shards > FEW and self.mark == mark and now - self.at < FRESH_S


class Forecasts:
    """One node's calculations."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: asyncio.Future[Any] | None = None
        self._facts: dict[str, _Known] = {}

    async def picture(self, namespace: NamespaceState, mind: Mind) -> Picture:
        """The namespace as a pass would see it now; the loop turns meanwhile."""
        return await in_turns(taking_picture(namespace, mind, self._clock.monotonic()))

    async def facts(self, namespace: NamespaceState, mind: Mind, at_ms: int) -> BalanceFacts:
        """How evenly the load lies; whoever asks while it is looked at waits for the same answer.

        What was found holds for a while if no order or move came since: with many shards it takes
        a second, and every open dashboard asks for it.
        """
        now = self._clock.monotonic()
        known = self._facts.get(namespace.info.name)
        mark = (id(mind), namespace.revision)
        if known is None or (known.found.done() and not known.is_fresh(mark, now)):
            found = asyncio.ensure_future(in_turns(gathering_facts(namespace, mind, now, at_ms)))
            self._facts = {name: one for name, one in self._facts.items() if not one.found.done()}
            known = _Known(mark, now, len(namespace.shards), found)
            self._facts[namespace.info.name] = known
        facts = await asyncio.shield(known.found)
        # An order that came meanwhile is not to be answered with what held before it.
        held_up = why_held_up(namespace, mind, now, at_ms)
        return replace(facts, skipped=held_up or (facts.skipped if facts.is_stale else ""))

    async def beside(self, work: Callable[[], T]) -> T:
        """The result of work that touches nothing of the loop's; BusyError while there is some.

        It goes on when whoever asked is gone, and so does the refusal of others.
        """
        if self._running is not None and not self._running.done():
            raise BusyError
        running = asyncio.get_running_loop().run_in_executor(None, _ceding, work)
        self._running = running
        return await asyncio.shield(running)


def _ceding(work: Callable[[], T]) -> T:
    """The result of work that gives the interpreter back to the loop at once when it is wanted."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        return work()
    finally:
        sys.setswitchinterval(usual_s)


async def in_turns(slices: Slices[T]) -> T:
    """The result of work in slices; the loop turns between them."""
    done = 0
    while True:
        try:
            done += next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
        if done >= SLICE_WORK:
            done = 0
            await asyncio.sleep(0)
