"""TLS of the API's port and of the hop to the leader: read from files, and read again.

Decides which files may be used. It must not know who a certificate stands for, nor connections.
TLS 1.3 only: every client of the last years speaks it, and there is nothing in it to set wrong.
"""

import contextlib
import ssl
from dataclasses import dataclass
from typing import Any, Final

from coordinator.guarded_files import SEEN_BY_OTHERS, FileRefused, read_guarded, stamp
from coordinator.settings import SecuritySettings

_FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ApiTls:
    """What the port shows, and whom the hop to the leader believes."""

    server: ssl.SSLContext | None
    """None: the port speaks plain HTTP."""
    client: ssl.SSLContext | None
    """None: a leader that speaks TLS is believed if this machine's own CAs say so."""
    ends_at_s: float | None = None
    """When what the port shows runs out, by the wall clock; long past if it has already."""


class TlsRefused(Exception):  # noqa: N818 - says what is done with the files
    """The files cannot be used; the text names the file and what to do."""


def read_tls(security: SecuritySettings) -> ApiTls:
    """Contexts from the files of the settings; raises TlsRefused."""
    server = _server(security)
    ends_at_s = None if server is None else _ends_at_s(server, security.api_certificate)
    return ApiTls(server, _client(security), ends_at_s)


def stamps(security: SecuritySettings) -> tuple[object, ...]:
    """What changes when one of the files does."""
    return tuple(map(stamp, filter(None, _files(security))))


def _files(security: SecuritySettings) -> tuple[str, ...]:
    return (
        security.api_certificate,
        security.api_key,
        security.api_ca,
        security.api_client_ca,
    )


def _server(security: SecuritySettings) -> ssl.SSLContext | None:
    if not security.api_certificate:
        return None
    try:
        read_guarded(security.api_key, forbidden=SEEN_BY_OTHERS, bytes_max=_FILE_BYTES_MAX)
    except FileRefused as refused:
        raise TlsRefused(str(refused)) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(security.api_certificate, security.api_key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise TlsRefused(
            f"{security.api_certificate} with {security.api_key}: {_said(error)}"
        ) from None
    if security.api_client_ca:
        # Optional: whoever shows none may still have a token.
        context.verify_mode = ssl.CERT_OPTIONAL
        _load_ca(context, security.api_client_ca)
    return context


def _client(security: SecuritySettings) -> ssl.SSLContext | None:
    if not security.api_ca:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks names, demands a certificate
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load_ca(context, security.api_ca)
    return context


def _ends_at_s(server: ssl.SSLContext, certificate: str) -> float:
    """When the certificate that a port shows runs out: found by shaking hands with it."""
    caller = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    caller.check_hostname = False  # nobody is asked for by a name here
    caller.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it is its own proof
    caller.load_verify_locations(certificate)
    to_server, to_caller = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = caller.wrap_bio(to_caller, to_server)
    shown = server.wrap_bio(to_server, to_caller, server_side=True)
    try:
        for end in (asking, shown, asking):  # TLS 1.3 needs no more words
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLCertVerificationError:
        return 0.0
    seen: dict[str, Any] = asking.getpeercert() or {}
    return ssl.cert_time_to_seconds(seen["notAfter"])


def _load_ca(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise TlsRefused(f"{path}: {_said(error)}; it must hold a CA") from None


def _no_password() -> str:
    # Without this the library would ask on the terminal.
    raise TlsRefused("the private key has a password, and a node starts unattended")


def _said(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error)
