"""Time that passes only when there is nothing left to do at the present moment.

Takes over the clock of an event loop: as long as anything is ready to run no time passes, and then
it jumps to the next timer. Waiting for an hour costs what happens in that hour. It must not know
what runs on the loop.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from client.callbacks import THREAD_NAME

# A thread that has not ended for so long, by the wall, waits for something that time must bring.
THREAD_PATIENCE_S: Final = 0.5
# What was written to a socket of this machine can be read by then.
SOCKET_PATIENCE_S: Final = 0.001
_OWN_SOCKETS: Final = 1  # by which a loop is woken from other threads


class TimeLimitReached(RuntimeError):  # noqa: N818 - it says what happened
    """So much time has passed that a test waits for something that will not come."""


class VirtualTime:
    """The time of one event loop, from `take` to `give_back`. It never goes back.

    `limit_s` bounds it: a test that waits for what never comes would go on for ever, as its
    heartbeats do.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        if not hasattr(loop, "_selector"):
            raise RuntimeError(
                f"the clock of a {type(loop).__name__} cannot be taken over: run tests on"
                " asyncio's own event loop"
            )
        self._loop: Final[Any] = loop
        self._now_s = loop.time()
        self._ends_at = self._now_s + limit_s
        self._selector: Final[selectors.BaseSelector] = self._loop._selector  # noqa: SLF001
        self._in_executor: Final = loop.run_in_executor
        self._pending = 0  # calls in the threads of the loop's executor
        self._busy_threads = 0
        self._users = 1
        self._is_given_back = False
        self._changed_at = 0.0  # by the wall: when a thread last began, ended or said something

    def now(self) -> float:
        """The present moment, from any thread."""
        return self._now_s

    @classmethod
    def shared(cls, loop: asyncio.AbstractEventLoop, limit_s: float) -> "VirtualTime":
        """The virtual time of this loop: begun, or the one that others have begun already."""
        selector = getattr(loop, "_selector", None)
        if isinstance(selector, _Selecting):
            selector.owner.extend(limit_s)
            return selector.owner
        one = cls(loop, limit_s)
        one.take()
        return one

    def extend(self, limit_s: float) -> None:
        """One more uses it, for so long at least; it is given back when nobody does any more."""
        self._users += 1
        self._ends_at = max(self._ends_at, self._now_s + limit_s)

    def take(self) -> None:
        """From here on time is virtual."""
        self._loop.time = self.now
        self._loop._selector = _Selecting(self)  # noqa: SLF001
        self._loop.run_in_executor = self._run_in_executor
        # The last thing before a loop is closed; its threads end in their own time.
        self._loop.shutdown_default_executor = self._shut_down

    def give_back(self) -> bool:
        """From here on time passes by itself again, on from where it is; unless others use it."""
        self._users -= 1
        if self._users > 0:
            return False
        if self._is_given_back:
            return True
        self._is_given_back = True
        ahead_s = self._now_s - time.monotonic()
        self._loop.time = lambda: time.monotonic() + ahead_s
        self._loop._selector = self._selector  # noqa: SLF001
        del self._loop.run_in_executor, self._loop.shutdown_default_executor
        return True

    def skip(self, seconds: float) -> None:
        """Time passes in which this process stands still: what is due then comes late."""
        self._now_s += seconds

    def select(self, timeout_s: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """What came in from outside; if nothing did, it is now the time of the next timer."""
        events = self._selector.select(0)
        if not events and (timeout_s is None or timeout_s > 0.0):
            events = self._selector.select(None if timeout_s is None else self._patience_s())
            if not events and timeout_s is not None:
                self._now_s += timeout_s
                if self._now_s > self._ends_at:
                    self._ends_at = float("inf")  # said once: the loop may have to clean up
                    raise TimeLimitReached("the test's time is over: something never came")
        if events:
            self._changed_at = time.monotonic()
        return events

    def _patience_s(self) -> float:
        """For how long something may still come from outside of the loop, by the wall."""
        busy = self._pending + sum(one.name == THREAD_NAME for one in threading.enumerate())
        now = time.monotonic()
        if busy != self._busy_threads:
            self._busy_threads, self._changed_at = busy, now
        if busy and (left_s := self._changed_at + THREAD_PATIENCE_S - now) > 0.0:
            return left_s
        return SOCKET_PATIENCE_S if len(self._selector.get_map() or ()) > _OWN_SOCKETS else 0.0

    def _run_in_executor(
        self, executor: Any, function: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._in_executor(executor, function, *args)
        self._pending += 1
        future.add_done_callback(self._ended)
        return future

    async def _shut_down(self, *args: Any) -> None:
        self._users = 0
        self.give_back()
        await self._loop.shutdown_default_executor(*args)

    def _ended(self, _: asyncio.Future[Any]) -> None:
        self._pending -= 1


class _Selecting(selectors.BaseSelector):
    """What the loop asks for what is ready: the selector that it had, on virtual time."""

    def __init__(self, owner: VirtualTime) -> None:
        self.owner: Final = owner
        self._real: Final = owner._selector  # noqa: SLF001 - two halves of one thing

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self.owner.select(timeout)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
