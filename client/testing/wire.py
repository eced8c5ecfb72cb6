"""The way from clients to the node in the same process: real HTTP, no socket, and faults to order.

Decides which requests come through. It must not know what they are about, beyond whose they are.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from client.transport import Response, TransportFailed

# What an executor says for itself; what operators say about one is none of it.
_OF_EXECUTOR: Final = re.compile(
    r"/v1/namespaces/[^/]+/executors/(?P<name>[^/]+)(?:/(?P<what>heartbeat|assignments|acks))?"
)
_BODILESS: Final = (204, 304)
_HEAD_END: Final = b"\r\n\r\n"


class Wire:
    """All that clients say, on its way to the node."""

    def __init__(self) -> None:
        self.connect: Callable[[], Awaitable[asyncio.Protocol]] | None = None
        """Gives the node's end of a new connection; None while no node can be reached."""
        self.latency_s = 0.0
        """How long each request takes until the node hears of it."""
        self.requests_total = 0
        """Every request that was sent, whether it came through or not."""
        self.observe: Callable[[str, Response | None], None] = lambda _what, _answer: None
        """Told of each when it is over: method and path, and the answer, None if there was none."""
        self.is_up = True
        self._cut: set[str] = set()
        self._mute: set[str] = set()
        self._under_way: dict[asyncio.Task[Response], str] = {}

    def cut(self, executor: str) -> None:
        """Nothing that this executor says or asks comes through."""
        self._cut.add(executor)
        self._break(lambda of: of == executor)

    def mute(self, executor: str) -> None:
        """Its heartbeats do not come through, all else does."""
        self._mute.add(executor)

    def heal(self, executor: str) -> None:
        """What it says comes through again."""
        self._cut.discard(executor)
        self._mute.discard(executor)

    def down(self) -> None:
        """The node cannot be reached; whoever waits for an answer gets none."""
        self.is_up = False
        self._break(lambda _: True)

    def _break(self, is_hit: Callable[[str], bool]) -> None:
        for task, executor in list(self._under_way.items()):
            if is_hit(executor):
                task.cancel()

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        """The node's answer; raises `TransportFailed` when a fault is in between."""
        self.requests_total += 1
        parts, answer = urlsplit(url), None
        try:
            answer = await self._carried(method, parts, headers, body)
        finally:
            self.observe(f"{method} {parts.path}", answer)
        return answer

    async def _carried(
        self, method: str, parts: SplitResult, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        found = _OF_EXECUTOR.fullmatch(parts.path)
        is_own = found is not None and (found["what"] is not None or method == "DELETE")
        executor = unquote(found["name"]) if found is not None and is_own else ""
        is_muted = executor in self._mute and found is not None and found["what"] == "heartbeat"
        if not self.is_up or self.connect is None or executor in self._cut or is_muted:
            await asyncio.sleep(self.latency_s)
            raise TransportFailed("the line is cut", was_sent=False)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        written = _written(method, target, parts.netloc, headers, body)
        task = asyncio.ensure_future(self._exchange(self.connect, written))
        self._under_way[task] = executor
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            raise TransportFailed("the line was cut", was_sent=True) from None
        finally:
            del self._under_way[task]

    async def _exchange(
        self, connect: Callable[[], Awaitable[asyncio.Protocol]], written: bytes
    ) -> Response:
        await asyncio.sleep(self.latency_s)
        protocol = await connect()
        line = _Line(protocol)
        protocol.connection_made(line)
        try:
            protocol.data_received(written)
            return await line.answer
        except ConnectionResetError as error:
            raise TransportFailed(str(error), was_sent=True) from None
        finally:
            line.close()


class WireTransport:
    """One client's transport over a wire."""

    def __init__(self, wire: Wire, begin: Callable[[], Awaitable[object]]) -> None:
        self._wire: Final = wire
        self._begin: Final = begin

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
        await self._begin()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._wire.request(method, url, headers, body)
        except TimeoutError as error:
            what = f"no answer within {timeout_s:.3g} s"
            raise TransportFailed(what, was_sent=True, has_timed_out=True) from error

    async def close(self) -> None:
        """Nothing is kept open."""


class _Line(asyncio.Transport):
    """The node's side of one connection: what it writes becomes the answer."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.answer: Final[asyncio.Future[Response]] = asyncio.get_running_loop().create_future()
        self._protocol: Final = protocol
        self._received = bytearray()
        self._is_closing = False

    def write(self, data: Any) -> None:
        self._received += data
        response = _parsed(bytes(self._received))
        if response is not None and not self.answer.done():
            self.answer.set_result(response)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if not self.answer.done():
            self.answer.set_exception(ConnectionResetError("the node hung up"))
            self.answer.exception()  # nobody may be left to hear of it
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing more comes: a request is handed over whole."""

    def resume_reading(self) -> None:
        """Nothing more comes: a request is handed over whole."""


def _written(
    method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    size = {} if body is None else {"Content-Length": str(len(body))}
    named = {"Host": host, **headers, **size}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {said}" for name, said in named.items())]
    return "\r\n".join(lines).encode() + _HEAD_END + (body or b"")


def _parsed(received: bytes) -> Response | None:
    """The answer, once all of it is there."""
    head, separator, body = received.partition(_HEAD_END)
    if not separator:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): said.strip() for name, _, said in pairs}
    status = int(first.split(" ")[1])
    if status in _BODILESS:
        return Response(status, headers)
    return Response(status, headers, body) if len(body) >= int(headers["content-length"]) else None
