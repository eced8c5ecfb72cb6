"""The place of one connection, from the moment it was accepted to its end.

Decides how long a connection may take until it is served: what it says before that stays in the
operating system, unread. It must not know why it has to wait, nor what is said over it.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from coordinator.api.port import say_and_close

FAREWELL_S: Final = 2.0
"""How long TLS waits for the other side's last word; asyncio would wait for half a minute."""


class Holds(Protocol):
    """Who counts places, and is told what becomes of each."""

    def shaken(self, place: "Place") -> None:
        """Its handshake is over: there is room for another one."""

    def asked(self, place: "Place") -> None:
        """It has asked something: it is no longer the first to go when places are short."""

    def refused(self, place: "Place") -> None:
        """Its caller took a node's time for nothing: a sign of one that means no good."""

    def let_go(self, place: "Place") -> None:
        """It has had its last answer and only has to read it: it is the first to go."""

    def ended(self, place: "Place") -> None:
        """It is free."""


class Conversation(Protocol):
    """What is said over a connection that is served: an asyncio protocol, too."""

    def cut_off(self) -> None:
        """End it without another word."""

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is over, or never began."""


class Place:
    """One connection's."""

    def __init__(self, connection: socket.socket, origin: str, limit_s: float, held: Holds) -> None:
        """Waits from now on until its turn comes, but for no longer than `limit_s`."""
        self.origin: Final = origin
        """Whose it is."""
        self._connection: Final = connection
        self._limit_s: Final = limit_s
        self._held: Final = held
        self._conversation: Conversation | None = None
        self._handshake: asyncio.Task[Any] | None = None
        self._patience = asyncio.get_running_loop().call_later(limit_s, self._give_up)

    def begin(
        self, converse: Callable[["Place"], Conversation], tls: ssl.SSLContext | None
    ) -> None:
        """Its turn has come: served by what `converse` makes, as soon as hands are shaken."""
        self._patience.cancel()
        self._conversation = conversation = converse(self)
        limits: dict[str, Any] = {}
        if tls is not None:  # a handshake has as much time as a header
            limits = {"ssl_handshake_timeout": self._limit_s, "ssl_shutdown_timeout": FAREWELL_S}
        loop = asyncio.get_running_loop()
        shaking = loop.connect_accepted_socket(
            lambda: cast("asyncio.Protocol", conversation), self._connection, ssl=tls, **limits
        )
        self._handshake = loop.create_task(shaking)
        self._handshake.add_done_callback(self._shaken)

    def cut_off(self) -> None:
        """End it without another word."""
        self._patience.cancel()
        if self._handshake is not None and self._handshake.cancel():
            return
        if self._conversation is not None:
            self._conversation.cut_off()
        else:
            say_and_close(self._connection)

    def asked(self) -> None:
        """It has asked something."""
        self._held.asked(self)

    def refused(self) -> None:
        """It was refused something, or had its time."""
        self._held.refused(self)

    def let_go(self) -> None:
        """It has had its last answer."""
        self._held.let_go(self)

    def ended(self) -> None:
        """It is over."""
        self._conversation = None  # which refers back: both would be garbage
        self._held.ended(self)

    def _give_up(self) -> None:
        self.cut_off()
        self.ended()  # who waited for a turn did nothing wrong

    def _shaken(self, handshake: asyncio.Task[Any]) -> None:
        self._handshake = None
        self._held.shaken(self)
        fault = None if handshake.cancelled() else handshake.exception()
        if fault is None and not handshake.cancelled():
            return
        say_and_close(self._connection)
        if fault is not None:  # it spoke no TLS, or dawdled
            self.refused()
        if self._conversation is not None:
            self._conversation.connection_lost(None)  # it refers to itself, and would be garbage
