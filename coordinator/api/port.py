"""The sockets of one address, and what is taken from them in each turn of the loop.

Decides how many connections one turn takes in, and what happens when the process has no descriptor
left. It must not know who is let in, nor what is said.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

log = logging.getLogger("coordinator.api")

BACKLOG: Final = 1024
"""Connections that may wait to be accepted: a fleet reconnecting at once after a leader died."""
ACCEPTS_PER_TURN: Final = 16
"""Connections that one turn of the loop takes in. With one, as uvloop does it, newcomers wait for
seconds while a turn answers a request of everybody who is in; with all, those would wait."""
REST_S: Final = 0.5
"""Without descriptors nothing is accepted for so long: trying again at once would take a core."""

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Came = Callable[[socket.socket, Any], None]
"""Told of each connection: its socket, which is the listener's from then on, and its peer."""


class Port:
    """Listens until it is closed."""

    def __init__(self, came: Came) -> None:
        self._came = came
        self._sockets: list[socket.socket] = []
        self._resting: set[asyncio.TimerHandle] = set()

    async def open(self, host: str, port: int, received_bytes: int | None = None) -> None:
        """Bind every address of the host; raises `OSError` when one cannot be bound.

        The system keeps so much of each connection until it is read, and as much for itself; None:
        as much as it pleases.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                listening = socket.socket(family, kind, protocol)
                self._sockets.append(listening)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if received_bytes is not None:
                    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received_bytes)
                listening.setblocking(False)
                listening.bind(address)
                listening.listen(BACKLOG)
        except OSError as fault:
            self.close()
            raise OSError(
                fault.errno, f"cannot listen on {host}:{port}: {fault.strerror}"
            ) from None
        for listening in self._sockets:
            loop.add_reader(listening, self._take, listening)

    def close(self) -> None:
        """Take no more; what was taken goes on."""
        loop = asyncio.get_running_loop()
        for timer in self._resting:
            timer.cancel()
        for listening in self._sockets:
            loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()

    def _take(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as fault:
                if fault.errno not in _EXHAUSTED:
                    raise
                self._rest(listening, fault)
                return
            connection.setblocking(False)
            self._came(connection, peer)

    def _rest(self, listening: socket.socket, fault: OSError) -> None:
        log.error("accept_failed error=%s", fault.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def again() -> None:
            self._resting.discard(timer)
            loop.add_reader(listening, self._take, listening)

        timer = loop.call_later(REST_S, again)
        self._resting.add(timer)


def say_and_close(connection: socket.socket, last: bytes = b"") -> None:
    """End a connection that nobody serves, with what fits into its empty buffer."""
    with contextlib.suppress(OSError), connection:
        connection.send(last)
