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

    async def wait(self, topic: Topic, seen: int, timeout_s: float) -> bool:
        """Wait until the topic's revision exceeds `seen`; False at the timeout or at a stop.

        The caller has looked at the present state without an `await` since.
        """
        if self._closed or timeout_s <= 0:
            return False
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        waiting = self._waiting.setdefault(topic, {})
        waiting[future] = seen
        self.count += 1
        timer = loop.call_later(timeout_s, _resolve, future)
        try:
            return await future
        finally:
            timer.cancel()
            self.count -= 1
            waiting.pop(future, None)
            if not waiting and self._waiting.get(topic) is waiting:
                del self._waiting[topic]

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
