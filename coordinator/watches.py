"""Who waits for a change of what, and waking them once it is there.

It decides nothing about the change: a woken waiter looks for itself. Bounded by its callers, who
count waiters before they wait.
"""

import asyncio
from typing import Final

from coordinator.core.state import ClusterState

Topic = tuple[str, str | None]
"""A namespace, and one executor's set of it, its events, or None for any change."""

EVENTS: Final = "/events"
"""Stands where an executor's name does, none of which has a slash."""


class Watch:
    """One that waits. Whoever asked for it ends it."""

    __slots__ = ("_timer", "_topic", "_watches", "moved")

    def __init__(self, watches: "Watches", topic: Topic, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._watches = watches
        self._topic = topic
        self.moved: asyncio.Future[bool] = loop.create_future()
        """Whether the topic moved on; False at the timeout or at a stop."""
        self._timer = loop.call_later(timeout_s, _resolve, self.moved)

    def end(self) -> None:
        """Wait no more. What was not told by now is told no more."""
        self._timer.cancel()
        self.moved.cancel()
        self._watches.drop(self._topic, self.moved)


class Watches:
    """Futures by topic, woken after the state moved on."""

    def __init__(self) -> None:
        self._waiting: dict[Topic, dict[asyncio.Future[bool], int]] = {}
        self._closed = False
        self.count = 0
        """How many wait now."""

    @property
    def is_closed(self) -> bool:
        """Whether this node is stopping."""
        return self._closed

    def begin(self, topic: Topic, seen: int, timeout_s: float) -> Watch:
        """Wait, in no task, until the topic's revision exceeds `seen`.

        The caller has looked at the present state without an `await` since.
        """
        watch = Watch(self, topic, timeout_s)
        self._waiting.setdefault(topic, {})[watch.moved] = seen
        self.count += 1
        return watch

    def drop(self, topic: Topic, moved: asyncio.Future[bool]) -> None:
        """It waits no more."""
        waiting = self._waiting.get(topic)
        if waiting is None or waiting.pop(moved, None) is None:
            return
        self.count -= 1
        if not waiting:
            del self._waiting[topic]

    async def wait(self, topic: Topic, seen: int, timeout_s: float) -> bool:
        """The same for a task: whether it moved before the timeout, or a stop."""
        if self._closed or timeout_s <= 0:
            return False
        watch = self.begin(topic, seen, timeout_s)
        try:
            return await watch.moved
        finally:
            watch.end()

    def wake(self, state: ClusterState) -> None:
        """Wake everyone whose topic has moved past what they have seen."""
        for topic, waiting in list(self._waiting.items()):
            revision = _revision(state, topic)
            for future, seen in list(waiting.items()):
                # A vanished namespace wakes its waiters too: they answer that it is gone.
                if (revision is None or revision > seen) and not future.done():
                    future.set_result(True)

    def close(self) -> None:
        """Release everyone, and let nobody wait any more."""
        self._closed = True
        for waiting in self._waiting.values():
            for future in waiting:
                _resolve(future)


def _revision(state: ClusterState, topic: Topic) -> int | None:
    namespace = state.namespaces.get(topic[0])
    if namespace is None:
        return None
    if topic[1] is None:
        return namespace.revision
    if topic[1] == EVENTS:
        return namespace.events.last_revision
    return namespace.assignments_revision(topic[1])


def _resolve(future: "asyncio.Future[bool]") -> None:
    if not future.done():
        future.set_result(False)
