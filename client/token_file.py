"""The token in a file, kept up with the file: tokens are renewed while a service runs.

Decides which files hold a token and when they are looked at. A file that cannot be used later on
leaves the former token in use, and says so once. The token itself is shown to nobody but nodes: it
is in no log, no error and no `repr`.
"""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from client.clock import lease_now_s

_log: Final = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0  # one `stat` a second: what a node does with its own files
BYTES_MAX: Final = 4096
# A secret that a group shares is common where files are mounted for a service; the world is not it.
_FORBIDDEN: Final = stat.S_IWGRP | stat.S_IRWXO


class TokenFileError(ValueError):
    """The file holds no token that may be used; the text says what to do."""


class TokenFile:
    """A token and where it is from. Raises `TokenFileError` when made, if there is none."""

    def __init__(
        self, path: str | os.PathLike[str], *, monotonic: Callable[[], float] = lease_now_s
    ) -> None:
        self._path: Final = Path(path)
        self._monotonic: Final = monotonic
        self._token = _read(self._path)
        self._stamp = _stamp(self._path)
        self._looked_at = monotonic()

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    def current(self) -> str:
        """The token, looked after once a second."""
        now = self._monotonic()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            if _stamp(self._path) != self._stamp:
                self.renew()
        return self._token

    def renew(self) -> bool:
        """Read the file now; whether it holds another token than before."""
        self._stamp = _stamp(self._path)
        former = self._token
        try:
            self._token = _read(self._path)
        except TokenFileError as error:
            _log.warning("token_kept why=%s", error)
        return self._token != former


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise TokenFileError(f"the token file {path} cannot be read: {error.strerror}") from None
    if os.name == "posix" and mode & _FORBIDDEN:
        raise TokenFileError(
            f"the token file {path} is open to others (mode {mode:04o}): chmod 600 {path}"
        )
    token = data.decode("ascii", "replace").strip()
    # A header takes no more than this; what else is in there is not repeated in the message.
    if len(data) > BYTES_MAX or not token or not token.isascii() or not token.isprintable():
        raise TokenFileError(f"the token file {path} holds no token")
    return token


def _stamp(path: Path) -> object:
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode
