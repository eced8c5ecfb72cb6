"""Connections are taken in by the many, also while the loop is busy with those that are in."""

import asyncio
import contextlib
import gc
import socket
import ssl

import pytest
import uvloop
from aiohttp import web

from coordinator.api.listen import ACCEPTS_PER_TURN, Listener
from coordinator.settings import LimitSettings
from tests.api.nodes import free_ports

CALLERS = 8 * ACCEPTS_PER_TURN


@contextlib.asynccontextmanager
async def listening(limits: LimitSettings | None = None):
    async def answer(_request):
        return web.Response()

    app = web.Application()
    app.router.add_get("/", answer)
    (port,) = free_ports(1)
    listener = Listener(app, limits or LimitSettings())
    await listener.start("127.0.0.1", port)
    try:
        yield port
    finally:
        await listener.stop()


def test_a_crowd_is_let_in_within_a_few_turns_of_the_loop():
    async def turns_until_all_are_answered():
        async with listening() as port:
            callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(CALLERS)]
            waiting = set(callers)
            turns = 0
            for caller in callers:
                caller.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                caller.setblocking(False)
            while waiting:
                turns += 1
                await asyncio.sleep(0)
                for caller in list(waiting):
                    with contextlib.suppress(BlockingIOError):
                        assert caller.recv(1000).startswith(b"HTTP/1.1 200 ")
                        waiting.discard(caller)
            for caller in callers:
                caller.close()
            return turns

    assert uvloop.run(turns_until_all_are_answered()) < CALLERS / 2


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_who_begins_a_header_as_soon_as_it_connects_has_asked_nothing_yet(run):
    """uvloop reads what is there before aiohttp's task has begun."""

    async def served():
        limits = LimitSettings(header_timeout_s=0.3, connections=CALLERS)
        async with listening(limits) as port:
            callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(CALLERS)]
            for caller in callers:
                caller.sendall(b"GET / HT")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(20):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 "), "one made room"
                for caller in callers:
                    begun, its_writer = await asyncio.open_connection(sock=caller)
                    with contextlib.suppress(ConnectionResetError):
                        assert await begun.read() == b"", "it was cut off"
                    its_writer.close()
            writer.close()

    run(served())


def test_the_port_is_free_again_once_it_has_stopped():
    async def use_again():
        async with listening() as port:
            pass
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=1)

    uvloop.run(use_again())


@pytest.mark.parametrize("after", [1, 2, 7, ACCEPTS_PER_TURN, 2 * ACCEPTS_PER_TURN])
@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_a_renewal_that_is_cancelled_leaves_no_port_open(new_loop, after):
    async def cancelled():
        (number,) = free_ports(1)
        listener = Listener(web.Application(), LimitSettings())
        await listener.start("127.0.0.1", number)
        renewing = asyncio.create_task(listener.renew(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))
        for _ in range(after):
            await asyncio.sleep(0)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await listener.stop()
        await asyncio.sleep(0.01)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", number), timeout=1)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(cancelled())
    gc.collect()
