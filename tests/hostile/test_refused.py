"""Who takes time for nothing: told so where it can be, heard no further, and let in slowly."""

import asyncio
from typing import Any

import pytest
import uvloop
from aiohttp import web

from coordinator.api import conversation, suspects
from coordinator.api.conversation import LINGER_BYTES
from coordinator.api.listen import Listener
from tests.hostile.callers import GET, Caller, crowd, listening
from tests.waiting import until

MANY = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def refusing(request: web.Request) -> web.Response:
    """Refuses every body without reading it; for good, if it is said to be large."""
    if not request.can_read_body:
        return web.Response()
    response = web.Response(status=413, text="too much")
    if request.path != "/goes-on":
        response.force_close()
    return response


def sized(path: bytes, size: int) -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size


async def sent_until_nobody_listens(caller: Caller) -> int:
    """How much of an endless body a caller gets rid of."""
    size = 0
    while True:
        try:
            async with asyncio.timeout(0.2):
                await caller.send(MANY)
        except TimeoutError:
            return size
        size += len(MANY)


async def test_the_answer_is_seen_while_the_rest_is_left_to_the_callers_own_system():
    async with listening(refusing) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        await caller.send(CHUNKED)
        told = await caller.read_to_end()  # which ends while we still send: it is half closed
        assert told.startswith(b"HTTP/1.1 413 ")
        assert b"Connection: close" in told
        (one,) = (place._conversation for place in listener._places)
        assert one.transport is not None
        assert not one.transport.is_reading()
        assert await sent_until_nobody_listens(caller) < 16 << 20  # what both systems can hold


async def test_a_connection_that_was_let_go_is_kept_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(conversation, "LINGER_S", 0.05)
    async with listening(refusing) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        await caller.send(sized(b"/", 1 << 30))
        assert b" 413 " in await caller.read_to_end()
        await until(lambda: listener.count == 0)
        assert listener._let_go == {}


@pytest.mark.parametrize("size", [1, LINGER_BYTES])
async def test_a_refusal_of_little_leaves_the_connection_good_for_more(size: int):
    async with listening(refusing) as (_, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        await caller.send(sized(b"/goes-on", size))
        assert b" 413 " in await caller.read()
        await caller.send(b"a" * size + GET)
        assert b" 200 " in await caller.read()


async def test_who_goes_on_beyond_that_is_heard_no_further(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conversation, "LINGER_S", 0.3)
    async with listening(refusing) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        await caller.send(sized(b"/goes-on", 1 << 30))
        assert b" 413 " in await caller.read()
        for _ in range(4):
            await caller.send(MANY)
        assert await caller.read() == b""
        await until(lambda: listener.count == 0)


async def test_when_places_are_short_those_that_were_let_go_are_the_first_to_go():
    async with listening(refusing, connections=2) as (listener, port), crowd() as callers:
        callers.append(silent := await Caller.connect(port))
        await until(lambda: listener.count == 1)
        callers.append(refused := await Caller.connect(port))
        await refused.send(sized(b"/", 1 << 30))
        assert b" 413 " in await refused.read_to_end()
        callers.append(honest := await Caller.connect(port))
        assert b" 200 " in await honest.ask()
        assert b" 200 " in await silent.ask()
        assert (listener.count, len(listener._let_go)) == (2, 0)


async def test_a_stop_waits_for_none_of_them():
    async with crowd() as callers:
        async with listening(refusing) as (_, port):
            callers.append(refused := await Caller.connect(port))
            await refused.send(sized(b"/", 1 << 30))
            assert b" 413 " in await refused.read_to_end()
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < conversation.LINGER_S / 2


# -- addresses whose callers are refused often ----------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Refusals after which an address is suspect: fewer than it takes in the product."""
    monkeypatch.setattr(suspects, "STRIKES_MAX", 5)
    return 5


async def refused_often(port: int, source: str, times: int) -> None:
    for _ in range(times):
        caller = await Caller.connect(port, source)
        await caller.send(sized(b"/", 1 << 30))
        assert b" 413 " in await caller.read_to_end()
        caller.close()


async def test_new_connections_of_a_suspect_address_wait_and_others_do_not(
    few: int, caplog: pytest.LogCaptureFixture
):
    async with listening(refusing, suspects_per_s=0.001) as (listener, port), crowd() as callers:
        callers.append(early := await Caller.connect(port, "127.0.0.2"))
        assert b" 200 " in await early.ask()
        await refused_often(port, "127.0.0.2", few + 1)
        callers.append(in_time := await Caller.connect(port, "127.0.0.2"))
        assert b" 200 " in await in_time.ask()  # one at a time is
        for _ in range(3):
            callers.append(late := await Caller.connect(port, "127.0.0.2"))
            await late.send(GET)
        await until(lambda: listener.held_back == 3)
        callers.append(other := await Caller.connect(port, "127.0.0.3"))
        assert b" 200 " in await other.ask()
        assert b" 200 " in await early.ask()  # what is open goes on
        late.close()
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if "suspect" in line] == ["address_suspect address=127.0.0.2"]


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_each_has_its_turn_and_nothing_that_it_said_meanwhile_is_lost(few: int, new_loop: Any):
    async def all_are_answered() -> None:
        async with listening(refusing, suspects_per_s=50) as (listener, port), crowd() as callers:
            await refused_often(port, "127.0.0.2", few + 1)
            for _ in range(5):
                callers.append(caller := await Caller.connect(port, "127.0.0.2"))
                await caller.send(GET[:10])
            await until(lambda: listener.held_back >= 2)
            for caller in callers:
                await caller.send(GET[10:])
            for caller in callers:
                assert b" 200 " in await caller.read()
            assert listener.held_back == 0

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(all_are_answered())


async def one_that_waits(listener: Listener, port: int, callers: list[Caller], few: int) -> Caller:
    """A caller of a suspect address, after another one had the turn."""
    await refused_often(port, "127.0.0.2", few + 1)
    callers.append(first := await Caller.connect(port, "127.0.0.2"))
    assert b" 200 " in await first.ask()
    callers.append(second := await Caller.connect(port, "127.0.0.2"))
    await second.send(GET)
    await until(lambda: listener.held_back == 1)
    return second


async def test_who_waits_for_a_turn_does_so_as_long_as_a_header_may_take(few: int):
    limits = {"suspects_per_s": 0.001, "header_timeout_s": 0.2}
    async with listening(refusing, **limits) as (listener, port), crowd() as callers:
        second = await one_that_waits(listener, port, callers, few)
        strikes = listener._suspects._strikes.of("127.0.0.2", 0.0)
        assert await second.read() == b""
        assert listener.held_back == 0
        assert listener._suspects._strikes.of("127.0.0.2", 0.0) == strikes  # it did nothing wrong


@pytest.mark.parametrize("status", [400, 401, 413, 429])
async def test_what_is_refused_counts_and_so_does_who_is_cut_off(status: int):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with listening(answer, header_timeout_s=0.05) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        assert str(status).encode() in await caller.ask()
        assert listener._suspects._strikes.of("127.0.0.1", asyncio.get_running_loop().time()) == 1
        callers.append(slow := await Caller.connect(port))
        await slow.send(b"GET")
        assert await slow.read() == b""
        assert listener._suspects._strikes.of("127.0.0.1", asyncio.get_running_loop().time()) == 2


@pytest.mark.parametrize("status", [200, 304, 403, 404, 409, 422, 503])
async def test_what_honest_callers_hear_does_not_count(status: int):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with listening(answer) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        for _ in range(3):
            assert str(status).encode() in await caller.ask()
        callers.append(last := await Caller.connect(port))
        assert str(status).encode() in await last.ask(GET[:-2] + b"Connection: close\r\n\r\n")
        assert len(listener._suspects._strikes) == 0
