"""One end of a TLS connection without a socket: bytes of the wire in, bytes of the peer out.

Decides when a peer counts as authenticated, and what a stranger is told: nothing, until it has
begun a handshake that could be understood. Must not know sockets, frames or members. Made on
`ssl.MemoryBIO`, so that it is the same on every event loop, that a handshake counts against the
bounds of strangers from its first byte, and that nothing needs to be waited for at the end.
"""

import ssl
from collections.abc import Iterator
from typing import Any, Final

READ_BYTES: Final = 16 << 10
"""One TLS record: a read gives no more at a time."""


class Untrusted(Exception):  # noqa: N818 - names what the other end is
    """The other end did not prove what it must; `answer` is what it may still be told."""

    def __init__(self, why: str, answer: bytes = b"") -> None:
        super().__init__(why)
        self.answer = answer


class Session:
    """TLS over one connection. `begin`, then `receive` all that comes and `seal` all that goes."""

    def __init__(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._has_spoken = False
        self.names: frozenset[str] | None = None
        """Lower-case DNS names in the peer's certificate, once it proved that it is its own."""
        self.ends_at_s: float | None = None
        """When that certificate runs out, as a time of the wall clock."""

    def begin(self) -> bytes:
        """What the connection begins with; nothing on the side that was dialled."""
        self._shake()
        return self._take()

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """What the peer said, and what is to be sent on; raises Untrusted."""
        self._incoming.write(data)
        if self.names is None:
            self._shake()
        said = b"" if self.names is None else b"".join(self._records())
        return said, self._take()

    def seal(self, data: bytes) -> bytes:
        """The bytes to send for this; only once the peer is authenticated."""
        self._tls.write(data)
        return self._take()

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise self._untrusted(error) from error
        # Both ends demand a certificate that the CA signed, so there is one.
        certificate: dict[str, Any] = self._tls.getpeercert() or {}
        alternatives = certificate.get("subjectAltName", ())
        self.names = frozenset(name.lower() for kind, name in alternatives if kind == "DNS")
        self.ends_at_s = ssl.cert_time_to_seconds(certificate["notAfter"])

    def _records(self) -> Iterator[bytes]:
        while True:
            try:
                record = self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLError as error:
                raise self._untrusted(error) from error
            if not record:
                return  # the other end said it is done; the connection ends by itself
            yield record

    def _untrusted(self, error: ssl.SSLError) -> Untrusted:
        # An alert tells an honest peer what is wrong with its certificate. Whoever never began a
        # handshake is told nothing, not even that this is TLS.
        answer = self._outgoing.read() if self._has_spoken else b""
        return Untrusted(_reason(error), answer)

    def _take(self) -> bytes:
        data = self._outgoing.read()
        self._has_spoken = self._has_spoken or bool(data)
        return data


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    return f"no TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
