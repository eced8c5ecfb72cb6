"""Code as users write it against the kit; `test_typing.py` has it checked by mypy, strict.

It is never run: each function uses what is public as a program would, and states the types that
come out.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import assert_type

import client
from client import (
    Executor,
    IncarnationClosed,
    LeaseState,
    LoadRecorder,
    Misdirected,
    Operator,
    Owner,
    Router,
    Shard,
    ShardParked,
    Switchboard,
    blocking,
    shard_for,
)
from client.fencing import SqlFence, Token
from client.outlooks import BalanceView
from client.testing import FrozenRouter, LocalCluster, LoneShard, freeze
from client.views import DrainView, EventsPage, ExecutorView, NamespaceView, ShardView

ENDPOINTS = ["http://127.0.0.1:7070"]


async def on_start(shard: Shard) -> None:
    assert_type(shard.epoch, int)
    assert_type(shard.may_act(), bool)
    assert_type(Token.of(shard).epoch, int)
    shard.add_load(2)
    shard.set_load(0.5)


def on_stop(shard: Shard) -> None:
    assert_type(shard.key, str)


def on_lease(state: LeaseState) -> None:
    assert_type(state is LeaseState.LOST, bool)


async def executes(recorder: LoadRecorder) -> None:
    async with Executor(
        ENDPOINTS,
        namespace="jobs",
        name="jobs-1",
        on_start=on_start,
        on_stop=on_stop,
        on_prepare=on_start,
        on_lease=on_lease,
        recorder=recorder,
        backlog=lambda: 3,
        labels={"zone": "a"},
    ) as executor:
        assert_type(executor, Executor)
        assert_type(executor.running(), dict[str, int])
        assert_type(executor.owned("orders"), Shard | None)
        assert_type(executor.lease_state, LeaseState)
        with recorder.busy("orders", "jobs"):
            await asyncio.sleep(0)
        await executor.leave(back_within_s=20)


async def executes_by_decorator() -> None:
    executor = Executor(ENDPOINTS, namespace="jobs", name="jobs-1")

    @executor.shard
    async def run(shard: Shard) -> AsyncGenerator[None, None]:
        await on_start(shard)
        yield

    try:
        async with executor:
            await executor.run_until_signalled()
    except IncarnationClosed as closed:
        assert_type(closed.cause, str)


async def routes() -> None:
    async with Router(ENDPOINTS, namespace="jobs", fallback_fleet={"a": "a:80"}) as router:
        assert_type(router.owner("orders"), Owner | None)
        assert_type(await router.lookup("orders"), Owner)
        assert_type(await router.misdirected("orders", 7), Owner | None)
        assert_type(router.owners(), dict[str, Owner])
        assert_type(shard_for("customer-7", 64), str)


async def calls(executor: Executor, router: Router) -> int:
    async def here(shard: Shard) -> int:
        return shard.epoch

    async def there(owner: Owner) -> int:
        if not owner.address:
            raise Misdirected(owner.key)
        return owner.epoch

    switchboard = Switchboard(executor, router)
    match switchboard.find("orders"):
        case Shard() as shard:
            assert_type(shard, Shard)
        case Owner() as owner:
            assert_type(owner.moving_to, str | None)
        case None:
            pass
    return await switchboard.call("orders", here, there)


async def operates() -> None:
    async with Operator(ENDPOINTS, token="secret") as operator:
        assert_type(await operator.create_namespace("jobs"), NamespaceView)
        assert_type(await operator.executors("jobs"), list[ExecutorView])
        assert_type(await operator.drain_host("jobs", "h1", reason="kernel"), DrainView)
        assert_type(await operator.balance("jobs"), BalanceView)
        async for shard in operator.shards("jobs"):
            assert_type(shard, ShardView)
        try:
            await operator.move_shard("jobs", "orders", "e2", reason="why not")
        except ShardParked as parked:
            assert_type(parked.reason, str)
        except client.ShardCoordinatorError as error:
            assert_type(error.retry_after_s, float | None)


def blocks() -> None:
    with blocking.Router(ENDPOINTS, namespace="jobs") as router:
        router.ready(timeout_s=10)
        assert_type(router.owner("orders"), Owner | None)
        assert_type(router.lookup("orders"), Owner)
    with blocking.Operator(ENDPOINTS, token="secret") as operator:
        assert_type(operator.executors("jobs"), list[ExecutorView])
        assert_type(operator.balance("jobs"), BalanceView)
        assert_type(next(operator.shards("jobs", sort="load")), ShardView)
        assert_type(next(operator.watch_events("jobs")), EventsPage)
    executor = blocking.Executor(ENDPOINTS, namespace="jobs", name="jobs-1")

    @executor.shard
    def run(shard: Shard) -> Generator[None, None, None]:
        on_stop(shard)
        yield

    with executor:
        executor.run_until_signalled()


async def tests(shard_cluster: LocalCluster) -> None:
    assert_type(freeze({"orders": "e1"}), FrozenRouter)
    await on_start(LoneShard("orders"))
    async with shard_cluster.executor("e1", on_start=on_start, on_stop=on_stop) as executor:
        assert_type(executor, Executor)
        assert_type(shard_cluster.owners(), dict[str, str])
        await shard_cluster.expire("e1")


def fences(shard: Shard) -> None:
    fence = SqlFence("pyformat")
    assert_type(fence.schema, str)
    assert_type(shard.lease_left_s, float)
