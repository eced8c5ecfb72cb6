"""Who asks for much and reads it slowly, or not at all."""

import asyncio
from pathlib import Path

from aiohttp import web

from coordinator.api.outgoing import LARGE_BYTES, PIECE_BYTES, Outgoing
from coordinator.api.problems import Refusal
from tests.hostile.callers import GET, Caller, crowd, listening
from tests.waiting import until

SIZE = 8 << 20
SMALL_WINDOW = 4_096


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def sender(outgoing: Outgoing, bodies: list[bytes]):
    """Answers with each body in turn."""
    given = iter(bodies)

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return outgoing.answer(request, next(given), 200, {})
        except Refusal as refusal:
            return web.Response(status=refusal.kind.status)

    return answer


async def test_a_large_answer_arrives_whole():
    body = bytes(range(256)) * (SIZE // 256)
    outgoing = Outgoing(SIZE, 20.0)
    async with listening(sender(outgoing, [body, b"small"])) as (_, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        head, _, arrived = (await caller.ask()).partition(b"\r\n\r\n")
        arrived += await caller.read_exactly(SIZE - len(arrived))
        assert arrived == body
        assert f"Content-Length: {SIZE}".encode() in head
        await until(lambda: outgoing.bytes == 0)
        assert (await caller.ask()).endswith(b"small")  # the connection goes on


async def test_many_who_do_not_read_hold_one_copy_between_them():
    body = bytes(SIZE)
    outgoing = Outgoing(SIZE, 20.0)
    readers = 40
    async with listening(sender(outgoing, [body] * readers)) as (_, port), crowd() as callers:
        before = memory_bytes()
        for _ in range(readers):
            callers.append(caller := await Caller.connect(port, read_bytes=SMALL_WINDOW))
            await caller.send(GET)
        await until(lambda: sum(outgoing._readers.values()) == readers)
        assert outgoing.bytes == SIZE
        await asyncio.sleep(0.2)
        assert memory_bytes() - before < readers * SIZE / 4  # with a copy each it is all of it


async def test_who_does_not_read_in_time_is_cut_off_and_holds_nothing_any_more():
    outgoing = Outgoing(SIZE, 0.2)
    async with listening(sender(outgoing, [bytes(SIZE)])) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port, read_bytes=SMALL_WINDOW))
        await caller.send(GET)
        await until(lambda: outgoing.bytes == SIZE)
        await until(lambda: listener.count == 0)
        assert outgoing.bytes == 0
        assert len(await caller.read_to_end()) < SIZE


async def test_who_reads_a_little_now_and_then_is_cut_off_as_well():
    outgoing = Outgoing(SIZE, 0.5)
    async with listening(sender(outgoing, [bytes(SIZE)])) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port, read_bytes=SMALL_WINDOW))
        await caller.send(GET)
        await until(lambda: listener.count == 1)

        async def is_cut_off() -> bool:
            await caller.read(512)
            return listener.count == 0

        await until(is_cut_off)


async def test_small_answers_that_nobody_reads_end_the_connection_too():
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bytes(LARGE_BYTES))

    async with listening(answer, answer_timeout_s=0.2) as (listener, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port, read_bytes=SMALL_WINDOW))
        await caller.send(GET * 60)
        await until(lambda: listener.count == 1)
        await until(lambda: listener.count == 0)


async def test_beyond_the_bound_callers_are_sent_away_until_there_is_room():
    first, second, third = bytes(SIZE), bytes(SIZE), bytes(SIZE)
    outgoing = Outgoing(SIZE + LARGE_BYTES, 20.0)
    answer = sender(outgoing, [first, second, first, third])
    async with listening(answer) as (_, port), crowd() as callers:
        for _ in range(4):
            callers.append(await Caller.connect(port, read_bytes=SMALL_WINDOW))
        await callers[0].send(GET)
        await until(lambda: outgoing.bytes == SIZE)
        assert b" 429 " in await callers[1].ask()
        assert b" 200 " in await callers[2].ask()  # the same bytes take no more room
        callers[0].close()
        callers[2].close()
        await until(lambda: outgoing.bytes == 0)
        assert b" 200 " in await callers[3].ask()


async def test_one_answer_is_given_however_large():
    outgoing = Outgoing(LARGE_BYTES, 20.0)
    body = bytes(LARGE_BYTES + PIECE_BYTES)
    async with listening(sender(outgoing, [body])) as (_, port), crowd() as callers:
        callers.append(caller := await Caller.connect(port))
        assert b" 200 " in await caller.ask()
