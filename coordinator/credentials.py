"""What proves who is who on the API: its tokens and its certificates, kept up with their files.

Decides when files are read again: when they look different, and when asked to. What cannot be used
is told of, and the former stays in use: a mistake in a file locks nobody out, and nobody in. It
must not know requests.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from coordinator.api import ApiTls, TlsRefused, TokenBook, TokensRefused, read_book, read_tls
from coordinator.api.tls import stamps
from coordinator.guarded_files import stamp
from coordinator.settings import SecuritySettings

log = logging.getLogger("coordinator.credentials")

LOOK_EVERY_S: Final = 1.0
"""A few `stat` calls; a withdrawn token is good for no longer."""
WARN_BEFORE_S: Final = 7 * 86_400.0
WARN_EVERY_S: Final = 86_400.0
"""A certificate that nobody renews is told of once a day in its last week, and after."""


class Credentials:
    """The files of one node. Raises TokensRefused or TlsRefused when made."""

    def __init__(self, security: SecuritySettings) -> None:
        self._security = security
        self._stamps = self._look()
        self.book = read_book(security.tokens_file) if security.tokens_file else None
        self.tls = read_tls(security)
        self.on_book: Callable[[TokenBook], None] = lambda _: None
        self.on_tls: Callable[[ApiTls], Awaitable[None]] = _nothing
        self._asked = asyncio.Event()
        self._warns_at = 0.0

    @property
    def certificate_left_s(self) -> float | None:
        """How long the API's certificate is good for; None without one."""
        return None if self.tls.ends_at_s is None else self.tls.ends_at_s - time.time()

    def refresh(self) -> None:
        """Read everything again, whether it looks different or not."""
        self._asked.set()

    async def watch(self) -> None:
        """Runs for as long as the node does, if there is any file."""
        while self._has_files:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._asked.wait()
            self._warn()
            is_asked = self._asked.is_set()
            self._asked.clear()
            former, self._stamps = self._stamps, self._look()
            try:
                if is_asked or former[0] != self._stamps[0]:
                    await self._read_book()
                if is_asked or former[1] != self._stamps[1]:
                    await self._read_tls()
            except Exception:  # a fault of ours: what is in use stays, and is watched on
                log.exception("credentials_not_read")

    @property
    def _has_files(self) -> bool:
        security = self._security
        return bool(security.tokens_file or security.api_certificate or security.api_ca)

    def _warn(self) -> None:
        left_s, now = self.certificate_left_s, time.monotonic()
        if left_s is not None and left_s < WARN_BEFORE_S and now >= self._warns_at:
            self._warns_at = now + WARN_EVERY_S
            path = self._security.api_certificate
            log.warning("api_certificate_ends file=%s days_left=%.1f", path, left_s / 86_400)

    def _look(self) -> tuple[object, object]:
        path = self._security.tokens_file
        return (stamp(path) if path else None, stamps(self._security))

    async def _read_book(self) -> None:
        path = self._security.tokens_file
        if not path:
            return
        try:
            book = await asyncio.to_thread(read_book, path)  # a megabyte takes a second to parse
        except TokensRefused as refused:
            log.error("tokens_kept why=%r", str(refused))  # noqa: TRY400 - no fault of ours
            return
        self.book = book
        self.on_book(book)
        log.info("tokens_read file=%s known=%d", path, len(book.labels))

    async def _read_tls(self) -> None:
        if not self._security.api_certificate and not self._security.api_ca:
            return
        try:
            tls = await asyncio.to_thread(read_tls, self._security)
        except TlsRefused as refused:
            log.error("api_certificates_kept why=%r", str(refused))  # noqa: TRY400 - the same
            return
        self.tls = tls
        await self.on_tls(tls)
        log.info("api_certificates_read file=%s", self._security.api_certificate)


async def _nothing(_: ApiTls) -> None:
    """Nobody shows certificates yet."""
