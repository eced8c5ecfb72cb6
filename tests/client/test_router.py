"""Routers against a real node, and against servers that answer as no node should."""

import asyncio

import pytest
from aiohttp import web

from client import NotFound, Router, ShardParked, TimedOut, Unavailable
from client.router import REFRESH_EVERY_S
from tests.client.conftest import free_port
from tests.client.fleet import Cuttable
from tests.client.scripted import ok, problem, serving
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


def router(cluster, namespace, **options):
    return Router(cluster.endpoints, namespace=namespace, **options)


async def test_the_table_follows_every_move(cluster, namespace, operator, diary):
    await operator.declare_shards(namespace, ["a", "b"])
    changes = []
    async with router(cluster, namespace, on_change=lambda: changes.append(1)) as routes:
        await routes.ready(timeout_s=5)
        assert routes.is_ready
        assert routes.owner("a") is None
        async with diary.executor(cluster.endpoints, namespace, "e1") as first:
            await until(lambda: len(routes) == 2)
            owner = routes.owner("a")
            assert (owner.executor, owner.address, owner.host) == ("e1", "e1:80", "host-e1")
            await until(lambda: owner.epoch == first.running().get("a"))
            async with diary.executor(cluster.endpoints, namespace, "e2"):
                await operator.move_shard(namespace, "a", "e2", reason="test")
                await until(lambda: routes.owner("a").executor == "e2")
                assert routes.owner("a").epoch > owner.epoch
                assert {o.executor for o in routes.owners().values()} == {"e1", "e2"}
        await until(lambda: len(routes) == 0)
        assert not routes.is_stale
        assert len(changes) >= 3


async def test_a_parked_shard_has_no_owner_and_says_so(cluster, namespace, operator, diary):
    await operator.declare_shards(namespace, ["a"])
    async with (
        router(cluster, namespace) as routes,
        diary.executor(cluster.endpoints, namespace, "e1"),
    ):
        await until(lambda: routes.owner("a"))
        await operator.drain_shard(namespace, "a", reason="poison")
        await until(lambda: routes.owner("a") is None and routes.is_parked("a"))
        with pytest.raises(ShardParked):
            await routes.lookup("a")
        await operator.undrain_shard(namespace, "a")
        await until(lambda: routes.owner("a"))


async def test_a_lookup_makes_the_shard_in_an_open_namespace(cluster, namespace, diary):
    async with (
        router(cluster, namespace) as routes,
        diary.executor(cluster.endpoints, namespace, "e1"),
    ):
        owners = await asyncio.gather(*(routes.lookup("new/1") for _ in range(5)))
        assert {owner.executor for owner in owners} == {"e1"}
        assert len({owner.epoch for owner in owners}) == 1
        await until(lambda: routes.owner("new/1") is not None)


async def test_a_lookup_without_executors_ends_with_its_deadline(cluster, namespace):
    async with router(cluster, namespace) as routes:
        with pytest.raises(Unavailable):
            await routes.lookup("new", timeout_s=1.5)


async def test_an_unknown_namespace_is_told_by_look_ups_and_by_waiting(cluster):
    async with router(cluster, "nowhere") as routes:
        with pytest.raises(NotFound):
            await routes.lookup("a")
        with pytest.raises(TimedOut, match="namespace_not_found"):
            await routes.ready(timeout_s=0.3)
        assert routes.is_stale


async def test_during_an_outage_the_last_table_is_served_and_marked(
    cluster, namespace, operator, diary
):
    await operator.declare_shards(namespace, ["a"])
    cable = Cuttable()
    async with (
        router(cluster, namespace, transport=cable) as routes,
        diary.executor(cluster.endpoints, namespace, "e1"),
    ):
        await until(lambda: routes.owner("a"))
        assert not routes.is_stale
        cable.is_cut = True
        await until(lambda: routes.is_stale)
        assert routes.owner("a").executor == "e1"
        cable.is_cut = False
        await until(lambda: not routes.is_stale)


async def test_before_the_first_answer_the_table_is_empty_and_stale():
    nobody = [f"http://127.0.0.1:{free_port()}"]
    async with Router(nobody, namespace="jobs") as routes:
        assert routes.is_stale
        assert routes.age_s == float("inf")
        with pytest.raises(TimedOut):
            await routes.ready(timeout_s=0.2)


# ------------------------------------------------------------------- what no node should do


def table(revision, epoch, cluster="c1", kind="snapshot", moving_to=None, **headers):
    body = {
        "moving": {"a": moving_to} if moving_to else {},
        "kind": kind,
        "cursor": f"{cluster}:{revision}",
        "executors": {"e1": {"address": f"at-{epoch}"}, "e2": {"address": "e2:80"}},
        "owners": {"a": ["e1", epoch]},
    }
    return ok(body, **headers)


async def idle(_):
    await asyncio.sleep(30)


async def test_an_older_table_never_replaces_a_newer_one():
    async with (
        serving(table(5, 5), table(4, 4), table(6, 6), idle) as node,
        Router([node.url], namespace="jobs") as routes,
    ):
        await until(lambda: routes.owner("a") and routes.owner("a").epoch == 6)
        assert len(node.seen) >= 3


async def test_the_table_of_a_new_cluster_replaces_the_old_one():
    async with (
        serving(table(5, 5), table(1, 9, "c2"), idle) as node,
        Router([node.url], namespace="jobs") as routes,
    ):
        await until(lambda: routes.cursor and routes.cursor.cluster_id == "c2")
        assert routes.owner("a").epoch == 9
        await until(lambda: len(node.seen) == 3)
    assert node.seen[2].query["after"] == "c2:1"


async def test_a_node_that_lost_its_leader_is_left():
    cut_off = table(5, 5, X_Leader_Contact_Seconds="9.5")
    async with (
        serving(cut_off, idle) as behind,
        serving(table(6, 6), idle) as node,
        Router([behind.url, node.url], namespace="jobs") as routes,
    ):
        await until(lambda: routes.owner("a") and routes.owner("a").epoch == 6)


async def test_a_node_that_has_no_news_because_it_lost_its_leader_is_left():
    def no_news(_):
        return web.Response(status=304, headers={"X-Leader-Contact-Seconds": "9.5"})

    async with (
        serving(table(5, 5), no_news) as behind,
        serving(table(6, 6), idle) as node,
        Router([behind.url, node.url], namespace="jobs") as routes,
    ):
        await until(lambda: routes.owner("a") and routes.owner("a").epoch == 6)


async def test_a_misdirected_call_refreshes_the_table_once_for_all_callers():
    async with (
        serving(table(5, 5), idle) as first,
        serving(table(6, 7)) as second,
        Router([first.url], namespace="jobs") as routes,
    ):
        await routes.ready(timeout_s=5)
        await until(lambda: len(first.seen) == 2)
        routes._connection._endpoints._urls = (first.url, second.url)
        owners = await asyncio.gather(*(routes.misdirected("a", 5) for _ in range(10)))
        assert {owner.epoch for owner in owners} == {7}
        assert len(second.seen) == 1
        # The table is newer than the epoch that was refused: nothing is asked.
        assert (await routes.misdirected("a", 5)).epoch == 7
        assert len(second.seen) == 1


async def test_refreshes_are_rare_even_if_every_call_is_misdirected():
    async with (
        serving(table(5, 5), idle) as first,
        serving(table(6, 5)) as second,
        Router([first.url], namespace="jobs") as routes,
    ):
        await routes.ready(timeout_s=5)
        await until(lambda: len(first.seen) == 2)
        routes._connection._endpoints._urls = (second.url, second.url)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(4):
            await routes.misdirected("a", 5)
        assert loop.time() - began >= 3 * REFRESH_EVERY_S - 0.05
        assert len(second.seen) == 4


async def test_a_refused_call_learns_the_next_owner_without_another_question():
    async with (
        serving(table(5, 5, moving_to="e2"), idle) as node,
        Router([node.url], namespace="jobs") as routes,
    ):
        await routes.ready(timeout_s=5)
        await until(lambda: len(node.seen) == 2)
        owner = await routes.misdirected("a", 5)
        assert (owner.epoch, owner.moving_to, owner.moving_to_address) == (5, "e2", "e2:80")
        assert len(node.seen) == 2


async def test_a_refused_call_waits_no_longer_than_for_the_table_to_say_more():
    told = asyncio.Event()

    async def polled(request):
        await told.wait()
        return table(6, 7)(request)

    async with (
        serving(table(5, 5), polled, idle) as first,
        serving(idle) as second,
        Router([first.url], namespace="jobs") as routes,
    ):
        await routes.ready(timeout_s=5)
        await until(lambda: len(first.seen) == 2)
        routes._connection._endpoints._urls = (first.url, second.url)
        asking = asyncio.create_task(routes.misdirected("a", 5))
        await until(lambda: len(second.seen) == 1)  # the refresh hangs at the other node
        assert not asking.done()
        told.set()
        assert (await asyncio.wait_for(asking, 1.0)).epoch == 7


async def test_a_refresh_that_fails_leaves_the_last_table():
    async with (
        serving(table(5, 5), idle, problem(503, "no_leader")) as node,
        Router([node.url], namespace="jobs") as routes,
    ):
        await until(lambda: len(node.seen) == 2)
        assert (await routes.misdirected("a", 5)).epoch == 5


@pytest.mark.parametrize("fault", [ZeroDivisionError, asyncio.CancelledError])
async def test_a_fault_in_on_change_does_not_end_the_routing(fault):
    def broken():
        raise fault

    async with (
        serving(table(5, 5), table(6, 6), idle) as node,
        Router([node.url], namespace="jobs", on_change=broken) as routes,
    ):
        await until(lambda: routes.owner("a") and routes.owner("a").epoch == 6)


async def test_a_flood_of_answers_is_slowed():
    def newer(request):
        return table(1_000 + len(node.seen), 5)(request)

    async with serving(newer) as node, Router([node.url], namespace="jobs"):
        await asyncio.sleep(0.6)
        assert len(node.seen) < 60
