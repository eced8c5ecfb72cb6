"""The API's port: how many connections it takes, of whom, and how long they may take to begin.

Decides about connections only; it must not know what is asked over them.
"""

import asyncio
import logging
import math
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from coordinator.api.addresses import network_of
from coordinator.api.conversation import Conversation
from coordinator.api.express import Express
from coordinator.api.handshakes import Handshakes
from coordinator.api.place import Place
from coordinator.api.port import Came, Port, say_and_close
from coordinator.api.rates import Rates
from coordinator.api.shelf import Plain
from coordinator.api.suspects import Suspects
from coordinator.descriptors import room_for
from coordinator.settings import LimitSettings

log = logging.getLogger("coordinator.api")

SEALED_BYTES: Final = 32 << 10
"""Of a connection by TLS that the system keeps until they are read: TLS takes in all of it at once
and keeps room for as much ever after, so by default two thousand callers who send what is refused
take a gigabyte. The largest body still comes within its ten seconds over a way of 20 ms."""
LINES_PER_S: Final = 0.2
"""Of the log about suspect addresses, after a first one: there may be thousands."""
_LOG: Final = "log"
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)

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
        port_type: Callable[[Came], Port] = Port,
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
        self._port = port_type(self._came)
        self._tls: ssl.SSLContext | None = None
        self._places: set[Place] = set()
        self._by_origin: Counter[str] = Counter()
        self._suspects: Suspects[Place] = Suspects(limits.suspects_per_s)
        self._handshakes: Handshakes[Place] = Handshakes()
        self._turn: asyncio.TimerHandle | None = None
        self._turn_at = math.inf
        self._lines = Rates()
        self._silent: dict[Place, None] = {}
        """Those that have not asked anything yet, oldest first."""
        self._let_go: dict[Place, None] = {}
        """Those that have had their last answer, oldest first."""

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Bind and serve; raises `OSError` when the address cannot be bound."""
        self._room = room_for(self._limits.connections)
        self._tls = tls
        await self._runner.setup()
        server = self._runner.server
        if self._front is not None and server is not None:
            server.request_handler = self._front(server.request_handler)
        await self._port.open(host, port, SEALED_BYTES if tls else None)

    def renew(self, tls: ssl.SSLContext) -> None:
        """Show another certificate to whoever connects from now on; nobody is cut off."""
        self._tls = tls

    async def stop(self) -> None:
        """Take no more connections, let requests in progress end within their time, then close."""
        self._port.close()
        if self._turn is not None:
            self._turn.cancel()
        for place in [*self._silent, *self._let_go]:
            self._cut_off(place)
        await self._runner.cleanup()

    @property
    def count(self) -> int:
        """Open connections, those that have not asked anything yet included."""
        return len(self._places)

    @property
    def held_back(self) -> int:
        """Those of them that wait for their turn, since others of their address were refused."""
        return len(self._suspects)

    def _came(self, connection: socket.socket, peer: Any) -> None:
        """A connection, which nothing was read of yet, takes its place or is turned away."""
        origin = network_of(peer[0] if isinstance(peer, tuple) else "")
        is_one_too_many = self._by_origin[origin] >= self._limits.connections_per_address
        if is_one_too_many or not self._has_room():
            say_and_close(connection, b"" if self._tls else _FULL)
            return
        place = Place(connection, origin, self._limits.header_timeout_s, self)
        self._places.add(place)
        self._by_origin[origin] += 1
        self._silent[place] = None
        if self._suspects.may_begin(origin, _now(), place):
            self._greet(place)
        self._look_later()

    def _has_room(self) -> bool:
        """Whether there is a place, or one can be made free.

        The oldest connection that has had its last answer makes room, then the oldest that has yet
        to ask something: who means to ask does so at once, and whoever opens connections to shut
        others out does not.
        """
        if self.count < self._room:
            return True
        oldest = next(iter(self._let_go or self._silent), None)
        if oldest is None:
            return False
        self._cut_off(oldest)
        return True

    def _converse(self, place: Place) -> Conversation:
        server = self._runner.server
        if server is None:
            raise RuntimeError("connections are served between start and stop only")
        return Conversation(server, place, self._limits, self._express)

    # -- whose turn it is ------------------------------------------------------------------

    def _greet(self, place: Place) -> None:
        """Nothing is held against it: it is served once there is time to shake hands."""
        if self._tls is None or self._handshakes.may_begin(place, _now()):
            place.begin(self._converse, self._tls)

    def _look_later(self) -> None:
        times = (self._suspects.next_at, self._handshakes.overdue_at)
        at = min((at for at in times if at is not None), default=None)
        if at is None or self._turn_at <= at:
            return
        if self._turn is not None:
            self._turn.cancel()
        self._turn_at = at
        self._turn = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._turn, self._turn_at = None, math.inf
        due = self._suspects.due(_now())
        if due is not None:
            self._greet(due)
        for place in self._handshakes.overdue(_now()):
            self.refused(place)
            self._cut_off(place)
        self._look_later()

    def _cut_off(self, place: Place) -> None:
        place.cut_off()
        self.ended(place)

    # -- what becomes of a place -----------------------------------------------------------

    def refused(self, place: Place) -> None:
        """Its caller took time for nothing: new connections of its address may have to wait."""
        if place not in self._places or not self._suspects.strike(place.origin, _now()):
            return
        if self._lines.take(_LOG, LINES_PER_S, _now()) == 0.0:
            log.warning("address_suspect address=%s", place.origin)

    def shaken(self, place: Place) -> None:
        """Its handshake is over: there is room for another one."""
        self._handshakes.over(place)
        following = self._handshakes.next(_now())
        if following is not None:
            following.begin(self._converse, self._tls)

    def asked(self, place: Place) -> None:
        """It has asked something: it is no longer the first to go when places are short."""
        self._silent.pop(place, None)

    def let_go(self, place: Place) -> None:
        """It has had its last answer: it is the first to go when places are short."""
        if place in self._places:
            self._let_go[place] = None

    def ended(self, place: Place) -> None:
        """It is free. Said again, it means nothing."""
        if place not in self._places:
            return
        self._places.remove(place)
        self._silent.pop(place, None)
        self._let_go.pop(place, None)
        self._suspects.gone(place)
        self.shaken(place)
        self._by_origin[place.origin] -= 1
        if not self._by_origin[place.origin]:
            del self._by_origin[place.origin]


def _now() -> float:
    return asyncio.get_running_loop().time()
