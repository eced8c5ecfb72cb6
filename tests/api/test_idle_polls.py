"""Long polls that hear of nothing hold no task, and are otherwise as all others."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from coordinator.api import DESK, EXPRESS, conversation
from coordinator.node import Node
from tests.api.keys import Keys
from tests.api.lanes import counted, escaped, get, line, names, shown
from tests.api.nodes import Caller, calling, ready, running, settings_of
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def taken(node: Node, monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many requests the lane took, and how many it left to the ordinary way."""
    return counted(node, monkeypatch)


async def followed(api: Caller) -> tuple[str, str, str]:
    """A namespace with an executor, the path of its set with a cursor, and that of the table."""
    ns = await api.namespace()
    await api.join(ns, "e1")
    assigned = f"{ns}/executors/e1/assignments?incarnation=e1-a"
    cursor = (await api.get(assigned)).body["cursor"]
    table = (await api.get(f"{ns}/routing")).body["cursor"]
    return ns, f"{assigned}&after={cursor}", f"{ns}/routing?after={table}"


def by_the_ordinary_way(path: str) -> str:
    raw_path, _, query = path.partition("?")
    return f"{escaped(raw_path)}?{query}"


async def polling(node: Node, count: int) -> None:
    await until(lambda: node.app[DESK].polls.count == count)


@pytest.mark.parametrize("which", ["assignments", "routing"])
async def test_both_ways_say_alike_that_nothing_happened(
    api: Caller, node: Node, taken: Counter[bool], which: str
):
    _, assigned, table = await followed(api)
    path = f"{assigned if which == 'assignments' else table}&wait=50ms"
    route = "/v1/namespaces/{namespace}/"
    route += "routing" if which == "routing" else "executors/{executor}/assignments"
    answered = node.replica.meters.answered
    before = answered[route, 304]
    taken.clear()
    plain = await api.get(path, **{"X-Request-Id": "mine"})
    assert taken == {True: 1}
    assert answered[route, 304] == before + 1
    ordinary = await api.get(by_the_ordinary_way(path), **{"X-Request-Id": "mine"})
    assert taken == {True: 1, False: 1}
    assert plain.status == 304
    assert shown(plain) == shown(ordinary)
    assert set(plain.headers) == set(ordinary.headers)
    assert plain.headers["X-Request-Id"] == "mine"
    assert node.app[DESK].polls.count == 0


async def test_news_are_told_at_once_and_in_full(api: Caller, node: Node, taken: Counter[bool]):
    ns, assigned, table = await followed(api)
    taken.clear()
    polls = [asyncio.ensure_future(api.get(f"{path}&wait=60s")) for path in (assigned, table)]
    await polling(node, 2)
    assert taken == {True: 2}
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    own, all_of_them = await asyncio.gather(*polls)
    assert [line["key"] for line in own.body["assignments"]] == ["a"]
    assert all_of_them.status == 200
    assert all_of_them.body["cursor"] != table.partition("after=")[2]
    assert node.app[DESK].polls.count == 0


@pytest.mark.parametrize(
    "query",
    [
        "&wait=0s",
        "&wait=301s",
        "&wait=5parsecs",
        "&wait=50ms&wait=50ms",
        "&wait=50ms&wiat=1s",
        "&wait",
        "&wait=50ms&consistency=sideways",
    ],
)
async def test_what_does_not_wait_or_is_not_well_formed_is_left_to_the_ordinary_way(
    api: Caller, taken: Counter[bool], query: str
):
    _, _, table = await followed(api)
    taken.clear()
    answer = await api.get(table + query)
    assert taken == {False: 1}
    assert (answer.status, answer.reason) in {(304, None), (422, "invalid")}
    ordinary = await api.get(by_the_ordinary_way(table + query))
    assert (answer.status, answer.reason) == (ordinary.status, ordinary.reason)


async def test_incarnations_that_are_over_or_unknown_are_refused_though_they_wait(
    api: Caller, taken: Counter[bool]
):
    ns, assigned, _ = await followed(api)
    await api.beat(ns, "e1", incarnation="e1-b", joining=True)
    taken.clear()
    assert (await api.get(f"{assigned}&wait=50ms")).reason == "incarnation_closed"
    unknown = assigned.replace("e1-a", "e1-c")
    assert (await api.get(f"{unknown}&wait=50ms")).reason == "executor_not_found"
    nameless = assigned.replace("incarnation=e1-a&", "")
    assert (await api.get(f"{nameless}&wait=50ms")).reason == "invalid"
    assert taken == {False: 3}


async def test_a_fault_in_the_lane_is_told_in_the_log_and_left_to_the_ordinary_way(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    ns, _, _ = await followed(api)
    await api.owner(ns, "7")

    def broken(*_: object) -> bytes:
        raise RuntimeError("a defect")

    for name in ("_written", "_unchanged"):
        monkeypatch.setattr(node.app[EXPRESS], name, broken)
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    assert (await api.get(f"{ns}/routing?after={cursor}&wait=50ms")).status == 304
    assert (await api.get(f"{ns}/shards/7/owner", **{"X-Request-Id": "mine"})).status == 200
    told = [one for one in caplog.records if "express_failed" in one.getMessage()]
    assert ["request_id=mine" in one.getMessage() for one in told] == [False, True]
    assert all(one.exc_info for one in told)
    assert node.app[DESK].polls.count == 0


async def test_who_leaves_gives_its_seat_back(api: Caller, node: Node):
    _, assigned, table = await followed(api)
    async with line(node) as (_, writer):
        writer.write(get(f"{assigned}&wait=60s", "a"))
        await polling(node, 1)
    await polling(node, 0)
    poll = asyncio.ensure_future(api.get(f"{table}&wait=60s"))
    await polling(node, 1)
    poll.cancel()
    await polling(node, 0)


async def test_who_asks_on_while_it_waits_is_answered_in_turn_and_can_still_leave(
    api: Caller, node: Node, taken: Counter[bool]
):
    ns, _, table = await followed(api)
    taken.clear()
    async with line(node) as (reader, writer):
        writer.write(get(f"{table}&wait=60s", "a"))
        await polling(node, 1)
        assert taken == {True: 1}
        writer.write(get(f"{ns}/routing", "b"))
        await writer.drain()
        await asyncio.sleep(0.05)
        await polling(node, 1)  # now in the ordinary way
        await api.post(f"{ns}/shards", {"keys": ["a"]})
        assert await names(reader, 2) == ["a", "b"]
        cursor = (await api.get(f"{ns}/routing")).body["cursor"]
        writer.write(get(f"{ns}/routing?after={cursor}&wait=60s", "c"))
        await polling(node, 1)
        writer.write(get(f"{ns}/routing", "d"))
        await writer.drain()
    await polling(node, 0)


async def test_a_poll_may_wait_for_longer_than_a_connection_may_be_idle(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(conversation, "KEEPALIVE_S", 0.15)
    async with running(*settings_of()) as (node,), calling(node) as api:
        await ready(api)
        _, _, table = await followed(api)
        taken = counted(node, monkeypatch)
        async with line(node) as (reader, writer):
            writer.write(get(f"{table}&wait=1s", "a").replace(b"127.0.0.1", host_of(node)))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 304 ")
            assert taken == {True: 1}
            async with asyncio.timeout(20):
                assert await reader.read() == b"", "and then it is idle"


def host_of(node: Node) -> bytes:
    """As the session of a `Caller` writes it: the node knows it as its own already."""
    host, port = node.settings.api_address
    return f"{host}:{port}".encode()


async def test_seats_are_counted_and_who_finds_none_is_told_so(monkeypatch: pytest.MonkeyPatch):
    few = "[limits]\nwatch_waiters = 1"
    async with running(*settings_of(extra=few)) as (node,), calling(node) as api:
        await ready(api)
        _, assigned, table = await followed(api)
        taken = counted(node, monkeypatch)
        poll = asyncio.ensure_future(api.get(f"{assigned}&wait=60s"))
        await polling(node, 1)
        assert taken == {True: 1}
        assert (await api.get(f"{table}&wait=60s")).reason == "too_many_waiters"
        poll.cancel()
        await polling(node, 0)


async def test_whose_token_was_withdrawn_hears_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    keys = Keys(tmp_path, router={"role": "router"}, boss={"role": "operator"})
    async with running(*settings_of(extra=keys.settings)) as (node,), calling(node) as api:
        api.session.headers.update(keys.bearer("boss"))
        await ready(api)
        ns, _, table = await followed(api)
        taken = counted(node, monkeypatch)
        until_over = asyncio.ensure_future(api.get(f"{table}&wait=2s", **keys.bearer("router")))
        until_news = asyncio.ensure_future(api.get(f"{table}&wait=60s", **keys.bearer("router")))
        await polling(node, 2)
        assert taken == {True: 2}
        keys.withdraw("router")
        node.reload()
        assert (await until_over).status == 401
        await api.post(f"{ns}/shards", {"keys": ["a"]})
        assert (await until_news).status == 401


async def test_a_node_that_stops_says_so_to_who_waits():
    async with running(*settings_of()) as (node,), calling(node) as api:
        await ready(api)
        _, assigned, table = await followed(api)
        polls = [asyncio.ensure_future(api.get(f"{path}&wait=60s")) for path in (assigned, table)]
        await polling(node, 2)
        await node.stop()
        answers = await asyncio.gather(*polls)
        assert {(answer.status, answer.reason) for answer in answers} == {(503, "shutting_down")}
