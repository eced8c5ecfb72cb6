"""A shard as one function: when it is driven on, and where its errors show."""

import asyncio
import contextlib
import threading

import pytest

from client import Executor
from client.bodies import ShardBodies
from client.testing import LocalCluster, LoneShard


def bodies(function):
    one = ShardBodies(None, None)
    one.use(function)
    return one


def executor(cluster, name="e1", **options):
    return Executor(cluster.endpoints, namespace="test", name=name, **options)


async def test_what_is_before_the_yield_starts_a_shard_and_what_is_after_stops_it():
    told = []
    async with LocalCluster() as cluster:
        one = executor(cluster)

        @one.shard
        async def run(shard):
            told.append(("start", shard.key, shard.may_act()))
            yield
            told.append(("stop", shard.key, shard.may_act()))

        async with one:
            await cluster.declare("orders", "mail")
            assert sorted(told) == [("start", "mail", True), ("start", "orders", True)]
            told.clear()
            await cluster.operator().drain_shard("test", "mail", reason="test")
            await cluster.settle()
            assert told == [("stop", "mail", False)]
        assert told[1:] == [("stop", "orders", False)]


async def test_a_start_that_fails_is_told_like_that_of_any_callback():
    tries = []
    async with LocalCluster() as cluster:
        one = executor(cluster)

        @one.shard
        async def run(shard):
            tries.append(shard.epoch)
            if len(tries) == 1:
                raise OSError("the disk is not there yet")
            yield

        async with one:
            await cluster.declare("orders")
            await cluster.until(lambda: "orders" in one.running())
        assert len(tries) >= 2


async def test_a_task_group_may_stay_open_over_the_yield():
    worked = asyncio.Event()

    async def run(_shard):
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(worked.wait())
            yield
            work.cancel()

    one = bodies(run)
    await asyncio.create_task(one.start(LoneShard("orders")))
    await asyncio.create_task(one.stop(LoneShard("orders")))


async def test_work_that_fails_while_the_shard_runs_is_logged_at_once_and_told_at_its_stop(caplog):
    async def run(_shard):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(int, "no number"))
            yield
            await asyncio.sleep(10)

    one = bodies(run)
    await one.start(LoneShard("orders"))
    async with asyncio.timeout(5):
        while "shard_body_failed shard=orders" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    with pytest.raises(ExceptionGroup):
        await one.stop(LoneShard("orders"))


async def test_a_start_that_is_given_up_is_cancelled_inside():
    left = []

    async def run(_shard):
        try:
            await asyncio.Event().wait()
            yield
        finally:
            left.append("cleaned up")

    start = asyncio.create_task(bodies(run).start(LoneShard("orders")))
    await asyncio.sleep(0.01)
    start.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await start
    await asyncio.sleep(0.01)
    assert left == ["cleaned up"]


async def test_it_yields_once():
    async def never(_shard):
        if False:
            yield

    async def twice(_shard):
        yield
        yield

    with pytest.raises(RuntimeError, match="without a `yield`"):
        await bodies(never).start(LoneShard("orders"))
    one = bodies(twice)
    await one.start(LoneShard("orders"))
    with pytest.raises(RuntimeError, match="more than once"):
        await one.stop(LoneShard("orders"))


async def test_a_plain_generator_is_driven_on_in_threads():
    told = []

    def run(shard):
        told.append((shard.key, threading.current_thread() is threading.main_thread()))
        yield
        told.append(("stop", threading.current_thread() is threading.main_thread()))

    one = bodies(run)
    await one.start(LoneShard("orders"))
    assert told == [("orders", False)]
    await one.stop(LoneShard("orders"))
    assert told[1:] == [("stop", False)]


async def test_a_shard_that_was_only_prepared_has_nothing_to_stop():
    async def run(_shard):
        yield

    await bodies(run).stop(LoneShard("orders"))


async def test_what_a_shard_does_is_said_once():
    async def run(_shard):
        yield

    async def callback(_shard):
        pass

    async with LocalCluster() as cluster:
        with pytest.raises(ValueError, match="both"):
            executor(cluster, on_start=callback)
        with pytest.raises(RuntimeError, match="has `on_start`"):
            executor(cluster, on_start=callback, on_stop=callback).shard(run)
        with pytest.raises(TypeError, match="no generator"):
            executor(cluster).shard(callback)
        with pytest.raises(RuntimeError, match="what does a shard do"):
            async with executor(cluster):
                pass
