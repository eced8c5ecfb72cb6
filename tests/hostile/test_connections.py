"""Who opens connections to hold them, or to take their time."""

import asyncio
import contextlib
import gc
import logging

import pytest
from aiohttp import web

from coordinator.api.conversation import HEADER_BYTES_MAX, HEADERS_MAX, Conversation
from tests.hostile.callers import GET, Caller, crowd, listening
from tests.waiting import until


async def test_connections_that_have_asked_keep_their_places_and_others_are_turned_away():
    async with listening(connections=3) as (listener, port), crowd() as callers:
        for _ in range(3):
            callers.append(await Caller.connect(port))
            assert b" 200 " in await callers[-1].ask()
        callers.append(await Caller.connect(port))
        told = await callers[-1].read_to_end()
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1" in told
        assert listener.count == 3
        callers[0].close()
        await until(lambda: listener.count == 2)
        callers.append(await Caller.connect(port))
        assert b" 200 " in await callers[-1].ask()


async def test_who_says_nothing_makes_room_for_who_asks():
    async with listening(connections=3) as (listener, port), crowd() as silent:
        for _ in range(3):
            silent.append(await Caller.connect(port))
        await until(lambda: listener.count == 3)
        for number in range(3):
            honest = await Caller.connect(port)
            assert b" 200 " in await honest.ask()
            silent.append(honest)
            assert await silent[number].read() == b""  # the oldest first
        assert listener.count == 3


async def test_one_address_cannot_take_the_places_of_others():
    async with (
        listening(connections=6, connections_per_address=2) as (listener, port),
        crowd() as all_,
    ):
        for _ in range(2):
            all_.append(await Caller.connect(port, "127.0.0.2"))
            assert b" 200 " in await all_[-1].ask()
        for _ in range(4):
            all_.append(await Caller.connect(port, "127.0.0.2"))
            assert (await all_[-1].read_to_end()).startswith(b"HTTP/1.1 503 ")
        all_.append(await Caller.connect(port, "127.0.0.3"))
        assert b" 200 " in await all_[-1].ask()
        assert listener.count == 3


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET",
        GET,
        b"no HTTP at all\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
    ],
)
async def test_a_place_is_given_back_however_a_connection_ends(said: bytes):
    async with listening(connections_per_address=1) as (listener, port), crowd() as callers:

        async def is_answered() -> bool:
            callers.append(honest := await Caller.connect(port))
            told = await honest.ask()
            honest.close()
            return b" 200 " in told

        for _ in range(3):
            caller = await Caller.connect(port)
            await caller.send(said)
            caller.close()
            await until(is_answered)
        await until(lambda: listener.count == 0)
        assert listener._by_origin == {}
        assert listener._silent == {}


@pytest.mark.parametrize("asked_before", [0, 1])
async def test_a_header_that_does_not_end_is_cut_off_also_on_a_connection_that_asked(
    asked_before: int,
):
    async with listening(header_timeout_s=0.1) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        for _ in range(asked_before):
            assert b" 200 " in await caller.ask()
        await caller.send(b"GET / HTTP/1.1\r\nA")
        assert await caller.read() == b""
        await until(lambda: listener.count == 0)


async def test_who_dribbles_gets_no_more_time_than_who_is_silent():
    async with listening(header_timeout_s=0.3) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        await caller.send(b"GET / HTTP/1.1\r\n")
        await until(lambda: listener.count == 1)

        async def is_cut_off() -> bool:
            with contextlib.suppress(ConnectionError):
                await caller.send(b"A: b\r\n")
            return listener.count == 0

        await until(is_cut_off)


async def test_a_connection_that_asked_in_time_may_be_idle_for_longer_than_a_header_may_take():
    async with listening(header_timeout_s=0.1) as (_, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        for _ in range(3):
            assert b" 200 " in await caller.ask()
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("asked_before", [0, 1])
@pytest.mark.parametrize(
    "header",
    [
        b"A: " + b"a" * 8_200 + b"\r\n",
        b"A: b\r\n" * (HEADERS_MAX + 1),
        b"".join(b"A%d: %s\r\n" % (n, b"a" * 4_000) for n in range(60)),
    ],
    ids=["field", "fields", "whole"],
)
async def test_a_header_is_bounded_in_each_way(header: bytes, asked_before: int):
    async with listening() as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        for _ in range(asked_before):
            assert b" 200 " in await caller.ask()
        begin = b"GET / HTTP/1.1\r\nHost: x\r\n"
        try:
            for start in range(0, len(header), 2_000):
                await caller.send(begin + header[start : start + 2_000])
                begin = b""
                await asyncio.sleep(0.001)
            await caller.send(b"\r\n")
        except ConnectionError:
            pass  # cut off amid it
        told = await caller.read_to_end()
        assert told == b"" or told.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
        await until(lambda: listener.count == 0)
    assert HEADER_BYTES_MAX == 32_768


async def test_a_long_request_line_is_refused():
    async with listening() as (_, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        told = await caller.ask(b"GET /" + b"a" * 8_200 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 400 " in told.partition(b"\r\n")[0]


async def test_what_is_no_http_is_refused_in_our_words_and_leaves_no_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    async with listening() as (_, port), crowd() as callers:
        caplog.clear()
        for junk in (
            b"\x16\x03\x01\r\n\r\n",
            b"GET / HTTP/1.1\r\nfor\tged: x\r\n\r\n",
            GET[:-2] + b"Host: y\r\n\r\n",
        ):
            callers.append(caller := await Caller.connect(port))
            await caller.send(junk)
            told = await caller.read_to_end()
            assert b" 400 " in told.partition(b"\r\n")[0]
            assert b"application/problem+json" in told
            assert b"ged" not in told
    assert caplog.records == []


@pytest.mark.parametrize(
    "said",
    [b"", GET, b"GET / HTTP/1.1\r\nA", b"\x16\x03\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n"],
    ids=["nothing", "request", "half", "junk", "half_post"],
)
async def test_a_connection_that_ended_leaves_nothing_for_the_collector(said: bytes):
    async with listening(connections_per_address=20) as (listener, port):
        gc.collect()
        gc.disable()
        try:
            async with crowd() as callers:
                for _ in range(25):  # the last are turned away
                    callers.append(caller := await Caller.connect(port))
                    await caller.send(said)
                    if said in {GET, b"\x16\x03\r\n\r\n"}:
                        await caller.read()
                await until(lambda: listener.count == 20 or said == b"\x16\x03\r\n\r\n")
            await until(lambda: listener.count == 0)
            await asyncio.sleep(0.05)
            assert not [one for one in found_by_the_collector() if isinstance(one, Conversation)]
        finally:
            gc.enable()


def found_by_the_collector() -> list[object]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


async def test_requests_sent_without_waiting_are_answered_in_order_and_read_no_faster_than_that():
    order: list[str] = []

    async def slow(request: web.Request) -> web.Response:
        order.append(request.path)
        await asyncio.sleep(0.001)
        return web.Response(text=request.path)

    async with listening(slow) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        many = b"".join(b"GET /%03d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(200))
        sending = asyncio.ensure_future(caller.send(many))
        told = b""
        while told.count(b"HTTP/1.1 200") < 200:
            told += await caller.read()
            (conversation,) = (place._conversation for place in listener._places)
            assert len(conversation._messages) <= conversation._max_msg_queue_size
        await sending
    assert order == [f"/{n:03}" for n in range(200)]


async def test_a_body_that_breaks_off_frees_its_place():
    async def reading(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async with listening(reading) as (listener, port):
        caller = await Caller.connect(port)
        await caller.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        caller.close()
        await until(lambda: listener.count == 0)
