"""Connections are taken in by the many, also while the loop is busy with those that are in."""

import asyncio
import contextlib
import gc
import resource
import socket
import ssl

import pytest
import uvloop
from aiohttp import web

from coordinator.api import port as ports
from coordinator.api.listen import Listener
from coordinator.api.port import ACCEPTS_PER_TURN
from coordinator.settings import LimitSettings
from tests.api.nodes import free_ports
from tests.waiting import until

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


def test_without_descriptors_the_port_rests_and_then_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(ports, "REST_S", 0.05)

    async def served():
        async with listening() as port:
            (free,) = free_ports(1)
            assert free
            waiting = socket.socket()
            waiting.setblocking(False)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, hard))
            try:
                with contextlib.suppress(BlockingIOError):
                    waiting.connect(("127.0.0.1", port))
                await until(lambda: "accept_failed" in caplog.text)
                await asyncio.sleep(0.2)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            reader, writer = await asyncio.open_connection(sock=waiting)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(20):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            writer.close()
        assert 2 <= len(caplog.records) <= 6, "it rested in between"

    uvloop.run(served())


def test_an_address_that_cannot_be_bound_is_named():
    async def refused():
        async with listening() as port:
            listener = Listener(web.Application(), LimitSettings())
            with pytest.raises(
                OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already"
            ):
                await listener.start("127.0.0.1", port)
            await listener.stop()

    uvloop.run(refused())


BOTH_LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


@BOTH_LOOPS
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_who_is_cut_off_is_gone_at_whatever_stage_it_is(new_loop, turns, has_tls):
    """Before its turn, before the first step of its handshake, in the middle of it, and served."""

    async def cut_off():
        (number,) = free_ports(1)
        listener = Listener(web.Application(), LimitSettings())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if has_tls else None
        await listener.start("127.0.0.1", number, tls)
        caller = socket.create_connection(("127.0.0.1", number))
        caller.setblocking(False)
        await until(lambda: listener.count == 1)
        for _ in range(turns):
            await asyncio.sleep(0)
        (place,) = listener._places
        place.cut_off()
        listener.ended(place)
        assert listener.count == 0
        assert await asyncio.wait_for(received(caller), 20) == b""
        caller.close()
        await listener.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(cut_off())
    gc.collect()  # whatever was left open warns, which is an error here


async def received(caller: socket.socket) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(caller, 1000)
    except ConnectionResetError:
        return b""
