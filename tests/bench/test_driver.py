"""The HTTP driver of the benches counts answers that came, and hides none that were wrong."""

import random

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.api import target
from bench.api.bare import make_app
from bench.api.driver import FIRST_SEQUENCE, JSON, MSGPACK, Drive, Request, drive
from coordinator.api.records import HeartbeatRequest

HELD = {name: {"0": 7, "1": 8} for name in target.USUAL.names[:4]}


@pytest.fixture
async def bare():
    server = TestServer(make_app())
    await server.start_server()
    yield str(server.make_url(""))
    await server.close()


def task(url, connections):
    return Drive(url, connections, seconds=0.2, warm_up_s=0.05)


@pytest.mark.parametrize("media", [JSON, MSGPACK])
async def test_heartbeats_count_their_sequence_up_and_are_all_answered(bare, media):
    requests = target.heartbeats(target.USUAL, HELD, random.Random(1), media)
    driven = await drive(task(bare, requests))
    assert driven.failed == 0
    assert driven.answers_per_s > 0
    assert driven.answers == driven.last_sequence - FIRST_SEQUENCE
    assert driven.answers >= driven.answers_per_s * 0.2
    assert 0.0 < driven.latency_p50_ms <= driven.latency_p99_ms <= driven.latency_p999_ms


@pytest.mark.parametrize("media", [JSON, MSGPACK])
async def test_a_heartbeat_is_of_the_medium_that_it_names(media):
    ((request,), *_) = target.heartbeats(target.USUAL, HELD, random.Random(1), media)
    decoder = msgspec.json if media == JSON else msgspec.msgpack
    assert decoder.decode(request.body, type=HeartbeatRequest).shards.keys() == {"0", "1"}
    ((silent,), *_) = target.heartbeats(
        target.USUAL, HELD, random.Random(1), media, has_loads=False
    )
    assert decoder.decode(silent.body, type=HeartbeatRequest).shards is None


async def test_look_ups_go_round_the_keys_of_each_connection(bare):
    driven = await drive(task(bare, target.lookups(random.Random(1))[:4]))
    assert driven.failed == 0
    assert driven.last_sequence == FIRST_SEQUENCE


async def test_an_answer_other_than_200_is_a_failure_with_an_example(bare):
    driven = await drive(task(bare, [[Request("GET", "/nothing-here")]]))
    assert driven.failed >= 1
    assert driven.answers_per_s == 0.0
    assert "404" in driven.example


async def driven_against(answer):
    """What came of asking a server that answers like this."""
    app = web.Application()
    app.router.add_get("/", answer)
    server = TestServer(app)
    await server.start_server()
    try:
        return await drive(task(str(server.make_url("")), [[Request("GET", "/")]]))
    finally:
        await server.close()


async def test_an_answer_in_pieces_is_one_answer():
    async def slowly(request):
        response = web.StreamResponse(headers={"Content-Length": "6"})
        await response.prepare(request)
        await response.write(b"abc")
        await response.write(b"def")
        return response

    driven = await driven_against(slowly)
    assert driven.failed == 0
    assert driven.answers > 1


async def test_an_answer_in_chunks_is_one_answer():
    async def streamed(request):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"abc")
        await response.write_eof(b"def")
        return response

    driven = await driven_against(streamed)
    assert driven.failed == 0
    assert driven.answers > 1
