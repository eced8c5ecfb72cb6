import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from coordinator.api.app import DESK
from coordinator.api.problems import Refusal
from coordinator.api.serve import as_refusal
from coordinator.consensus import (
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    ProbeTimeout,
    TooLarge,
)
from coordinator.node import Node, StartError
from tests.api.nodes import Answer, Caller, calling, ready, running, settings_of
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

BEAT = b'{"incarnation":"a","sequence":1,"joining":true'


async def test_every_answer_is_named_and_signed(api: Caller):
    ns = await api.namespace()
    for path in (ns, "/livez", "/nowhere"):
        answer = await api.get(path)
        assert answer.headers["X-Request-Id"]
        assert answer.headers["X-Cluster-Id"]
        assert answer.headers["X-Leader"] == api.base


async def test_a_request_keeps_the_id_it_came_with_if_that_is_harmless(api: Caller):
    kept = await api.get("/livez", **{"X-Request-Id": "abc-1._Z"})
    assert kept.headers["X-Request-Id"] == "abc-1._Z"
    for odd in ("a b", "x" * 65, "", "a\u00e4"):
        answer = await api.get("/livez", **{"X-Request-Id": odd})
        assert answer.headers["X-Request-Id"] != odd


async def test_an_unknown_path_is_a_problem(api: Caller):
    for path in ("/nowhere", "/v1", "/v1/namespaces/a/b/c", "/v1/namespaces/n/shards//owner"):
        answer = await api.get(path)
        assert (answer.status, answer.reason) == (404, "route_not_found")


async def test_a_wrong_method_is_told_the_right_ones(api: Caller):
    answer = await api.ask("POST", "/v1/namespaces/n")
    assert (answer.status, answer.reason) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "DELETE, GET, PATCH, PUT"


@pytest.mark.parametrize("query", ["?x=1", "?consistency=local&consistency=local", "?=1"])
async def test_a_parameter_that_is_unknown_or_doubled_is_refused(api: Caller, query: str):
    ns = await api.namespace()
    assert (await api.get(ns + query)).reason == "invalid"


@pytest.mark.parametrize(
    "media",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/jsonx",
        "",
    ],
)
async def test_other_bodies_than_json_are_refused(api: Caller, media: str):
    ns = await api.namespace()
    answer = await api.ask(
        "POST", f"{ns}/shards", data=b'{"keys":["a"]}', headers={"Content-Type": media}
    )
    assert (answer.status, answer.reason) == (415, "unsupported_media")


@pytest.mark.parametrize(
    "media",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'],
)
async def test_json_may_say_that_it_is_utf_8(api: Caller, media: str):
    ns = await api.namespace()
    answer = await api.ask(
        "POST", f"{ns}/shards", data=b'{"keys":["a"]}', headers={"Content-Type": media}
    )
    assert answer.status == 201


async def test_msgpack_is_for_heartbeats_only(api: Caller):
    ns = await api.namespace()
    answer = await api.ask(
        "POST", f"{ns}/shards", data=b"\x80", headers={"Content-Type": "application/msgpack"}
    )
    assert answer.reason == "unsupported_media"
    for data in (b"", b"\x80", b"\xc1", b"\x91" * 100_000, b"\xdf\xff\xff\xff\xff"):
        beat = await api.ask(
            "POST",
            f"{ns}/executors/e1/heartbeat",
            data=data,
            headers={"Content-Type": "application/msgpack"},
        )
        assert beat.reason == "invalid"


async def test_compressed_bodies_are_refused(api: Caller):
    ns = await api.namespace()
    answer = await api.ask(
        "POST", f"{ns}/shards", data=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}
    )
    assert (answer.status, answer.reason) == (415, "unsupported_media")


def padded(data: bytes, size: int) -> bytes:
    return data + b" " * (size - len(data))


@pytest.mark.parametrize(
    ("path", "data", "limit"),
    [
        ("/executors/e1/cordon", b"{}", 64 << 10),
        ("/shards", b'{"keys":["a"]}', 1 << 20),
        ("/executors/e1/acks", b'{"incarnation":"e1-a"}', 1 << 20),
        ("/executors/e2/heartbeat", BEAT + b"}", 16 << 20),
    ],
)
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_not(
    api: Caller, path: str, data: bytes, limit: int, framing: str
):
    ns = await api.namespace()
    await api.join(ns, "e1")

    async def send(size: int) -> Answer:
        whole = padded(data, size)
        body: Any = chunks(whole) if framing == "chunked" else io.BytesIO(whole)
        async with api.session.post(
            api.base + ns + path, data=body, headers={"Content-Type": "application/json"}
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    assert (await send(limit)).status in {200, 201}
    over = await send(limit + 1)
    assert (over.status, over.reason) == (413, "too_large")


async def chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1 << 20):
        yield body[start : start + (1 << 20)]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (NotLeader("n2"), "no_leader"),
        (ProbeTimeout("late"), "no_leader"),
        (OutcomeUnknown("late"), "outcome_unknown"),
        (Overloaded("full"), "rate_limited"),
        (TooLarge("big"), "too_large"),
        (Refusal("conflict", "x"), "conflict"),
        (web.HTTPRequestEntityTooLarge(1, 2), "too_large"),
        (web.HTTPBadRequest(reason="odd"), "invalid"),
        (ZeroDivisionError(), "internal"),
    ],
)
async def test_every_fault_has_its_reason(fault: Exception, reason: str):
    assert as_refusal(fault).reason == reason


async def test_a_fault_of_the_node_tells_nothing_of_its_inside(
    caplog: pytest.LogCaptureFixture, api: Caller, node: Node
):
    from coordinator.api.serve import Server
    from coordinator.api.shelf import from_match

    app = web.Application()

    async def broken(_: web.Request, _path: Mapping[str, str]) -> web.Response:
        raise ZeroDivisionError("a secret")

    answer = Server(node.app[DESK]).wrapped(broken, "/broken")
    app.router.add_get("/broken", from_match(answer))
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with api.session.get(f"http://127.0.0.1:{site.port}/broken") as response:
            answer = Answer(response.status, response.headers, await response.read())
    finally:
        await runner.cleanup()
    assert (answer.status, answer.reason) == (500, "internal")
    assert b"secret" not in answer.raw
    assert answer.headers["X-Request-Id"] in caplog.text


class Raw:
    """A caller below HTTP."""

    def __init__(self, base: str) -> None:
        self._port = int(base.rpartition(":")[2])

    async def exchange(self, *parts: bytes, pause_s: float = 0.0) -> bytes:
        """Send the parts with pauses, then read until the node closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        try:
            async with asyncio.timeout(5):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def strict() -> AsyncIterator[Caller]:
    """A node with limits that a test can reach."""
    limits = """
    [limits]
    connections = 4
    watch_waiters = 2
    header_timeout_s = 0.3
    body_timeout_s = 0.3
    shutdown_timeout_s = 1
    """
    async with running(*settings_of(extra=limits)) as (node,), calling(node) as caller:
        await ready(caller)
        yield caller


async def test_a_caller_that_dawdles_over_its_first_header_is_cut_off(strict: Caller):
    raw = Raw(strict.base)
    began = time.monotonic()
    assert await raw.exchange(b"GET /livez HT") == b""
    assert await raw.exchange() == b""
    assert time.monotonic() - began < 2.0


async def test_a_header_may_come_in_pieces(strict: Caller):
    told = await Raw(strict.base).exchange(
        b"GET /livez HT", b"TP/1.1\r\nHost: x\r\n", b"Connection: close\r\n\r\n", pause_s=0.05
    )
    assert told.startswith(b"HTTP/1.1 200 OK")


async def test_a_caller_that_dawdles_over_its_body_is_refused(strict: Caller):
    told = await Raw(strict.base).exchange(
        b"POST /v1/namespaces/n/shards HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\n"
        b"Content-Length: 20\r\n\r\n{"
    )
    assert b"422" in told.partition(b"\r\n")[0]
    assert b"the body did not arrive" in told


async def test_all_bodies_together_are_bounded_while_they_arrive():
    piece = b" " * (5 << 20)
    head = (
        b"POST /v1/namespaces/%s/executors/e1/heartbeat HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    limits = "[limits]\nbody_bytes = 16777216"
    async with running(*settings_of(extra=limits)) as (node,), calling(node) as caller:
        await ready(caller)
        ns = await caller.namespace()
        name = ns.rpartition("/")[2].encode()
        async with contextlib.AsyncExitStack() as stack:
            pairs = []
            for _ in range(4):
                port = int(caller.base.rpartition(":")[2])
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                writer.write(head % (name, len(piece) + 1) + piece)
                pairs.append(reader)
            # Three find room and are waited for; the one that is too much is told so and goes.
            heard = [asyncio.create_task(reader.readline()) for reader in pairs]
            done, others = await asyncio.wait(heard, return_when=asyncio.FIRST_COMPLETED)
            assert [one.result().split()[1] for one in done] == [b"429"]
            assert (await caller.beat(ns, "e1")).status == 200  # small ones come all at once
            for one in others:
                one.cancel()
        # Whoever leaves makes room.
        whole = {"Content-Type": "application/json"}
        body = b'{"incarnation":"e1-1","sequence":2}' + b" " * (15 << 20)

        async def is_heard() -> bool:
            path = f"{caller.base}{ns}/executors/e1/heartbeat"
            async with caller.session.post(path, data=io.BytesIO(body), headers=whole) as answer:
                return answer.status != 429

        await until(is_heard)


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /livez\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
    ],
)
async def test_what_is_no_http_is_answered_400_and_cut_off(strict: Caller, request_line: bytes):
    told = await Raw(strict.base).exchange(request_line)
    assert told.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))


async def test_long_polls_beyond_the_limit_are_refused_and_places_are_freed(strict: Caller):
    ns = await strict.namespace()
    cursor = (await strict.get(f"{ns}/routing")).body["cursor"]
    path = f"{ns}/routing?after={cursor}&wait=20s"
    polls = [asyncio.ensure_future(strict.get(path)) for _ in range(2)]
    await asyncio.sleep(0.1)
    refused = await strict.get(path)
    assert (refused.status, refused.reason) == (429, "too_many_waiters")
    assert refused.headers["Retry-After"] == "1"
    polls[0].cancel()  # a caller that leaves frees its place at once
    await asyncio.gather(polls[0], return_exceptions=True)
    await asyncio.sleep(0.1)
    third = asyncio.ensure_future(strict.get(path))
    await asyncio.sleep(0.1)
    assert not third.done()
    await strict.join(ns, "e1")
    assert {answer.status for answer in await asyncio.gather(polls[1], third)} == {200}


async def test_look_ups_that_wait_for_an_owner_take_places_too(strict: Caller):
    ns = await strict.namespace()
    waiting = [asyncio.ensure_future(strict.get(f"{ns}/shards/{key}/owner")) for key in "ab"]
    await asyncio.sleep(0.1)
    assert (await strict.get(f"{ns}/shards/c/owner")).reason == "too_many_waiters"
    await strict.join(ns, "e1")
    assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}


async def test_a_stopping_node_releases_its_long_polls_at_once():
    async with running(*settings_of()) as (node,), calling(node) as caller:
        await ready(caller)
        ns = await caller.namespace()
        cursor = (await caller.get(f"{ns}/routing")).body["cursor"]
        polls = [
            asyncio.ensure_future(caller.get(f"{ns}/routing?after={cursor}&wait=60s"))
            for _ in range(20)
        ]
        await until(lambda: node.app[DESK].polls.count == len(polls))
        began = time.monotonic()
        await node.stop()
        answers = await asyncio.gather(*polls)
        assert {(answer.status, answer.reason) for answer in answers} == {(503, "shutting_down")}
        assert time.monotonic() - began < 2.0


async def test_a_stopping_node_cuts_off_who_has_not_asked_yet():
    async with running(*settings_of()) as (node,), calling(node) as caller:
        await ready(caller)
        idle = asyncio.ensure_future(Raw(caller.base).exchange())
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await node.stop()
        assert await idle == b""
        assert time.monotonic() - began < 2.0


async def test_a_node_whose_port_is_taken_says_so(api: Caller):
    (settings,) = settings_of(api_port=int(api.base.rpartition(":")[2]))
    with pytest.raises(StartError, match="cannot start"):
        async with running(settings):
            pass
