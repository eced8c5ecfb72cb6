"""How user code is called: coroutines on the loop, plain functions in threads.

Decides nothing about shards. It must not let a callback block the loop, nor let an error of one
out: an error comes back as text.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

# Code that catches a cancellation to clean up gets this long; then nobody waits for it any more.
CANCEL_TIMEOUT_S: Final = 1.0
THREAD_NAME: Final = "shard-callback"
THREAD_RETRY_S: Final = 0.5  # a process at the limit of its threads is not helped by haste


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it gives an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def is_being_ended() -> bool:
    """Whether somebody cancels the task that runs; if not, a CancelledError is user code's own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended, but not for ever: user code may refuse."""
    left = set(tasks)
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=CANCEL_TIMEOUT_S)
    if left:
        _log.error("tasks_left_behind tasks=%d", len(left))


async def called(function: Callable[P, Awaitable[T] | T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a callback, plain or async; raises what it raises."""
    if is_async(function):
        result = function(*args, **kwargs)
    else:
        result = await _in_thread(function, *args, **kwargs)
    if inspect.isawaitable(result):
        awaited: T = await result
        return awaited
    return result


async def error_of_call(
    function: Callable[P, Awaitable[object] | object], *args: P.args, **kwargs: P.kwargs
) -> str | None:
    """None when the callback went well, else what it raised, as text; logged with its trace."""
    try:
        await called(function, *args, **kwargs)
    except asyncio.CancelledError:
        if is_being_ended():
            raise
        return "CancelledError: the callback cancelled itself"
    except Exception as error:  # noqa: BLE001 - whatever user code raises is its outcome
        _log.exception("callback_failed callback=%s", getattr(function, "__name__", function))
        return f"{type(error).__name__}: {error}"
    return None


def _started(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError as error:  # the system has no more threads for us
        _log.error("callback_waits_for_a_thread error=%s", error)
        return False
    return True


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a plain function.

    A thread of its own, and a daemon: a callback that never ends must neither use up a pool that
    others need nor keep the process alive.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((result, error))

    def run() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - carried over to the loop
            failure = error
        try:
            loop.call_soon_threadsafe(deliver, result, failure)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            _log.debug("callback_outlived_loop callback=%r", function)

    # What was not called has neither failed nor ended.
    while not _started(  # noqa: ASYNC110 - nothing tells when one is free
        threading.Thread(target=run, name=THREAD_NAME, daemon=True)
    ):
        await asyncio.sleep(THREAD_RETRY_S)
    result, failure = await ended
    if isinstance(failure, Exception):
        raise failure
    if failure is not None:  # SystemExit and the like end a thread, not the process
        raise RuntimeError(f"{type(failure).__name__} in a callback: {failure}")
    return result  # type: ignore[return-value] # None only when T admits it
