"""One connection, from the moment it is made to its end.

Decides how long a caller may take over a header and over reading an answer, and what is said to a
request that is no HTTP. It must not know routes nor handlers.
"""

import asyncio
from typing import Any, Final, Protocol, cast

import msgspec
from aiohttp import web
from aiohttp.web_server import Server

from coordinator.api.problems import PROBLEM_TYPE, PROBLEMS, Problem
from coordinator.settings import LimitSettings

KEEPALIVE_S: Final = 75.0
"""Idle connections live this long: longer than the longest heartbeat interval in use."""
LINGER_S: Final = 2.0
"""How long the rest of a refused body is still read, so that the caller sees the refusal."""
HEADER_BYTES_MAX: Final = 32 << 10
"""Of a whole header; ours are below 2 KiB, and proxies and browsers add some KiB."""
HEADERS_MAX: Final = 64
"""Fields of a header, as aiohttp counts them."""

_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)


class Places(Protocol):
    """Who counts connections."""

    def admit(self, conversation: "Conversation", peer: Any) -> bool:
        """Whether there is a place for one more; it is taken then."""

    def asked(self, conversation: "Conversation") -> None:
        """It has asked something: it is no longer the first to go when places are short."""

    def ended(self, conversation: "Conversation") -> None:
        """Its place is free."""


class Conversation(web.RequestHandler):
    """aiohttp's side of a connection, which by itself waits for callers for ever."""

    __slots__ = ("_deadline", "_header_bytes", "_is_in", "_limits", "_patience", "_places")

    def __init__(self, server: Server, places: Places, limits: LimitSettings) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGER_S,
            max_headers=HEADERS_MAX,
            auto_decompress=False,  # compressed bodies are refused, never unpacked
            access_log=None,  # type: ignore[arg-type]  # as AppRunner says it: none is kept
        )
        self._places = places
        self._limits = limits
        self._is_in = False
        self._header_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take part, or be turned away when there is no place."""
        self._is_in = self._places.admit(self, transport.get_extra_info("peername"))
        if not self._is_in:
            full = cast("asyncio.Transport", transport)
            full.write(_FULL)
            full.close()
            return
        super().connection_made(transport)
        self._begin_header()

    def data_received(self, data: bytes) -> None:
        """Part of a header or of a body. A header has to be whole in time, and within a size."""
        if not self._is_in:
            return
        super().data_received(data)
        waiting = self._waiter
        if waiting is None or waiting.done():  # a header is whole, or this belongs to a body
            if self._deadline is not None:
                self._end_header()
            return
        self._header_bytes += len(data)
        if self._header_bytes > HEADER_BYTES_MAX:
            self.cut_off()
        elif self._deadline is None:
            self._begin_header()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The end, from either side."""
        if not self._is_in:
            return
        self._is_in = False
        for timer in (self._deadline, self._patience):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self._places.ended(self)

    def pause_writing(self) -> None:
        """The caller does not read: what it was answered fills memory from now on."""
        super().pause_writing()
        self._patience = asyncio.get_running_loop().call_later(
            self._limits.answer_timeout_s, self.cut_off
        )

    def resume_writing(self) -> None:
        """The caller has read nearly everything that waited for it."""
        super().resume_writing()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP is refused, and cut off.

        Anybody can send it, so it is not logged: a stranger could fill the disk, and the parser's
        own words quote whatever was sent.
        """
        if status != 400:
            return super().handle_error(request, status, exc, message)
        problem = Problem(
            type="/problems/invalid",
            title=PROBLEMS["invalid"].title,
            status=status,
            detail="this is no HTTP request that could be read",
            instance="",
            reason="invalid",
        )
        response = web.Response(
            body=msgspec.json.encode(problem),
            status=status,
            headers={"Content-Type": PROBLEM_TYPE},
        )
        response.force_close()
        return response

    def cut_off(self) -> None:
        """End it without another word."""
        transport: Any = self.transport
        if transport is not None:
            transport.abort()

    def _begin_header(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(
            self._limits.header_timeout_s, self.cut_off
        )

    def _end_header(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._header_bytes = 0
        self._places.asked(self)
