"""The API's port: how many connections it takes, of whom, and how long a first header may take.

Decides about connections only; it must not know what is asked over them.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiohttp import web

from coordinator.api.addresses import network_of
from coordinator.api.conversation import Conversation
from coordinator.api.express import Express
from coordinator.api.places import Admission
from coordinator.api.rates import Rates
from coordinator.api.shelf import Plain
from coordinator.api.suspects import Suspects
from coordinator.descriptors import room_for
from coordinator.settings import LimitSettings

log = logging.getLogger("coordinator.api")

BACKLOG: Final = 1024
"""Connections that may wait to be accepted: a fleet reconnecting at once after a leader died."""
ACCEPTS_PER_TURN: Final = 16
"""Connections that one turn of the loop takes in. uvloop takes one, and a turn of a busy loop
answers a request of everybody who is in: newcomers then wait for seconds behind them."""

LINES_PER_S: Final = 0.2
"""Of the log about suspect addresses, after a first one: there may be thousands."""
_LOG: Final = "log"

Front = Callable[[Plain], Plain]
"""Given what answers everything, what answers some of it sooner."""


class Listener:
    """Serves an application on one address, within bounds."""

    def __init__(
        self,
        app: web.Application,
        limits: LimitSettings,
        front: Front | None = None,
        express: Express | None = None,
    ) -> None:
        """`front` may answer before the application's router is asked, `express` before that."""
        self._limits = limits
        self._front = front
        self._express = express
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,  # a caller that left frees its place among the waiters
            access_log=None,
            shutdown_timeout=limits.shutdown_timeout_s,
        )
        self._ports: list[asyncio.Server] = []
        self._origins: dict[Conversation, str] = {}
        self._by_origin: Counter[str] = Counter()
        self._suspects: Suspects[Conversation] = Suspects(limits.suspects_per_s)
        self._turn: asyncio.TimerHandle | None = None
        self._lines = Rates()
        self._silent: dict[Conversation, None] = {}
        """Those that have not asked anything yet, oldest first."""
        self._let_go: dict[Conversation, None] = {}
        """Those that have had their last answer, oldest first."""

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Bind and serve; raises `OSError` when the address cannot be bound."""
        self._room = room_for(self._limits.connections)
        await self._runner.setup()
        server = self._runner.server
        if self._front is not None and server is not None:
            server.request_handler = self._front(server.request_handler)
        loop = asyncio.get_running_loop()
        first = await loop.create_server(
            self._accepted, host, port, backlog=BACKLOG, start_serving=False, **self._shaking(tls)
        )
        self._ports.append(first)
        await first.start_serving()
        await self._listen_too(first.sockets, ACCEPTS_PER_TURN - 1, tls)

    async def renew(self, tls: ssl.SSLContext) -> None:
        """Show another certificate to whoever connects from now on; nobody is cut off.

        The port stays bound: its sockets are listened on anew before they are let go. Cancelled
        in between, both are there for `stop` to close.
        """
        former = list(self._ports)
        await self._listen_too(former[0].sockets, ACCEPTS_PER_TURN, tls)
        for port in former:
            self._ports.remove(port)
            port.close()

    async def _listen_too(
        self, sockets: Iterable[socket.socket], times: int, tls: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for listening in sockets:
            for _ in range(times):
                twin = socket.socket(fileno=os.dup(listening.fileno()))
                port = await loop.create_server(
                    self._accepted,
                    sock=twin,
                    backlog=BACKLOG,
                    start_serving=False,  # which may be cancelled, and the port forgotten with it
                    **self._shaking(tls),
                )
                self._ports.append(port)
                await port.start_serving()

    def _shaking(self, tls: ssl.SSLContext | None) -> dict[str, Any]:
        """How TLS begins. A handshake has as much time as a header."""
        if tls is None:
            return {}
        return {"ssl": tls, "ssl_handshake_timeout": self._limits.header_timeout_s}

    async def stop(self) -> None:
        """Take no more connections, let requests in progress end within their time, then close."""
        for port in self._ports:
            port.close()
        if self._turn is not None:
            self._turn.cancel()
        for conversation in [*self._silent, *self._let_go]:
            conversation.cut_off()
        await self._runner.cleanup()

    @property
    def count(self) -> int:
        """Open connections, those that have not asked anything yet included."""
        return len(self._origins)

    @property
    def held_back(self) -> int:
        """Those of them that wait for their turn, since others of their address were refused."""
        return len(self._suspects)

    def _accepted(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None:
            raise RuntimeError("connections are taken between start and stop only")
        return Conversation(server, self, self._limits, self._express)

    def admit(self, conversation: Conversation, peer: Any) -> Admission:
        """Whether there is a place for one more connection; it is taken then.

        Asked when a connection is made, not when it is accepted: many are accepted in one turn of
        the loop, before the first of them is made. When there is no place, the oldest connection
        that has had its last answer makes room, then the oldest that has yet to ask something: who
        means to ask does so at once, and whoever opens connections to shut others out does not.
        """
        origin = network_of(peer[0] if isinstance(peer, tuple) else "")
        if self._by_origin[origin] >= self._limits.connections_per_address:
            return Admission.FULL
        if self.count >= self._room:
            oldest = next(iter(self._let_go or self._silent), None)
            if oldest is None:
                return Admission.FULL
            oldest.cut_off()
            self.ended(oldest)
        self._origins[conversation] = origin
        self._by_origin[origin] += 1
        self._silent[conversation] = None
        if self._suspects.may_begin(origin, _now(), conversation):
            return Admission.NOW
        self._look_later()
        return Admission.LATER

    def _look_later(self) -> None:
        at = self._suspects.next_at
        if at is not None and self._turn is None:
            self._turn = asyncio.get_running_loop().call_at(at, self._begin_next)

    def _begin_next(self) -> None:
        self._turn = None
        due = self._suspects.due(_now())
        if due is not None:
            due.begin()
        self._look_later()

    def has_room(self, conversation: Conversation, size: int) -> bool:
        """Whether so much more that it said before its turn can be kept."""
        return self._suspects.has_room(conversation, size)

    def refused(self, conversation: Conversation) -> None:
        """Its caller took time for nothing: new connections of its address may have to wait."""
        origin = self._origins.get(conversation)
        if origin is None or not self._suspects.strike(origin, _now()):
            return
        if self._lines.take(_LOG, LINES_PER_S, _now()) == 0.0:
            log.warning("address_suspect address=%s", origin)

    def asked(self, conversation: Conversation) -> None:
        """It has asked something: it is no longer the first to go when places are short."""
        self._silent.pop(conversation, None)

    def let_go(self, conversation: Conversation) -> None:
        """It has had its last answer: it is the first to go when places are short."""
        self._let_go[conversation] = None

    def ended(self, conversation: Conversation) -> None:
        """Its place is free. Said again, it means nothing."""
        origin = self._origins.pop(conversation, None)
        if origin is None:
            return
        self._silent.pop(conversation, None)
        self._let_go.pop(conversation, None)
        self._suspects.gone(conversation)
        self._by_origin[origin] -= 1
        if not self._by_origin[origin]:
            del self._by_origin[origin]


def _now() -> float:
    return asyncio.get_running_loop().time()
