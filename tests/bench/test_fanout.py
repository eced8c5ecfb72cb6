"""Waiting routers are all counted, told again, and found elsewhere when their node is gone."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.fanout.__main__ import ROUTERS, Change, bars_of, rows_of
from bench.fanout.routers import Fleet, Watch, connect
from bench.rows import missed

WAIT_S = 20.0


def changes(last_s, size):
    return [Change(last_s=last_s, first_s=0.01, bytes_per_router=size, cpu_s=0.1)] * 3


def test_a_slow_last_router_and_a_change_that_grows_with_the_shards_are_missed():
    good = rows_of(ROUTERS, changes(0.4, 460), changes(0.4, 463), 2.0)
    assert missed(good, bars_of(ROUTERS)) == []
    slow = rows_of(ROUTERS, changes(0.4, 460), changes(0.6, 463), 2.0)
    assert [one.split(":")[0] for one in missed(slow, bars_of(ROUTERS))] == ["last_router_knows"]
    large = rows_of(ROUTERS, changes(0.4, 460), changes(0.4, 900), 2.0)
    assert [one.split(":")[0] for one in missed(large, bars_of(ROUTERS))] == ["bytes_per_change"]


def test_the_time_is_judged_only_for_as_many_routers_as_it_is_promised_for():
    few = rows_of(10, changes(9.0, 460), changes(9.0, 460), 2.0)
    assert missed(few, bars_of(10)) == []


@pytest.fixture
async def node():
    revision, changed = [1], asyncio.Event()

    async def routing(request):
        if request.query["after"] == f"c:{revision[0]}":
            await changed.wait()
        return web.json_response({"kind": "delta", "cursor": f"c:{revision[0]}"}, dumps=_compact)

    def change():
        nonlocal changed
        revision[0] += 1
        former, changed = changed, asyncio.Event()
        former.set()

    app = web.Application()
    app.router.add_get("/routing", routing)
    server = TestServer(app)
    await server.start_server()
    yield str(server.make_url("")), change
    changed.set()
    await server.close()


def _compact(told):
    return "{" + ",".join(f'"{key}":"{value}"' for key, value in told.items()) + "}"


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def all_told(fleet, revision):
    await until(lambda: revision in fleet.seen and fleet.seen[revision].routers == 5)
    await until(lambda: fleet.waiting == 5)


async def test_every_router_is_told_of_each_change_once_and_waits_again(node):
    url, change = node
    fleet = Fleet(Watch([url], "/routing", "c:1", routers=5))
    await asyncio.gather(*[connect(fleet, number, "c:1") for number in range(5)])
    await until(lambda: fleet.waiting == 5)
    for revision in (2, 3):
        change()
        await all_told(fleet, revision)
        assert fleet.seen[revision].last_at >= fleet.seen[revision].first_at
        assert fleet.seen[revision].bytes > 5 * 100
    assert (fleet.refused, fleet.reconnects) == (0, 0)


async def test_a_router_of_a_node_that_is_gone_asks_the_next_one(node):
    url, change = node
    fleet = Fleet(Watch(["http://127.0.0.1:9", url], "/routing", "c:1", routers=1))
    await connect(fleet, 0, "c:1")
    await until(lambda: fleet.waiting == 1)
    change()
    await until(lambda: 2 in fleet.seen)
