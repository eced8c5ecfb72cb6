"""How one request reaches one node and its answer comes back.

The seam: whatever has `request` and `close` can carry the client, also within one process.
`AiohttpTransport` is the real one. It must not know what requests say, nor try anything twice.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import aiohttp
from yarl import URL

# The largest answer is a routing snapshot: about 60 MiB for a million shards.
BODY_BYTES_MAX: Final = 256 * 1024 * 1024
# A connection on a local network is made in milliseconds; one lost packet costs a second.
CONNECT_TIMEOUT_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class Response:
    """What a node answered; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def request_id(self) -> str:
        """The id under which the node logged the request."""
        return self.headers.get("x-request-id", "")

    @property
    def cluster_id(self) -> str:
        """The cluster that the node belongs to."""
        return self.headers.get("x-cluster-id", "")

    @property
    def leader_contact_s(self) -> float:
        """How long ago the node had contact with its leader; 0 when it does not say."""
        try:
            return float(self.headers.get("x-leader-contact-seconds", "0"))
        except ValueError:
            return 0.0


class TransportFailed(Exception):  # noqa: N818 - it says what happened, like the errors of the kit
    """No answer came; `was_sent` tells whether the node may have acted on the request."""

    def __init__(self, what: str, *, was_sent: bool, has_timed_out: bool = False) -> None:
        super().__init__(what)
        self.was_sent: Final = was_sent
        self.has_timed_out: Final = has_timed_out


class Transport(Protocol):
    """Carries one request to one URL."""

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
        ...

    async def close(self) -> None:
        """Release every connection; nothing is sent afterwards."""
        ...


_in_process: Final[dict[str, "Callable[[], Transport]"]] = {}


def serve_in_process(url: str, connect: "Callable[[], Transport] | None") -> None:
    """For tests only: whoever is given this URL is carried by `connect`; None ends that."""
    if connect is None:
        _in_process.pop(url, None)
    else:
        _in_process[url] = connect


def transport_to(endpoints: Sequence[str], tls: ssl.SSLContext | None = None) -> Transport:
    """What carries requests to these nodes; `tls` says whom to believe, and what to show."""
    connect = next((_in_process[url] for url in endpoints if url in _in_process), None)
    return AiohttpTransport(tls) if connect is None else connect()


class AiohttpTransport:
    """The real transport: one aiohttp session, made when it is first needed."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls: Final = tls
        self._session: aiohttp.ClientSession | None = None

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
        timeout = aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=min(CONNECT_TIMEOUT_S, timeout_s)
        )
        try:
            async with self._opened().request(
                method,
                URL(url, encoded=True),  # keys are percent-encoded already; `%2F` must stay
                headers=headers,
                data=body,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                content = await _bounded_body(answer)
                names = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, names, content)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise TransportFailed(_why(error), was_sent=False) from error
        except TimeoutError as error:
            what = f"no answer within {timeout_s:.3g} s"
            raise TransportFailed(what, was_sent=True, has_timed_out=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            what = str(error) or type(error).__name__
            raise TransportFailed(what, was_sent=True) from error

    async def close(self) -> None:
        """Release every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # TLS and socket transports close in the loop's next turns.
            await asyncio.sleep(0)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                # The limit is aiohttp's default, stated; so is believing the machine's own CAs.
                connector=aiohttp.TCPConnector(limit=100, ssl=self._tls or True),
            )
        return self._session


def _why(error: aiohttp.ClientError) -> str:
    """Why no connection was made, without the noise of the library."""
    # Before the number: that of TLS faults is of OpenSSL, and 1 would be "Operation not permitted".
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        fault = error.certificate_error
        return f"its certificate is not trusted: {getattr(fault, 'verify_message', fault)}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"no TLS: {getattr(error.os_error, 'reason', error.os_error)}"
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error)


async def _bounded_body(answer: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise ValueError(f"the answer is larger than {BODY_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)
