"""Bodies that are still arriving, and those that are being worked on.

Decides how much memory they may take together: each may be as large as its route allows, and who
may send one may open thousands of connections. It must not know what bodies say.
"""

from typing import Final

from aiohttp import web

from coordinator.api.problems import Refusal

_TAKEN: Final = web.RequestKey("incoming_bytes", int)


class Incoming:
    """Bytes of bodies that came in more than one piece, until their requests are over."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0

    def take(self, request: web.Request, size: int) -> None:
        """Count a piece; refused when all of them have become too much.

        The caller that brings one too many goes, the others go on: a fleet that comes back at once
        gets in by and by.
        """
        if self.bytes + size > self._bytes_max:
            raise Refusal(
                "rate_limited",
                "too many large bodies arrive at once",
                retry_after_s=1.0,
                is_last=True,
            )
        self.bytes += size
        request[_TAKEN] = request.get(_TAKEN, 0) + size

    def over(self, request: web.Request) -> None:
        """The request is over, however it ended."""
        self.bytes -= request.get(_TAKEN, 0)
