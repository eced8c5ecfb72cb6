"""Routing tables as bytes, made once and shared by all who wait for them.

Decides what is kept encoded: the answers of the newest revision of each namespace. It must not
know who asks.
"""

import asyncio
import gzip
from dataclasses import dataclass
from typing import Final

from coordinator.api.encoding import encoded
from coordinator.api.records import RoutedExecutor, RoutingAnswer
from coordinator.core.namespace import NamespaceState
from coordinator.core.routing import changes_after
from coordinator.core.state import NAMESPACES_MAX
from coordinator.core.types import Executor

COMPRESS_FROM_BYTES: Final = 1024
"""Below, the saving is smaller than a packet."""
OFF_LOOP_FROM_BYTES: Final = 64 << 10
"""gzip does about 100 MB/s at level 1: up to here it holds the loop for less than a millisecond."""
KEPT_PER_REVISION_MAX: Final = 256
"""Distinct cursors that are answered from one encoding each; most readers share a few."""
KEPT_BYTES_MAX: Final = 128 << 20
"""Of all encodings before compression: two tables of a million shards and many changes."""


@dataclass(frozen=True, slots=True)
class Table:
    """An answer's body."""

    body: bytes
    is_gzip: bool


_Asked = tuple[int | None, bool, bool]


class Tables:
    """The encoded answers of each namespace's newest revision."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, dict[_Asked, Table | asyncio.Task[Table]]]] = {}
        self._bytes = 0
        """Encoded since everything was last forgotten: at least what is kept now."""

    async def encoded(
        self,
        namespace: NamespaceState,
        cluster_id: str,
        after: int | None,
        *,
        as_msgpack: bool,
        as_gzip: bool,
    ) -> Table:
        """The table since `after`, or all of it; the same bytes for everybody who asks alike."""
        if after is not None and after < namespace.ring.floor:
            after = None  # all of it for everybody who is too far behind, and encoded once
        cursor = f"{cluster_id}:{namespace.revision}"
        name = namespace.info.name
        if self._kept.get(name, ("",))[0] != cursor:
            if len(self._kept) >= NAMESPACES_MAX:
                self._kept.clear()  # some are of namespaces that are gone
            self._kept[name] = (cursor, {})
        kept = self._kept[name][1]
        asked = (after, as_msgpack, as_gzip)
        table = kept.get(asked)
        if table is None:
            if len(kept) >= KEPT_PER_REVISION_MAX:
                kept.pop(next(iter(kept)))
            plain = encoded(_answer(namespace, cursor, after), as_msgpack=as_msgpack)
            self._bytes += len(plain)
            if self._bytes > KEPT_BYTES_MAX:
                self._bytes = len(plain)
                self._kept.clear()
                self._kept[name] = (cursor, kept := {})
            table = kept[asked] = _finished(plain, as_gzip=as_gzip)
        # Shielded: many share it, and one of them leaving must not take it from the others.
        return table if isinstance(table, Table) else await asyncio.shield(table)


def _finished(plain: bytes, *, as_gzip: bool) -> "Table | asyncio.Task[Table]":
    """The table at once, or as a task where compressing it would hold the loop."""
    if not as_gzip or len(plain) <= COMPRESS_FROM_BYTES:
        return Table(plain, is_gzip=False)
    if len(plain) < OFF_LOOP_FROM_BYTES:
        return _compressed(plain)
    return asyncio.create_task(asyncio.to_thread(_compressed, plain))


def _compressed(plain: bytes) -> Table:
    return Table(gzip.compress(plain, 1, mtime=0), is_gzip=True)


def _answer(namespace: NamespaceState, cursor: str, after: int | None) -> RoutingAnswer:
    table = changes_after(namespace, after)
    return RoutingAnswer(
        kind="snapshot" if table.is_snapshot else "delta",
        cursor=cursor,
        executors={
            executor: _routed(namespace, record) for executor, record in table.executors.items()
        },
        owners=table.owners,
        moving=table.moving,
        parked=table.parked,
        removed=table.removed,
    )


def _routed(namespace: NamespaceState, record: Executor) -> RoutedExecutor:
    return RoutedExecutor(
        address=record.profile.address,
        host=record.profile.host,
        zone=record.profile.zone,
        status=namespace.status_of(record),
    )
