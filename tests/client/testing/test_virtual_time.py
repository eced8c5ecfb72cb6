"""Time that the test owns: what takes none, what is waited for, and what it leaves behind."""

import asyncio
import threading
import time

import pytest

from client.callbacks import called
from client.testing.virtual_time import TimeLimitReached, VirtualTime


@pytest.fixture
def run():
    """Runs a coroutine function on a loop of its own, whose time is virtual."""

    def running(main, limit_s=1e6):
        async def inside():
            times = VirtualTime(asyncio.get_running_loop(), limit_s)
            times.take()
            try:
                return await main(times)
            finally:
                times.give_back()

        return asyncio.run(inside())

    return running


def test_an_hour_takes_no_time_and_passes_in_order(run):
    async def main(times):
        began_at, told = times.now(), []

        async def tell_after(seconds):
            await asyncio.sleep(seconds)
            told.append((seconds, round(times.now() - began_at, 6)))

        await asyncio.gather(*map(tell_after, (3600, 1, 60)))
        return told

    wall = time.monotonic()
    assert run(main) == [(1, 1.0), (60, 60.0), (3600, 3600.0)]
    assert time.monotonic() - wall < 5


def test_no_time_passes_while_anything_is_ready_to_run(run):
    async def main(times):
        began_at = times.now()
        timer = asyncio.create_task(asyncio.sleep(0.001))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not timer.done()
        assert times.now() == began_at

    run(main)


def test_a_timeout_counts_the_same_time(run):
    async def main(times):
        began_at = times.now()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        assert times.now() - began_at == pytest.approx(30)

    run(main)


@pytest.mark.parametrize("in_thread", [asyncio.to_thread, called], ids=["executor", "callback"])
def test_work_in_threads_is_waited_for_and_takes_no_time(run, in_thread):
    async def main(times):
        began_at = times.now()
        timer = asyncio.create_task(asyncio.sleep(0.01))
        await in_thread(time.sleep, 0.05)
        assert times.now() == began_at
        assert not timer.done()

    run(main)


def test_a_thread_that_waits_for_time_itself_gets_it(run):
    """Else a test of a stop that hangs would hang."""

    async def main(_times):
        may_end = threading.Event()
        hung = asyncio.create_task(called(may_end.wait, 30))
        await asyncio.sleep(3600)
        may_end.set()
        assert await hung

    wall = time.monotonic()
    run(main)
    assert time.monotonic() - wall < 10


def test_sockets_go_on_working(run):
    async def main(_times):
        async def echo(reader, writer):
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with asyncio.timeout(10):  # of virtual time, which must not outrun the bytes
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
        writer.close()
        server.close()

    run(main)


def test_a_test_that_waits_for_what_never_comes_is_told_so(run):
    async def main(_times):
        async def beat():
            while True:  # noqa: ASYNC110 - as heartbeats do
                await asyncio.sleep(1)

        beats = asyncio.create_task(beat())
        try:
            await asyncio.Event().wait()
        finally:
            beats.cancel()

    with pytest.raises(TimeLimitReached):
        run(main, limit_s=100)


def test_given_back_time_passes_by_itself_and_never_goes_back():
    async def main():
        loop = asyncio.get_running_loop()
        times = VirtualTime(loop, 1e6)
        times.take()
        await asyncio.sleep(1000)
        there = loop.time()
        times.give_back()
        times.give_back()
        assert loop.time() >= there
        wall = time.monotonic()
        await asyncio.sleep(0.02)
        assert time.monotonic() - wall >= 0.015
        await asyncio.to_thread(int)

    asyncio.run(main())


def test_a_loop_may_end_while_its_time_is_virtual():
    async def main():
        VirtualTime(asyncio.get_running_loop(), 1e6).take()
        await asyncio.to_thread(int)
        await asyncio.sleep(10)

    asyncio.run(main())


def test_a_loop_whose_clock_cannot_be_taken_says_so():
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        with pytest.raises(RuntimeError, match="asyncio's own event loop"):
            VirtualTime(loop, 1.0)
    finally:
        loop.close()
