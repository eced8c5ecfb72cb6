import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Self

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from yarl import URL

from coordinator.api.forward import HOP_HEADER, Forwarder
from coordinator.api.problems import Refusal
from coordinator.node import Node
from tests.api.nodes import Answer, Caller, calling, ready, running, settings_of
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass(slots=True)
class Cluster:
    """Three nodes, and a caller of each, the leader's first."""

    nodes: list[Node]
    leader: Caller
    followers: list[Caller]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    async with trio() as (nodes, callers):
        leader = await until(lambda: leader_of(*callers))
        yield Cluster(nodes, leader, [caller for caller in callers if caller is not leader])


@contextlib.asynccontextmanager
async def trio() -> AsyncIterator[tuple[list[Node], list[Caller]]]:
    async with contextlib.AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(running(*settings_of(3)))
        callers = [await stack.enter_async_context(calling(node)) for node in nodes]
        for caller in callers:
            await ready(caller)
        yield nodes, callers


async def leader_of(*callers: Caller) -> Caller | None:
    leading = [caller for caller in callers if (await caller.get("/leader")).status == 200]
    return leading[0] if leading else None


async def test_every_node_names_the_leader(cluster: Cluster):
    for caller in (cluster.leader, *cluster.followers):
        assert (await caller.get("/livez")).headers["X-Leader"] == cluster.leader.base
        shown = (await caller.get("/v1/cluster")).body
        assert shown["leader_api"] == cluster.leader.base
        assert {node["node"] for node in shown["nodes"]} == {"n1", "n2", "n3"}
        assert [node["role"] for node in shown["nodes"]].count("leader") == 1
    assert [(await caller.get("/leader")).status for caller in cluster.followers] == [503, 503]


async def test_what_needs_the_leader_may_be_asked_of_any_node(cluster: Cluster):
    follower, other = cluster.followers
    ns = await follower.namespace()
    assert (await follower.beat(ns, "e1")).status == 200
    assert (await other.beat(ns, "e1", 2)).status == 200
    assert (await other.get(f"{ns}/balance")).status == 200
    (shown,) = (await other.get(f"{ns}/executors")).body["executors"]
    assert shown["heartbeat_age_s"] is not None
    drain = await follower.post(f"{ns}/executors/e1/drain", {"reason": "x"})
    assert (drain.status, drain.body["by"]) == (200, "127.0.0.1")
    closed = await follower.beat(ns, "e1", 3, incarnation="other", joining=False)
    assert (closed.reason, closed.body["cause"]) == ("incarnation_closed", "expired")


async def test_a_forwarded_request_keeps_its_id_key_and_precondition(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await follower.namespace()
    told = await follower.post(f"{ns}/hosts/h/drain", **{"X-Request-Id": "kept-1"})
    assert told.headers["X-Request-Id"] == "kept-1"
    key = {"Idempotency-Key": f"forwarded {ns}"}
    first = await follower.post(f"{ns}/hosts/h2/drain", **key)
    again = await cluster.leader.post(f"{ns}/hosts/h2/drain", **key)
    assert first.body["id"] == again.body["id"]
    late = await follower.ask(
        "PATCH", ns, {"policy": {"drain_in_flight": 9}}, headers={"If-Match": '"7"'}
    )
    assert late.reason == "precondition_failed"
    tagged = await follower.ask("PATCH", ns, {"policy": {"drain_in_flight": 9}})
    assert tagged.headers["ETag"] == '"2"'


async def test_a_follower_answers_owners_from_its_own_copy(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await follower.namespace()
    await follower.join(ns, "e1")
    born = await follower.owner(ns, "a%2Fb")
    assert (born["key"], born["executor"]) == ("a/b", "e1")

    async def is_copied() -> bool:
        answer = await follower.get(f"{ns}/shards/a%2Fb/owner", **{HOP_HEADER: "n9"})
        return answer.status == 200 and float(answer.headers["X-Leader-Contact-Seconds"]) < 5

    await until(is_copied)


async def test_a_request_that_names_the_whole_url_is_passed_on_as_well(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await follower.namespace()
    url = URL(follower.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        f"GET {follower.base}{ns}/balance HTTP/1.1\r\nHost: {url.authority}\r\n"
        "Connection: close\r\n\r\n".encode()
    )
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:300]


async def test_a_cursor_of_the_leader_is_never_led_back_by_a_follower(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await cluster.leader.namespace()
    await cluster.leader.join(ns, "e1")
    for number in range(20):
        key = f"k{number}"
        cursor = (await cluster.leader.owner(ns, key))["cursor"]
        path = f"{ns}/executors/e1/assignments?incarnation=e1-a&after={cursor}"
        answer = await follower.get(path)
        assert answer.status in {200, 304}
        if answer.status == 200:
            revision = int(answer.body["cursor"].rpartition(":")[2])
            assert revision >= int(cursor.rpartition(":")[2])


async def test_a_follower_hands_a_poll_far_ahead_of_it_to_the_leader(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await cluster.leader.namespace()
    cluster_id = (await cluster.leader.get(ns)).headers["X-Cluster-Id"]
    answer = await follower.get(f"{ns}/routing?after={cluster_id}:{2**50}")
    assert (answer.status, answer.reason) == (503, "recovering")


async def test_a_poll_on_a_follower_sees_what_the_leader_decides(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await cluster.leader.namespace()
    await cluster.leader.join(ns, "e1")
    cursor = (await follower.get(f"{ns}/routing?consistency=linearizable")).body["cursor"]
    poll = asyncio.ensure_future(follower.get(f"{ns}/routing?after={cursor}&wait=20s"))
    owner = await cluster.leader.owner(ns, "a")
    seen: dict[str, object] = {}
    while "a" not in seen:
        delta = (await poll).body
        seen |= delta["owners"]
        poll = asyncio.ensure_future(follower.get(f"{ns}/routing?after={delta['cursor']}&wait=20s"))
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert seen["a"] == ["e1", owner["epoch"]]


async def test_events_are_the_same_on_every_node_and_a_follower_wakes_its_watchers(
    cluster: Cluster,
):
    follower = cluster.followers[0]
    ns = await cluster.leader.namespace()
    await cluster.leader.join(ns, "e1", "e2")
    pages = [
        (await caller.get(f"{ns}/events?consistency=linearizable")).body
        for caller in (cluster.leader, *cluster.followers)
    ]
    assert pages[0] == pages[1] == pages[2]
    cursor = pages[0]["cursor"]
    poll = asyncio.ensure_future(follower.get(f"{ns}/events?after={cursor}&wait=20s"))
    await asyncio.sleep(0.1)
    order = await follower.post(f"{ns}/executors/e1/cordon", {"reason": "noisy"})
    assert order.status == 200
    (event,) = (await asyncio.wait_for(poll, 5)).body["events"]
    assert (event["kind"], event["executor"], event["by"]) == ("cordon_started", "e1", "127.0.0.1")


async def test_a_request_is_forwarded_once_only(cluster: Cluster):
    ns = await cluster.leader.namespace()
    answer = await cluster.followers[0].post(f"{ns}/hosts/h/drain", **{HOP_HEADER: "n9"})
    assert (answer.status, answer.reason) == (503, "no_leader")
    assert answer.body["leader"] == cluster.leader.base


async def test_a_large_answer_passes_through_whole(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await cluster.leader.namespace()
    await cluster.leader.join(ns, "e1")
    keys = [f"{number:0200d}" for number in range(3000)]
    assert (await follower.post(f"{ns}/shards", {"keys": keys})).status == 201

    async def is_placed() -> bool:
        table = await cluster.leader.get(f"{ns}/routing")
        return len(table.body["owners"]) == 3000

    await until(is_placed)
    direct = await cluster.leader.get(f"{ns}/routing?consistency=linearizable")
    passed = await follower.get(f"{ns}/routing?consistency=linearizable")
    assert len(direct.raw) > 600_000
    assert passed.raw == direct.raw
    assert passed.headers["X-Leader"] == cluster.leader.base


async def test_a_large_body_passes_through_whole(cluster: Cluster):
    follower = cluster.followers[0]
    ns = await cluster.leader.namespace()
    body = b'{"incarnation":"a","sequence":1,"joining":true,"zone":"z"' + b" " * (4 << 20) + b"}"
    async with follower.session.post(
        f"{follower.base}{ns}/executors/e1/heartbeat",
        data=io.BytesIO(body),
        headers={"Content-Type": "application/json"},
    ) as response:
        assert response.status == 200, await response.read()
    assert (await follower.get(f"{ns}/executors/e1")).body["zone"] == "z"


async def test_leadership_is_handed_over_and_back(cluster: Cluster):
    ns = await cluster.leader.namespace()
    await cluster.leader.join(ns, "e1")
    owner = await cluster.leader.owner(ns, "a")
    old = (await cluster.leader.get("/v1/cluster")).body["node"]
    follower = cluster.followers[0]
    target = (await follower.get("/v1/cluster")).body["node"]
    dry = await follower.post("/v1/cluster/transfer-leadership?dry_run=true", {"to": target})
    assert dry.body["dry_run"]
    moved = await follower.post("/v1/cluster/transfer-leadership", {"to": target})
    assert moved.status == 200, moved.raw
    assert moved.body["leader"] == target
    await until(lambda: leader_of(follower))
    assert (await follower.owner(ns, "a"))["epoch"] == owner["epoch"]
    assert (await cluster.leader.beat(ns, "e1", 2)).status == 200
    await follower.post("/v1/cluster/transfer-leadership", {"to": old})
    await until(lambda: leader_of(cluster.leader))
    unknown = await follower.post("/v1/cluster/transfer-leadership", {"to": "n9"})
    assert unknown.body["errors"][0]["path"] == "to"


async def test_a_move_to_another_members_address_is_refused_and_a_new_api_is_remembered():
    settings = settings_of(3)
    async with running(*settings) as (node, _, gone), calling(node) as caller:
        await ready(caller)
        await gone.stop()
        await asyncio.sleep(0.1)
        await ready(caller)
        taken = {"node": "n3", "raft": settings[0].node.peers["n2"], "api": "http://127.0.0.1:9"}
        refused = await caller.post("/v1/cluster/members", taken)
        assert (refused.status, refused.reason) == (409, "conflict")
        assert "is the address of n2" in refused.body["detail"]
        place = {"node": "n3", "raft": "127.0.0.1:9", "api": "http://127.0.0.1:9/"}
        dry = await caller.post("/v1/cluster/members?dry_run=true", place)
        assert (dry.body["dry_run"], dry.body["creates"]) == (True, True)
        for _ in range(2):
            moved = await caller.post("/v1/cluster/members", place)
            (seen,) = [seen for seen in moved.body["nodes"] if seen["node"] == "n3"]
            assert (seen["address"], seen["api"]) == ("127.0.0.1:9", "http://127.0.0.1:9")
        same = {"node": "n3", "api": "http://127.0.0.1:10"}
        kept = await caller.post("/v1/cluster/members", same)
        (seen,) = [seen for seen in kept.body["nodes"] if seen["node"] == "n3"]
        assert (seen["address"], seen["api"]) == ("127.0.0.1:9", "http://127.0.0.1:10")


async def test_without_a_quorum_nothing_is_promised():
    (first, *_) = settings_of(3)
    async with running(first) as (node,), calling(node) as caller:
        assert (await caller.get("/livez")).status == 200
        ready_ = await caller.get("/readyz?verbose")
        assert ready_.status == 503
        assert b"[-] leader known" in ready_.raw
        for ask in (
            caller.ask("PUT", "/v1/namespaces/n", {"kind": "open"}),
            caller.beat("/v1/namespaces/n", "e1"),
            caller.get("/v1/namespaces/n/balance"),
            caller.get("/v1/namespaces?consistency=linearizable"),
        ):
            answer = await ask
            assert (answer.status, answer.reason) == (503, "no_leader")
            assert answer.headers["Retry-After"] == "1"
        for path in (
            "/v1/namespaces",
            "/v1/namespaces/n/routing",
            "/v1/namespaces/n/shards/a/owner",
        ):
            assert (await caller.get(path)).reason == "recovering"
        shown = (await caller.get("/v1/cluster")).body
        assert (shown["cluster_id"], shown["has_quorum"]) == (None, False)


async def test_the_rest_goes_on_when_the_leader_is_lost():
    async with trio() as (nodes, callers):
        leader = await until(lambda: leader_of(*callers))
        ns = await leader.namespace()
        await leader.join(ns, "e1")
        owner = await leader.owner(ns, "a")
        left = [caller for caller in callers if caller is not leader]
        stopping = asyncio.ensure_future(nodes[callers.index(leader)].stop())
        while (new := await leader_of(*left)) is None:
            for caller in left:  # what only a leader knows may be missing, the rest is not
                (shown,) = (await caller.get(f"{ns}/executors")).body["executors"]
                assert shown["shards"] == 1
                assert (await caller.get(f"{ns}/shards/a")).body["executor"] == "e1"
                assert (await caller.get(f"{ns}/shards/b")).reason == "shard_not_found"
        await stopping
        for caller in left:
            assert (await caller.owner(ns, "a"))["epoch"] == owner["epoch"]
            answer = await until(partial(beaten, caller, ns))
            assert answer.headers["X-Leader"] == new.base


async def beaten(caller: Caller, ns: str) -> Answer | None:
    answer = await caller.beat(ns, "e1", 2, incarnation="e1-a")
    return answer if answer.status == 200 else None


class Scripted:
    """A leader that is not there, or goes away in the middle."""

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        if self._behaviour == "cut":
            transport.abort()
            return web.Response()
        stream = web.StreamResponse()
        stream.content_length = 1 << 20
        await stream.prepare(request)
        await stream.write(b"x" * 1000)
        transport.close()
        return stream


@pytest.mark.parametrize(
    ("method", "behaviour", "reason"),
    [
        ("GET", "absent", "no_leader"),
        ("POST", "absent", "no_leader"),
        ("GET", "cut", "no_leader"),
        ("POST", "cut", "outcome_unknown"),
    ],
)
async def test_a_broken_hop_says_whether_anything_can_have_happened(
    method: str, behaviour: str, reason: str
):
    answer = await through(Scripted("cut"), method, is_absent=behaviour == "absent")
    assert answer == reason


async def test_an_answer_that_breaks_off_is_not_passed_on_as_whole():
    with pytest.raises(aiohttp.ClientError):
        await through(Scripted("half"), "GET")


async def through(leader: Scripted, method: str, *, is_absent: bool = False) -> str:
    """What a caller sees of a leader behind a forwarder: a reason, or the body's text."""
    forwarder = Forwarder("n1")

    async def hop(request: web.Request) -> web.StreamResponse:
        url = "http://127.0.0.1:1" if is_absent else leader.url
        try:
            return await forwarder.forward(
                request, url, b"{}", request_id="r", wait_s=0.0, prepare=lambda _: None
            )
        except Refusal as refusal:
            return web.Response(text=refusal.reason)

    app = web.Application()
    app.router.add_route("*", "/", hop)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with (
            leader,
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{site.port}/") as response,
        ):
            return await response.text()
    finally:
        await forwarder.close()
        await runner.cleanup()
