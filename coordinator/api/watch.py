"""Long polls: bounded in number, spread in time, released at a stop.

Decides who may wait and how long. It must not know what is waited for.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from coordinator.api.cursor import Cursor
from coordinator.api.problems import Refusal
from coordinator.watches import Topic, Watch, Watches

CATCH_UP_S: Final = 1.0
"""How long a reader that is ahead of this node waits for it to catch up."""
JITTER: Final = 1 / 16
"""Waits end up to this share early, so that a thousand readers do not come back at once."""


class Poll:
    """A long poll that waits in no task."""

    __slots__ = ("_leave", "_watch")

    def __init__(self, watch: Watch, leave: Callable[[], None]) -> None:
        self._watch = watch
        self._leave: Callable[[], None] | None = leave

    def forget(self) -> None:
        """Nobody waits any more: its seat is free."""
        leave, self._leave = self._leave, None
        if leave is not None:
            self._watch.end()
            leave()


class Polls:
    """The long polls that are open on this node."""

    def __init__(self, watches: Watches, waiters_max: int, rng: random.Random) -> None:
        self._watches = watches
        self._waiters_max = waiters_max
        self._rng = rng
        self.count = 0
        """How many wait now."""

    async def changed(self, topic: Topic, seen: int, wait_s: float) -> bool:
        """Whether the topic moved past `seen` before the wait, less its jitter, was over.

        Refuses when too many wait, and when the node stops.
        """
        with self.seat():
            moved = await self._watches.wait(topic, seen, self._jittered_s(wait_s))
            if not moved and self._watches.is_closed:
                raise Refusal("shutting_down", "the node is stopping; ask another one")
            return moved

    def begin(self, topic: Topic, seen: int, wait_s: float, told: Callable[[bool], None]) -> Poll:
        """The same for whoever waits in no task.

        `told` whether there is anything to look at: that it moved, or that the node stops.
        """
        self._take_seat()
        watch = self._watches.begin(topic, seen, self._jittered_s(wait_s))
        poll = Poll(watch, self._leave_seat)

        def tell(moved: asyncio.Future[bool]) -> None:
            if not moved.cancelled():
                poll.forget()
                told(moved.result() or self._watches.is_closed)

        watch.moved.add_done_callback(tell)
        return poll

    def _jittered_s(self, wait_s: float) -> float:
        return wait_s * (1 - JITTER * self._rng.random())

    async def caught_up(self, namespace: str, cursor: Cursor) -> bool:
        """Whether this node got to a cursor that it was behind of within `CATCH_UP_S`."""
        with self.seat():
            return await self._watches.wait((namespace, None), cursor.revision - 1, CATCH_UP_S)

    def release(self) -> None:
        """End every wait now and let nobody wait any more."""
        self._watches.close()

    @contextmanager
    def seat(self) -> Iterator[None]:
        """One place among those who wait; refused when there is none, or the node stops."""
        self._take_seat()
        try:
            yield
        finally:
            self._leave_seat()

    def _take_seat(self) -> None:
        if self._watches.is_closed:
            raise Refusal("shutting_down", "the node is stopping; ask another one")
        if self.count >= self._waiters_max:
            raise Refusal("too_many_waiters", f"{self.count} long polls are open on this node")
        self.count += 1

    def _leave_seat(self) -> None:
        self.count -= 1
