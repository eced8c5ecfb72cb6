"""Files that decide who may do what: read whole, and only if nobody else can change or see them.

Decides which owners and permissions are good enough. It must not know what is in a file. What was
opened is what is judged, so a file cannot be exchanged between look and read.
"""

import os
import stat
from pathlib import Path
from typing import Final

WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IRWXO
"""For files of hashes: a group may read them, such as the one that a service's files belong to."""
SEEN_BY_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""For private keys. A group may read those that are root's: so Kubernetes hands secrets out, and so
a machine gives one key to several of its services."""


class FileRefused(Exception):  # noqa: N818 - says what is done with the file
    """The file cannot be used; the text names it and what to do."""


def read_guarded(path: str, *, forbidden: int, bytes_max: int) -> bytes:
    """The content of a file with none of the forbidden permissions; raises FileRefused."""
    try:
        with Path(path).open("rb") as file:
            fault = _fault(path, os.fstat(file.fileno()), forbidden)
            data = b"" if fault else file.read(bytes_max + 1)
    except OSError as error:
        raise FileRefused(f"{path} cannot be read: {error.strerror or error}") from None
    if fault:
        raise FileRefused(fault)
    if len(data) > bytes_max:
        raise FileRefused(f"{path} is larger than {bytes_max} bytes")
    return data


def forbidden_in(seen: os.stat_result, forbidden: int) -> int:
    """What is forbidden of this file: a group may read what is root's, if this is not root."""
    is_roots = seen.st_uid == 0 and os.geteuid() != 0
    return forbidden & ~stat.S_IRGRP if is_roots else forbidden


def stamp(path: str) -> object:
    """Something that changes when the file does; None while it cannot be looked at."""
    try:
        seen = Path(path).stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode, seen.st_uid


def _fault(path: str, seen: os.stat_result, forbidden: int) -> str | None:
    if not stat.S_ISREG(seen.st_mode):
        return f"{path} is no file"
    if seen.st_uid not in {0, os.geteuid()}:
        return f"{path} belongs to user {seen.st_uid}, who could change it: chown it"
    mode = stat.S_IMODE(seen.st_mode)
    forbidden = forbidden_in(seen, forbidden)
    if mode & forbidden:
        good = mode & ~forbidden & 0o777
        return f"{path} is open to others (mode {mode:04o}): chmod {good:o} {path}"
    return None
