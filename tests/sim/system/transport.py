"""The client kit's way to a node, over simulated wires: real bytes of HTTP/1.1.

Decides what a client is told when no answer comes. Must not know what requests are about. Some
requests come once more, and late, as behind a proxy that tries again; nobody hears the answer.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from client.transport import CONNECT_TIMEOUT_S, Response, TransportFailed
from tests.sim.system.loop import Process

STRAY_S: Final = 4.0
"""A request comes again at most so much later: more than the longest lease."""
BODILESS: Final = (204, 304)


class Answering(asyncio.Protocol):
    """One connection: one question at a time, and whatever came of its answer so far."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.is_open = True
        self._waiter: asyncio.Future[Response] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    async def ask(self, request: bytes) -> Response:
        """The whole answer; ConnectionResetError when the connection ends before."""
        if not self.is_open:
            raise ConnectionResetError("the connection was closed")
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._waiter

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = _parsed(self._received)
        if answer is not None and self._waiter is not None and not self._waiter.done():
            response, self._received = answer
            self._waiter.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc or ConnectionResetError("the node hung up"))


class SimTransport:
    """Implements `client.transport.Transport`; keeps a connection to each node while it is idle."""

    def __init__(
        self, process: Process, *, stray_ratio: float, answered: Callable[[str, Response], None]
    ) -> None:
        self._process = process
        self._stray_ratio = stray_ratio
        self._answered = answered
        self._idle: dict[str, Answering] = {}
        self._strays: set[asyncio.Task[None]] = set()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Response:
        """The node's answer; raises `TransportFailed` when there is none."""
        authority, _, path = url.removeprefix("http://").partition("/")
        request = _written(method, f"/{path}", authority, headers, body)
        if method == "POST" and self._process.world.rng.random() < self._stray_ratio:
            self._stray(authority, request)
        was_sent = False
        try:
            async with asyncio.timeout(timeout_s):
                link = await self._link(authority, timeout_s)
                was_sent = True
                response = await self._exchanged(link, authority, request)
        except TimeoutError as error:
            what = f"no answer within {timeout_s:.3g} s"
            raise TransportFailed(what, was_sent=was_sent, has_timed_out=was_sent) from error
        except OSError as error:
            raise TransportFailed(str(error), was_sent=was_sent) from error
        self._answered(f"{method} {path.partition('?')[0]}", response)
        return response

    async def _link(self, authority: str, timeout_s: float) -> Answering:
        idle = self._idle.pop(authority, None)
        if idle is not None and idle.is_open:
            return idle
        host, _, port = authority.partition(":")
        async with asyncio.timeout(min(CONNECT_TIMEOUT_S, timeout_s)):
            _, link = await self._process.loop.create_connection(Answering, host, int(port))
        assert isinstance(link, Answering)
        return link

    async def _exchanged(self, link: Answering, authority: str, request: bytes) -> Response:
        try:
            response = await link.ask(request)
        except BaseException:
            link.transport.abort()  # an answer that comes late must not be taken for the next one
            raise
        if authority in self._idle:
            link.transport.close()
        else:
            self._idle[authority] = link
        return response

    def _stray(self, authority: str, request: bytes) -> None:
        async def again(delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(STRAY_S):
                    link = await self._link(authority, STRAY_S)
                    await self._exchanged(link, authority, request)

        delay_s = self._process.world.rng.uniform(0.0, STRAY_S)
        task = self._process.loop.create_task(again(delay_s))
        self._strays.add(task)
        task.add_done_callback(self._strays.discard)

    async def close(self) -> None:
        """Hangs up everywhere."""
        for link in self._idle.values():
            link.transport.close()
        self._idle.clear()


def _written(
    method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def _parsed(received: bytes) -> tuple[Response, bytes] | None:
    """The first answer in what was received, and what follows it; None if it is not whole yet."""
    head, separator, rest = received.partition(b"\r\n\r\n")
    if not separator:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split(" ", 2)[1])
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    if status in BODILESS:
        return Response(status, headers), rest
    size = int(headers["content-length"])  # small answers are never chunked
    if len(rest) < size:
        return None
    return Response(status, headers, rest[:size]), rest[size:]
