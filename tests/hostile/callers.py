"""Callers below HTTP, who mean no good: they send and read what and when they want."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, Self

from aiohttp import web

from coordinator.api.listen import Listener
from coordinator.settings import LimitSettings
from tests.api.nodes import free_ports

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENCE_S = 20.0


class Caller:
    """One TCP connection from an address of loopback."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(
        cls, port: int, source: str = "127.0.0.1", read_bytes: int | None = None
    ) -> Self:
        connection = socket.socket()
        if read_bytes is not None:  # before it connects: the window is agreed upon then
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, read_bytes)
        connection.bind((source, 0))
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        return cls(connection)

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._connection, data)

    async def read(self, size: int = 1 << 16) -> bytes:
        """What has come, or b"" at the end of the connection, however it ended."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self._loop.sock_recv(self._connection, size)
            except ConnectionError:
                return b""

    async def read_to_end(self) -> bytes:
        parts = []
        while part := await self.read():
            parts.append(part)
        return b"".join(parts)

    async def read_exactly(self, size: int) -> bytes:
        parts, left = [], size
        while left and (part := await self.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    async def ask(self, request: bytes = GET) -> bytes:
        """Send and give the first bytes of the answer."""
        await self.send(request)
        return await self.read()

    def close(self) -> None:
        self._connection.close()


@contextlib.asynccontextmanager
async def crowd() -> AsyncIterator[list[Caller]]:
    """A list of callers that are closed in the end."""
    callers: list[Caller] = []
    try:
        yield callers
    finally:
        for caller in callers:
            caller.close()


@contextlib.asynccontextmanager
async def listening(answer: Any = None, **limits: Any) -> AsyncIterator[tuple[Listener, int]]:
    """A port within limits, where everything is answered with an empty 200 or by `answer`."""

    async def empty(_: web.Request) -> web.StreamResponse:
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer or empty)
    (port,) = free_ports(1)
    listener = Listener(app, LimitSettings(**limits))
    await listener.start("127.0.0.1", port)
    try:
        yield listener, port
    finally:
        await listener.stop()
