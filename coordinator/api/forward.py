"""Handing a request to the leader: at most one hop, streamed, within bounds.

Decides what of a request and of its answer crosses the hop, and what a broken hop means to the
caller. It must not know what the request is about.
"""

import asyncio
import io
import ssl
from collections.abc import Callable
from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL

from coordinator.api.problems import Refusal

HOP_HEADER: Final = "X-Forwarded-By"
"""Names the node that forwarded. A request that bears it is never forwarded again."""
CALLER_HEADER: Final = "X-Forwarded-Caller"
"""The address the request first came from, for the record of who ordered what."""

HOPS_MAX: Final = 2048
"""Open connections to the leader. Beyond it requests wait their turn within their deadline."""
CONNECT_TIMEOUT_S: Final = 1.0
"""The leader is a neighbour; if it does not answer by then it is not there."""
ANSWER_TIMEOUT_S: Final = 10.0
"""Beyond the request's own wait: a commit is given up after 5 s, a probe after 2 s."""
_WHOLE_BYTES_MAX: Final = 256 << 10
"""Answers up to here pass in one piece; longer ones are streamed, so memory stays bounded."""

_REQUEST_HEADERS: Final = (
    "Content-Type",
    "Accept",
    "Accept-Encoding",
    "Idempotency-Key",
    "If-Match",
    "Authorization",  # the leader asks for itself who this is, and what they may
)
_ANSWER_HEADERS: Final = (
    "Content-Type",
    "Content-Encoding",
    "Vary",
    "ETag",
    "Location",
    "WWW-Authenticate",
    "Retry-After",
    "X-Revision",
    "X-Leader-Contact-Seconds",
)


class Forwarder:
    """The one pool of connections to whichever node leads."""

    def __init__(self, node: str, *, is_secured: bool = False) -> None:
        self._node = node
        self._is_secured = is_secured
        self.tls: ssl.SSLContext | None = None
        """Whom a leader's certificate has to be signed by; None asks the machine's own CAs."""
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def forward(
        self,
        request: web.Request,
        leader_url: str,
        body: bytes,
        *,
        request_id: str,
        wait_s: float,
        prepare: Callable[[web.StreamResponse], None],
    ) -> web.StreamResponse:
        """The leader's answer to a request that this node cannot answer itself.

        `prepare` writes this node's own headers before an answer is streamed.
        """
        if self._is_secured and not leader_url.startswith("https://"):
            # What came by TLS, a token among it, is not sent on in the clear.
            raise Refusal("no_leader", "the leader's API has no TLS, and this node's has")
        headers = {
            name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers
        }
        headers[HOP_HEADER] = self._node
        headers[CALLER_HEADER] = request.remote or ""
        headers["X-Request-Id"] = request_id
        timeout = aiohttp.ClientTimeout(
            total=wait_s + ANSWER_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S
        )
        try:
            async with self._pool().request(
                request.method,
                URL(f"{leader_url}{request.rel_url.raw_path_qs}", encoded=True),
                data=io.BytesIO(body) if body else None,  # sent in pieces: large ones are many
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                ssl=self.tls or True,
            ) as answer:
                return await _passed_on(request, answer, prepare)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as fault:
            raise Refusal("no_leader", f"the leader cannot be reached: {fault}") from None
        except (aiohttp.ClientError, TimeoutError) as fault:
            if request.method == "GET":
                raise Refusal("no_leader", f"the leader did not answer: {fault}") from None
            raise Refusal("outcome_unknown", f"the leader did not answer: {fault}") from None

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=HOPS_MAX),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # bytes pass as they are
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
            )
        return self._session


async def _passed_on(
    request: web.Request,
    answer: aiohttp.ClientResponse,
    prepare: Callable[[web.StreamResponse], None],
) -> web.StreamResponse:
    headers = {name: answer.headers[name] for name in _ANSWER_HEADERS if name in answer.headers}
    length = answer.content_length
    if answer.status in {204, 304} or (length is not None and length <= _WHOLE_BYTES_MAX):
        return web.Response(status=answer.status, headers=headers, body=await answer.read())
    stream = web.StreamResponse(status=answer.status, headers=headers)
    if length is not None:
        stream.content_length = length
    prepare(stream)
    await stream.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            await stream.write(chunk)
    except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError):
        # The status is out already: only a cut connection still tells that the body is not whole.
        if request.transport is not None:
            request.transport.abort()
        return stream
    await stream.write_eof()
    return stream
