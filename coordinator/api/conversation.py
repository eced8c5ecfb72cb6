"""One connection, from the moment it is made to its end.

Decides how long a caller may take over a header and over reading an answer, what is said to a
request that is no HTTP, and when a request may be answered without a task (`express`): while none
is before it. It must not know routes nor handlers.
"""

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.web_server import Server

from coordinator.api.express import Express
from coordinator.api.place import Place
from coordinator.api.problems import PROBLEM_TYPE, PROBLEMS, Problem
from coordinator.api.sieve import Sieve
from coordinator.api.waiting import Waiting
from coordinator.settings import LimitSettings

KEEPALIVE_S: Final = 75.0
"""Idle connections live this long: longer than the longest heartbeat interval in use."""
LINGER_S: Final = 2.0
"""How long a connection whose body was refused is kept, so that the caller sees the refusal."""
LINGER_BYTES: Final = 64 << 10
"""Of a refused body that are still read, so that the connection is good for another request: as
much as most requests may send. Whoever sends more is heard no further: reading two MiB to refuse
them cost a node more than the whole request of an honest caller."""
HEADER_BYTES_MAX: Final = 32 << 10
"""Of a header that is not whole yet; ours are below 2 KiB, and proxies and browsers add some KiB.
What comes whole in one read is bounded by aiohttp: so many fields of 8 KiB."""
HEADERS_MAX: Final = 64
"""Fields of a header, as aiohttp counts them."""

_STRIKES: Final = frozenset({400, 401, 413, 429})
"""Answers that honest callers hear seldom, or once before they wait as long as they are told."""


class Conversation(web.RequestHandler):
    """aiohttp's side of a connection, which by itself waits for callers for ever."""

    __slots__ = (
        "_deadline",
        "_express",
        "_finished",
        "_has_taken",
        "_header_bytes",
        "_held",
        "_limits",
        "_patience",
        "_place",
        "_waiting",
    )

    def __init__(
        self,
        server: Server,
        place: Place,
        limits: LimitSettings,
        express: Express | None = None,
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=0.0,  # it would read on for as long as somebody sends: see `_linger`
            max_headers=HEADERS_MAX,
            auto_decompress=False,  # compressed bodies are refused, never unpacked
            access_log=None,  # type: ignore[arg-type]  # as AppRunner says it: none is kept
        )
        self._place = place
        self._limits = limits
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
            self._parser: Any = Sieve(self._parser, self._takes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be served from now on; its header has its time from now, too."""
        super().connection_made(transport)
        self._begin_header()

    def data_received(self, data: bytes) -> None:
        """Part of a header or of a body. A header has to be whole in time, and within a size."""
        if self._waiting is not None:
            if self._waiting[0].is_short:
                self._hold(data)
                return
            # Unread for so long, it would hide that the caller is gone.
            self._waiting[0].forget()
            self.answered(None)
        super().data_received(data)
        if self._has_taken:
            self._has_taken = False
            return
        waiting = self._waiter
        # Without a request yet, aiohttp's task may only not have begun: uvloop reads before that.
        if self._request_count and (waiting is None or waiting.done()):
            # A header is whole, or this belongs to a body.
            if self._deadline is not None:
                self._end_header()
            return
        self._header_bytes += len(data)
        if self._header_bytes > HEADER_BYTES_MAX:
            self._give_up()
        elif self._deadline is None:
            self._begin_header()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The end, from either side."""
        super().connection_lost(exc)
        for timer in (self._deadline, self._patience):
            if timer is not None:
                timer.cancel()
        if self._waiting is not None:
            self._waiting[0].forget()
            self._waiting = None
        self._place.ended()

    def pause_writing(self) -> None:
        """The caller does not read: what it was answered fills memory from now on."""
        super().pause_writing()
        self._patience = asyncio.get_running_loop().call_later(
            self._limits.answer_timeout_s, self._give_up
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
        if exc is not None:
            exc.__traceback__ = None  # it refers back to the connection: garbage of a stranger's
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

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer, and let go of a caller that still sends what was not wanted."""
        answered = await super().finish_response(request, resp, start_time)
        self._finished += 1  # what comes now has none before it
        if not resp.keep_alive:
            self._express = None  # nothing that comes now is answered
        is_unheard = not request.content.is_eof()
        if resp.status in _STRIKES or (is_unheard and not resp.keep_alive):
            self._place.refused()
        if is_unheard:
            await self._linger(request.content, is_last=not resp.keep_alive)
        return answered

    async def _linger(self, rest: StreamReader, *, is_last: bool) -> None:
        """Take the little that is left of a body, or stop reading until the caller has seen why.

        Closing at once would reset the connection, and with it the answer that is on its way. What
        is sent meanwhile waits in the caller's own system.
        """
        if not is_last and await self._is_soon_over(rest):
            return
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        rest.read_nowait()  # it would be kept for as long
        transport.pause_reading()
        if transport.can_write_eof():
            transport.write_eof()
        self._place.let_go()
        await asyncio.sleep(LINGER_S)
        self.cut_off()

    async def _is_soon_over(self, rest: StreamReader) -> bool:
        size = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while size <= LINGER_BYTES and not rest.at_eof():
                    size += len(await rest.readany())
        except (TimeoutError, web.RequestPayloadError):
            return False
        return rest.at_eof()

    def close(self) -> None:
        """Take no more requests, and end when none is under way: the node stops.

        aiohttp's task goes on while an answer waits, since that may yet be left to it.
        """
        if self._waiting is None:
            super().close()
        else:
            self._close = True

    def cut_off(self) -> None:
        """End it without another word."""
        transport: Any = self.transport
        if transport is not None:
            transport.abort()

    def _give_up(self) -> None:
        """Its caller had its time."""
        self._place.refused()
        self.cut_off()

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

    def _process_keepalive(self) -> None:
        """Look whether it was idle for too long; while an answer waits it is not."""
        if self._waiting is not None:
            self._next_keepalive_close_time = self._loop.time() + KEEPALIVE_S
        super()._process_keepalive()

    def answered(self, answer: bytes | None) -> None:
        """The answer of what waited; None: the ordinary way is to give it."""
        if self._waiting is None:
            return  # the connection is gone
        (waiting, message), self._waiting = self._waiting, None
        if answer is None:
            self._hand_on(waiting, message)
        else:
            self._say(answer)
            self._next_keepalive_close_time = self._loop.time() + KEEPALIVE_S
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)
            if self._close:
                super().close()  # now
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
            self._limits.header_timeout_s, self._give_up
        )

    def _end_header(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._header_bytes = 0
        self._place.asked()
