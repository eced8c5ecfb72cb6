"""The API's port: how many connections it takes and how long a caller may dawdle.

Decides about connections only; it must not know what is asked over them.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final, cast

from aiohttp import web

from coordinator.settings import LimitSettings

BACKLOG: Final = 1024
"""Connections that may wait to be accepted: a fleet reconnecting at once after a leader died."""
ACCEPTS_PER_TURN: Final = 16
"""Connections that one turn of the loop takes in. uvloop takes one, and a turn of a busy loop
answers a request of everybody who is in: newcomers then wait for seconds behind them."""
KEEPALIVE_S: Final = 75.0
"""Idle connections live this long: longer than the longest heartbeat interval in use."""
LINGER_S: Final = 2.0
"""How long the rest of a refused body is still read, so that the caller sees the refusal."""
HEADER_BYTES_MAX: Final = 64 << 10
"""A first header larger than this is no header; aiohttp's own limits are far lower."""

_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)


class Listener:
    """Serves an application on one address, within bounds."""

    def __init__(self, app: web.Application, limits: LimitSettings) -> None:
        self._limits = limits
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,  # a caller that left frees its place among the waiters
            access_log=None,
            keepalive_timeout=KEEPALIVE_S,
            shutdown_timeout=limits.shutdown_timeout_s,
            lingering_time=LINGER_S,
            auto_decompress=False,  # compressed bodies are refused, never unpacked
        )
        self._ports: list[asyncio.Server] = []
        self._gates: set[_Gate] = set()

    async def start(self, host: str, port: int) -> None:
        """Bind and serve; raises `OSError` when the address cannot be bound."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        first = await loop.create_server(self._accepted, host, port, backlog=BACKLOG)
        self._ports.append(first)
        for listening in first.sockets:
            for _ in range(ACCEPTS_PER_TURN - 1):
                twin = socket.socket(fileno=os.dup(listening.fileno()))
                self._ports.append(
                    await loop.create_server(self._accepted, sock=twin, backlog=BACKLOG)
                )

    async def stop(self) -> None:
        """Take no more connections, let requests in progress end within their time, then close."""
        for port in self._ports:
            port.close()
        for gate in list(self._gates):
            gate.shut()
        await self._runner.cleanup()

    @property
    def count(self) -> int:
        """Open connections, those that have not asked anything yet included."""
        server = self._runner.server
        return 0 if server is None else len(server.connections) + len(self._gates)

    def _accepted(self) -> asyncio.Protocol:
        return _Gate(self._gates, self._admit, self._limits.header_timeout_s)

    def _admit(self) -> web.RequestHandler | None:
        """What will answer one more connection; None when there are too many.

        Asked when a connection is made, not when it is accepted: many are accepted in one turn of
        the loop, before the first of them is made.
        """
        server = self._runner.server
        if server is None:
            return None
        if self.count >= self._limits.connections:
            return None
        return server()


class _Gate(asyncio.Protocol):
    """Holds a new connection until its first header is complete, but not for long.

    aiohttp itself waits for a header for as long as it keeps idle connections. A connection too
    many is turned away here.
    """

    def __init__(
        self,
        gates: "set[_Gate]",
        admit: Callable[[], web.RequestHandler | None],
        timeout_s: float,
    ) -> None:
        self._gates = gates
        self._admit = admit
        self._timeout_s = timeout_s
        self._received = bytearray()
        self._handler: web.RequestHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._handler = self._admit()
        if self._handler is None:
            self._transport.write(_FULL)
            self._transport.close()
            return
        self._gates.add(self)
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self.shut)

    def data_received(self, data: bytes) -> None:
        if self._handler is None:
            return
        self._received += data
        if b"\r\n\r\n" in self._received or len(self._received) > HEADER_BYTES_MAX:
            self._open()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._leave()

    def shut(self) -> None:
        """End a connection that has not asked anything yet."""
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    def _open(self) -> None:
        self._leave()
        if self._transport is None or self._handler is None:
            return
        self._transport.set_protocol(self._handler)
        self._handler.connection_made(self._transport)
        self._handler.data_received(bytes(self._received))

    def _leave(self) -> None:
        self._gates.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
