"""Proof that the former process of an executor's name is dead: a lock that dies with it.

Decides when an incarnation may be called dead: when it was written by whoever held the lock on the
file of this name, and the lock is free. The kernel frees it when the process ends, however it
ends. It must not know what the proof is used for.

What keeps it true:
- Only the holder writes, and what it writes is its own incarnation, once that is acknowledged:
  before that nothing can have been owned under it, and a crash meanwhile leaves the older proof.
- Children that are forked give the lock up; others never get it (`O_CLOEXEC`). So it says that
  this one process is dead. Work that it had children do may go on: see `Executor`.
- Whoever ends with shards still running keeps the lock until the process ends.
"""

import errno
import logging
import os
import re
import stat
import zlib
from pathlib import Path
from typing import Final

from client.forks import give_up_in_child

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

_log: Final = logging.getLogger(__name__)

# One record of fixed width, so that no write leaves the end of an older one behind. Its sum tells
# a torn or foreign record, which proves nothing. It is not synced: it has to outlive a process,
# not the machine; after a crash of that an older record is found, and proves something older.
_RECORD: Final = re.compile(rb"([A-Za-z0-9-]{1,64}) *([0-9a-f]{8})\n")
_WIDTH: Final = 64 + 8 + 1
# Names hold neither of these two, so no two executors share a file.
_FILE_NAME: Final = "{namespace}+{name}.lock"


class NameLock:
    """The lock of one executor name in one folder. Every call returns at once."""

    def __init__(self, folder: str | os.PathLike[str], namespace: str, name: str) -> None:
        self._path: Final = Path(folder) / _FILE_NAME.format(namespace=namespace, name=name)
        self._file: int | None = None  # open, and locked
        self._identity: tuple[int, int] | None = None
        self._written = ""
        self._is_told = False
        self.predecessor = ""  # the incarnation that is dead; "" when nothing is proven
        give_up_in_child(self, NameLock.close)

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock."""
        return self._file is not None

    def take(self) -> bool:
        """Try to get the lock; then `predecessor` is who held it before.

        Raises OSError when the folder or the file cannot be used.
        """
        if self._file is not None:
            return True
        if fcntl is None:
            raise OSError(errno.ENOTSUP, "there are no such locks on this system", str(self._path))
        file = self._opened()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            if not self._is_told:
                self._is_told = True
                _log.warning("name_lock_held_elsewhere path=%s", self._path)
            return False
        except OSError:
            os.close(file)
            raise
        self._file, self._identity = file, _identity(file)
        found = _RECORD.fullmatch(os.pread(file, _WIDTH + 1, 0))
        if found is not None and int(found[2], 16) == zlib.crc32(found[1]):
            self.predecessor = found[1].decode()
        return True

    def try_take(self) -> None:
        """Try to get the lock; what goes wrong is logged."""
        try:
            self.take()
        except OSError as error:
            _log.warning("name_lock_not_taken path=%s error=%s", self._path, error)

    def write(self, incarnation: str) -> None:
        """Let the file name this incarnation of ours, which was acknowledged, as the last.

        Tries to get the lock first if it is not held. What goes wrong costs the next process its
        proof, nothing else.
        """
        self.predecessor = ""
        if self._written == incarnation:
            return
        try:
            if not self.take():
                return
            if self._file is None or _identity(self._file) != self._identity:
                raise OSError(errno.EBADF, "the file was closed by somebody else")  # noqa: TRY301
            name = incarnation.encode()
            os.pwrite(self._file, b"%-64s%08x\n" % (name, zlib.crc32(name)), 0)
        except OSError as error:
            _log.warning("name_lock_not_written path=%s error=%s", self._path, error)
        self.predecessor, self._written = "", incarnation

    def close(self) -> None:
        """Free the lock: nothing runs any more of what was begun under it."""
        file, self._file = self._file, None
        self.predecessor = self._written = ""
        if file is not None and _identity(file) == self._identity:
            os.close(file)

    def _opened(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(self._path, flags, 0o600)
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            os.close(file)
            # Who else can write there could declare an executor dead that lives.
            raise PermissionError(errno.EPERM, "not a file of this user's own", str(self._path))
        return file


def _identity(file: int) -> tuple[int, int] | None:
    """Which file a descriptor stands for; None if it is closed."""
    try:
        found = os.fstat(file)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
