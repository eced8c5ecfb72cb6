"""Starting and stopping a shard written as one function: an async generator that yields once.

Decides when such a generator is driven on, and what its errors mean. It must not know leases or
the coordinator. Each runs in a task of its own, so that what it holds open over its `yield` (task
groups, timeouts) is entered and left in the same task.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Final

from client.callbacks import called
from client.keeper import ShardCallback, ShardCallbacks
from client.shard import Shard

ShardBody = Callable[[Shard], AsyncGenerator[None, None] | Generator[None, None, None]]

_ENDED: Final = object()

_log: Final = logging.getLogger(__name__)


class ShardBodies:
    """The bodies of the shards of one executor."""

    def __init__(self, on_start: ShardCallback | None, on_stop: ShardCallback | None) -> None:
        """Where both callbacks are given there are no bodies, only them."""
        if (on_start is None) != (on_stop is None):
            raise ValueError("give both `on_start` and `on_stop`, or a function to `shard`")
        self._given: Final = (on_start, on_stop)
        self._function: ShardBody | None = None
        self._running: dict[str, _Running] = {}

    def callbacks(self, on_prepare: ShardCallback | None) -> ShardCallbacks:
        """What is to be called for each shard."""
        on_start, on_stop = self._given
        return ShardCallbacks(on_start or self.start, on_stop or self.stop, on_prepare)

    def use(self, function: ShardBody) -> None:
        """Run this for each shard; raises TypeError unless it is a generator function."""
        if self._given != (None, None):
            raise RuntimeError("this executor has `on_start` and `on_stop`")
        if not inspect.isasyncgenfunction(function) and not inspect.isgeneratorfunction(function):
            raise TypeError(f"{function!r} is no generator: start, `yield`, stop")
        self._function = function

    def require(self) -> None:
        """Raise unless somebody has said what is to be done with shards."""
        if self._function is None and self._given == (None, None):
            raise RuntimeError("what does a shard do? Give `on_start` and `on_stop`, or `shard`")

    async def start(self, shard: Shard) -> None:
        """Drive a body to its `yield`; raises what it raises before."""
        self.require()
        function: Any = self._function
        life = function(shard)
        running = _Running(_in_threads(life) if isinstance(life, Generator) else life, shard)
        await running.start()
        self._running[shard.key] = running

    async def stop(self, shard: Shard) -> None:
        """Drive a body from its `yield` to its end; raises what it raises there, or did before."""
        running = self._running.pop(shard.key, None)
        if running is not None:  # None: it was only ever prepared
            await running.stop()


async def _in_threads(life: Generator[None, None, None]) -> AsyncGenerator[None, None]:
    while await called(_goes_on, life):
        yield


def _goes_on(life: Generator[None, None, None]) -> bool:
    return next(life, _ENDED) is not _ENDED


class _Running:
    """One body, in its own task."""

    def __init__(self, life: AsyncGenerator[None, None], shard: Shard) -> None:
        self._life: Final = life
        self._shard: Final = shard
        self._has_started: Final = asyncio.Event()
        self._may_stop: Final = asyncio.Event()
        self._task: Final = asyncio.create_task(self._live())

    async def start(self) -> None:
        has_started = asyncio.create_task(self._has_started.wait())
        try:
            await asyncio.wait({has_started, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            has_started.cancel()
            if not self._has_started.is_set():
                self._task.cancel()  # a start that is given up; one that failed has ended
        if not self._has_started.is_set():
            await self._task
            raise RuntimeError("the function for shards ended without a `yield`")

    async def stop(self) -> None:
        self._may_stop.set()
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._task.cancel()
            raise

    async def _live(self) -> None:
        try:
            await anext(self._life)
        except StopAsyncIteration:
            return
        self._has_started.set()
        try:
            await self._may_stop.wait()
        except asyncio.CancelledError as error:
            # By a task group that it holds open, one of whose tasks failed: it is told there.
            try:
                with contextlib.suppress(StopAsyncIteration):
                    await self._life.athrow(error)
            except Exception:
                _log.exception("shard_body_failed shard=%s", self._shard.key)
                raise
            return
        try:
            await anext(self._life)
        except StopAsyncIteration:
            return
        await self._life.aclose()
        raise RuntimeError("the function for shards yields more than once")
