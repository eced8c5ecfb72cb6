"""How user code is called, and what comes back of it."""

import asyncio
import functools
import threading

import pytest

from client import callbacks
from client.callbacks import called, error_of_call


async def test_coroutines_run_on_the_loop_and_plain_functions_in_threads():
    async def on_loop():
        return threading.current_thread()

    assert await called(on_loop) is threading.current_thread()
    assert await called(threading.current_thread) is not threading.current_thread()


async def test_every_kind_of_callable_is_understood():
    class Called:
        async def __call__(self, word):
            return f"{word} {threading.current_thread() is threading.main_thread()}"

    async def told(word, number):
        return f"{word} {number}"

    assert await called(Called(), "object") == "object True"
    assert await called(functools.partial(told, number=1), "partial") == "partial 1"
    assert await called(lambda word: told(word, 2), "lambda") == "lambda 2"
    assert await called(lambda: "plain") == "plain"


async def test_threads_are_daemons_so_that_a_hung_callback_cannot_keep_the_process():
    assert await called(lambda: threading.current_thread().daemon)


async def test_what_a_callback_raises_comes_back_as_text():
    async def awry():
        raise OSError("disk")

    def plain():
        raise OSError("disk")

    assert await error_of_call(awry) == "OSError: disk"
    assert await error_of_call(plain) == "OSError: disk"
    assert await error_of_call(lambda: None) is None


async def test_an_exit_in_a_thread_ends_the_callback_and_not_the_process():
    def leave():
        raise SystemExit(3)

    assert "SystemExit" in await error_of_call(leave)


async def test_a_callback_that_cancels_itself_has_failed():
    async def give_up():
        raise asyncio.CancelledError

    assert "cancelled itself" in await error_of_call(give_up)


async def test_a_task_that_is_cancelled_stays_cancelled():
    task = asyncio.create_task(error_of_call(asyncio.sleep, 10))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_thread_that_ends_after_its_caller_was_cancelled_harms_nobody():
    release = threading.Event()
    task = asyncio.create_task(called(release.wait, 5))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    await asyncio.sleep(0.05)


def test_a_thread_that_outlives_its_loop_harms_nobody():
    release = threading.Event()

    async def leave_early():
        waiting = asyncio.create_task(called(release.wait, 5))
        await asyncio.sleep(0.02)
        waiting.cancel()

    asyncio.run(leave_early())
    thread = next(t for t in threading.enumerate() if t.name == "shard-callback")
    release.set()
    thread.join(5)
    assert not thread.is_alive()


async def test_context_variables_reach_a_thread():
    import contextvars

    word = contextvars.ContextVar("word", default="")
    word.set("told")
    assert await called(word.get) == "told"


async def test_a_callback_for_which_there_is_no_thread_waits_for_one(monkeypatch):
    tries = []
    start = threading.Thread.start

    def scarce(thread):
        if thread.name == "shard-callback":
            tries.append(thread)
            if len(tries) < 3:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    monkeypatch.setattr(callbacks, "THREAD_RETRY_S", 0.01)
    done = []
    # Were it an error, a stop that never began would count as a shard that was released.
    assert await error_of_call(done.append, "x") is None
    assert (done, len(tries)) == (["x"], 3)
