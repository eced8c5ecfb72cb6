"""One connection, from the moment it is made to its end.

Decides how long a caller may take over a header and over reading an answer, what is said to a
request that is no HTTP, and when a request may be answered without a task (`express`): while none
is before it. It must not know routes nor handlers.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import msgspec
from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.web_server import Server

from coordinator.api.express import Express, Waiting
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


class _Sieve:
    """aiohttp's parser, which hands on only what was not taken by the express lane."""

    def __init__(self, parser: Any, takes: Callable[[Any, StreamReader], bool]) -> None:
        self._parser = parser
        self._takes = takes
        self.message_consumed = parser.message_consumed
        self.set_upgraded = parser.set_upgraded
        self.pause_reading = parser.pause_reading

    def feed_data(self, data: bytes) -> tuple[Sequence[Any], bool, bytes]:
        """The requests that are whole up to their bodies, as aiohttp's."""
        found: tuple[Sequence[Any], bool, bytes] = self._parser.feed_data(data)
        messages, is_upgraded, tail = found
        if len(messages) == 1 and not is_upgraded and self._takes(*messages[0]):
            self._parser.message_consumed()
            return (), False, tail
        return found


class Conversation(web.RequestHandler):
    """aiohttp's side of a connection, which by itself waits for callers for ever."""

    __slots__ = (
        "_deadline",
        "_express",
        "_finished",
        "_has_taken",
        "_header_bytes",
        "_held",
        "_is_in",
        "_limits",
        "_patience",
        "_places",
        "_waiting",
    )

    def __init__(
        self,
        server: Server,
        places: Places,
        limits: LimitSettings,
        express: Express | None = None,
    ) -> None:
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
        self._express = express
        self._finished = 0
        """Of the requests that aiohttp was given (`_request_count`), how many it has answered."""
        self._has_taken = False
        self._waiting: tuple[Waiting, RawRequestMessage] | None = None
        self._held = b""
        """What came while an answer waits: the next request, of a caller that does not wait."""
        if express is not None:
            self._parser: Any = _Sieve(self._parser, self._takes)

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
        if self._waiting is not None:
            self._hold(data)
            return
        super().data_received(data)
        if self._has_taken:
            self._has_taken = False
            return
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
        if self._waiting is not None:
            self._waiting[0].forget()
            self._waiting = None
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

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer one of aiohttp's requests: what comes now has none before it."""
        answered = await super().finish_response(request, resp, start_time)
        self._finished += 1
        return answered

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

    # -- the express lane ----------------------------------------------------------------

    def _takes(self, message: Any, payload: StreamReader) -> bool:
        """Whether a request is answered without a task: when none is before it, and it is plain."""
        if self._finished != self._request_count or self._paused or self._express is None:
            return False
        took = self._express.take(message, payload, self)
        if took is None:
            return False
        self._has_taken = True
        if self._deadline is not None:
            self._end_header()
        self._header_bytes = 0
        self._next_keepalive_close_time = self._loop.time() + KEEPALIVE_S
        if isinstance(took, bytes):
            self._say(took)
        else:
            self._waiting = took, message
            self._request_in_progress = True  # a shutdown waits for it
        return True

    def answered(self, answer: bytes | None) -> None:
        """The answer of what waited; None: the ordinary way is to give it."""
        if self._waiting is None:
            return  # the connection is gone
        (waiting, message), self._waiting = self._waiting, None
        if answer is None:
            self._hand_on(waiting, message)
        else:
            self._say(answer)
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)
        held, self._held = self._held, b""
        if self._buffer_paused:
            self._resume_reading_for_buffer()
        if held:
            self.data_received(held)

    def _hand_on(self, waiting: Waiting, message: RawRequestMessage) -> None:
        payload, read = waiting.payload, waiting.asked.payload
        if read:  # by the express lane: as if nobody had read it yet
            payload = StreamReader(self, len(read) + 1, loop=self._loop)
            payload.feed_data(read)
            payload.feed_eof()
        self._request_count += 1
        self._messages.append((message, payload))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _say(self, answer: bytes) -> None:
        if self.transport is not None:
            self.transport.write(answer)

    def _hold(self, data: bytes) -> None:
        """Keep what comes too early, and read no more until its turn: one read at most is kept."""
        self._held += data
        if not self._buffer_paused:
            self._pause_reading_for_buffer()

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
