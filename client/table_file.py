"""A routing table on disk, so that a router which starts during an outage still routes.

Decides the file's form and when it counts as readable. It must not know when it is written or what
a router does with it. The file is replaced as a whole: a crash leaves the older table.
"""

import contextlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from client.protocol import RoutingAnswer

_log: Final = logging.getLogger(__name__)

_FORMAT: Final = 1
# A million shards with long names are 100 MB; what is larger is not ours, or not to be read.
BYTES_MAX: Final = 256 << 20


class _Kept(msgspec.Struct, frozen=True):
    format: int
    namespace: str
    table: RoutingAnswer


def read_table(path: str | os.PathLike[str], namespace: str) -> RoutingAnswer | None:
    """The table of this namespace in a file; None, and a line in the log, if there is none."""
    try:
        with Path(path).open("rb") as file:
            return _decoded(file.read(BYTES_MAX + 1), namespace)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        _log.warning("table_file_unreadable path=%s error=%s", path, error)
        return None


def _decoded(body: bytes, namespace: str) -> RoutingAnswer:
    if len(body) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes")
    kept = msgspec.json.decode(body, type=_Kept)
    if kept.format != _FORMAT:
        raise ValueError(f"format {kept.format}, this version reads {_FORMAT}")
    if kept.namespace != namespace or kept.table.kind != "snapshot":
        raise ValueError(f"a table of namespace {kept.namespace!r}, not of {namespace!r}")
    return kept.table


def write_table(path: str | os.PathLike[str], namespace: str, table: RoutingAnswer) -> None:
    """Replace the file; raises OSError, and then the older one stands."""
    body = msgspec.json.encode(_Kept(_FORMAT, namespace, table))
    target = Path(path)
    handle, made = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())  # or a crash of the machine leaves an empty file of this name
        Path(made).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(made).unlink()
        raise
