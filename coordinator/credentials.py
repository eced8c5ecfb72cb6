"""What proves who is who on the API: its tokens and its certificates, kept up with their files.

Decides when files are read again: when they look different, and when asked to. What cannot be used
is told of, and the former stays in use: a mistake in a file locks nobody out, and nobody in. It
must not know requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from coordinator.api import ApiTls, TlsRefused, TokenBook, TokensRefused, read_book, read_tls
from coordinator.api.tls import stamps
from coordinator.guarded_files import stamp
from coordinator.settings import SecuritySettings

log = logging.getLogger("coordinator.credentials")

LOOK_EVERY_S: Final = 1.0
"""A few `stat` calls; a withdrawn token is good for no longer."""


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

    def refresh(self) -> None:
        """Read everything again, whether it looks different or not."""
        self._asked.set()

    async def watch(self) -> None:
        """Runs for as long as the node does."""
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._asked.wait()
            except TimeoutError:
                pass
            is_asked = self._asked.is_set()
            self._asked.clear()
            seen = self._look()
            if seen != self._stamps or is_asked:
                books_before, tls_before = self._stamps
                self._stamps = seen
                try:
                    if seen[0] != books_before or is_asked:
                        await self._read_book()
                    if seen[1] != tls_before or is_asked:
                        await self._read_tls()
                except Exception:  # a fault of ours: what is in use stays, and is watched on
                    log.exception("credentials_not_read")

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
