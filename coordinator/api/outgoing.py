"""Large answers on their way to callers that may read slowly.

Decides how much memory they may take. It must not know what they say.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from coordinator.api.problems import Refusal

LARGE_BYTES: Final = 256 << 10
"""Answers up to here are written in one go: a connection more costs about as much."""
PIECE_BYTES: Final = 64 << 10
"""What the transport holds of a large answer at a time, whoever reads how slowly."""


class Outgoing:
    """The bodies of large answers that are being sent, each counted once however many read it."""

    def __init__(self, bytes_max: int, timeout_s: float) -> None:
        self._bytes_max = bytes_max
        self.timeout_s = timeout_s
        self._readers: dict[int, int] = {}
        self.bytes = 0

    @contextmanager
    def holding(self, body: bytes) -> Iterator[None]:
        """Count a body while it is being sent."""
        name = id(body)  # unique while somebody holds it
        if name not in self._readers:
            self.bytes += len(body)
        self._readers[name] = self._readers.get(name, 0) + 1
        try:
            yield
        finally:
            self._readers[name] -= 1
            if not self._readers[name]:
                del self._readers[name]
                self.bytes -= len(body)

    def answer(
        self, request: web.Request, body: bytes, status: int, headers: Mapping[str, str]
    ) -> web.Response:
        """An answer with this body; refused when too much waits for slow readers already."""
        if len(body) <= LARGE_BYTES:
            return web.Response(body=body, status=status, headers=headers)
        is_known = id(body) in self._readers
        if not is_known and self.bytes and self.bytes + len(body) > self._bytes_max:
            raise Refusal("rate_limited", "too many large answers wait for slow readers")
        return LargeAnswer(self, request, body, status, headers)


class LargeAnswer(web.Response):
    """An answer that is handed to the transport piece by piece, as the caller takes it.

    aiohttp would copy the whole of it for each caller.
    """

    def __init__(
        self,
        outgoing: Outgoing,
        request: web.Request,
        body: bytes,
        status: int,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(body=body, status=status, headers=headers)
        self._outgoing = outgoing
        self._asked = request

    async def write_eof(self, data: bytes = b"") -> None:
        """Send all of it within the deadline, or cut the caller off."""
        if not isinstance(self.body, bytes):  # sent already
            await super().write_eof(data)
            return
        body, self.body = self.body, None  # a connection keeps its last answer while it is idle
        try:
            with self._outgoing.holding(body):
                async with asyncio.timeout(self._outgoing.timeout_s):
                    for start in range(0, len(body), PIECE_BYTES):
                        await self.write(body[start : start + PIECE_BYTES])
        except TimeoutError:
            # The status is out already: only a cut connection tells that the body is not whole.
            if self._asked.transport is not None:
                self._asked.transport.abort()
            raise ConnectionResetError("the caller did not take its answer") from None
        await web.StreamResponse.write_eof(self)
