"""The certificates of the Raft port: read, proven against themselves, and read again when changed.

Decides which files may be used: a private key that others can read is refused, and so is whatever
a peer would refuse. Must not know connections or Raft. TLS 1.3 only, both sides show a certificate
of the cluster's own CA, and a member is named by a DNS name in it.
"""

import ssl
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from coordinator.consensus.contract import ConsensusError, PeerCertificates
from coordinator.consensus.library import logger
from coordinator.consensus.session import Session, Untrusted
from coordinator.guarded_files import SEEN_BY_OTHERS, forbidden_in

LOOK_EVERY_S: Final = 1.0
"""Three `stat` calls; a renewed certificate is in use a second later."""
WARN_BEFORE_S: Final = 7 * 86_400.0
WARN_EVERY_S: Final = 86_400.0
"""A certificate that nobody renews is told about once a day in its last week, and after."""


class CertificatesRefused(ConsensusError):  # noqa: N818 - says what is done with the files
    """The files cannot be used; the text names the file and what to do."""


class Certificates:
    """TLS contexts of one node, from its three files. Raises CertificatesRefused when made."""

    def __init__(
        self, files: PeerCertificates, own_name: str, wall: Callable[[], float] = time.time
    ) -> None:
        self._files = files
        self._own_name = own_name
        self._wall = wall
        self._warned_at_s = -WARN_EVERY_S
        self._stamp: tuple[object, ...] = ()
        self.ends_at_s = 0.0
        self._load(self._stamps())

    @property
    def left_s(self) -> float:
        """How long its own certificate is good for; below zero when it is over."""
        return self.ends_at_s - self._wall()

    def session(self, *, is_server: bool) -> Session:
        """A new connection's session, under the certificates of this moment."""
        return Session(self._server if is_server else self._client, is_server=is_server)

    def name_of(self, member: str) -> str:
        """The DNS name that stands for a member."""
        return self._files.names.get(member, member).lower()

    def refresh(self, *, is_asked: bool = False) -> bool:
        """Reads the files again when they changed, or when asked to; keeps the old on any fault."""
        self._warn()
        stamp = self._stamps()
        if stamp == self._stamp and not is_asked:
            return False
        try:
            self._load(stamp)
        except CertificatesRefused as fault:
            self._stamp = stamp  # said once; the next change is another attempt
            logger.error("certificates_kept node=%s why=%r", self._own_name, str(fault))
            return False
        logger.info("certificates_read node=%s file=%s", self._own_name, self._files.certificate)
        return True

    def _warn(self) -> None:
        now_s = self._wall()
        left_s = self.ends_at_s - now_s
        if left_s < WARN_BEFORE_S and now_s - self._warned_at_s >= WARN_EVERY_S:
            self._warned_at_s = now_s
            logger.warning(
                "certificate_ends node=%s file=%s days_left=%.1f",
                self._own_name,
                self._files.certificate,
                left_s / 86_400,
            )

    def _stamps(self) -> tuple[object, ...]:
        return tuple(
            map(_stamp, (self._files.ca, self._files.certificate, self._files.private_key))
        )

    def _load(self, stamp: tuple[object, ...]) -> None:
        _check_private(self._files.private_key)
        client = self._context(ssl.PROTOCOL_TLS_CLIENT)
        server = self._context(ssl.PROTOCOL_TLS_SERVER)
        # What a peer would say, before a peer has to: signed by the CA, in time, good for both
        # ends of a connection, and in this node's name.
        try:
            names, ends_at_s = _prove(client, server)
        except Untrusted as fault:
            raise CertificatesRefused(
                f"{self._files.certificate} does not pass its own check against {self._files.ca}: "
                f"{fault}; members' certificates serve both ends of a link"
            ) from None
        if self.name_of(self._own_name) not in names:
            raise CertificatesRefused(
                f"{self._files.certificate} is for {', '.join(sorted(names)) or 'nobody'}: its "
                f"subjectAltName needs DNS:{self.name_of(self._own_name)} "
                "(or security.peer_names says otherwise)"
            )
        self._client, self._server = client, server
        self._stamp, self.ends_at_s = stamp, ends_at_s

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Names are compared by this package, alike at both ends and without wildcards.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # each link shows its certificate anew
        files = self._files
        try:
            context.load_verify_locations(files.ca)
        except (OSError, ssl.SSLError) as error:
            raise CertificatesRefused(f"{files.ca}: {_said(error)}; it must hold the CA") from None
        try:
            context.load_cert_chain(files.certificate, files.private_key, password=_no_password)
        except (OSError, ssl.SSLError) as error:
            raise CertificatesRefused(
                f"{files.certificate} with {files.private_key}: {_said(error)}"
            ) from None
        return context


def _no_password() -> str:
    # Without this the library would ask on the terminal.
    raise CertificatesRefused("the private key has a password, and a node starts unattended")


def _prove(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[frozenset[str], float]:
    """The names both ends saw, and when the certificate ends; raises Untrusted."""
    dialler, acceptor = Session(client, is_server=False), Session(server, is_server=True)
    flight = dialler.begin()
    while flight:
        _, answer = acceptor.receive(flight)
        _, flight = dialler.receive(answer)
    if acceptor.names is None or dialler.ends_at_s is None:
        raise Untrusted("the handshake did not end")
    return acceptor.names, dialler.ends_at_s


def _check_private(path: str) -> None:
    try:
        seen = Path(path).stat()
    except OSError as error:
        raise CertificatesRefused(f"{path}: {_said(error)}") from None
    mode = stat.S_IMODE(seen.st_mode)
    if mode & forbidden_in(seen, SEEN_BY_OTHERS):
        raise CertificatesRefused(
            f"{path} can be read by others (mode {mode:04o}): chmod 600 {path}"
        )


def _stamp(path: str) -> object:
    try:
        seen = Path(path).stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode


def _said(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error)
