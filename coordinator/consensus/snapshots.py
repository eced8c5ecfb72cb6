"""Snapshots in memory, behind the library's serializer interface.

Decides how a snapshot is cut into chunks and put together again. Must not know which snapshot
is worth installing: `screen` is asked. No compression: peers are near, and the loop must not stall.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from coordinator.consensus.codec import Malformed, open_snapshot, seal_snapshot
from coordinator.consensus.library import (
    NOT_SERIALIZING,
    SERIALIZED,
    SERIALIZING,
    Entry,
    logger,
)

CHUNK_BYTES: Final = 256 << 10
"""Small beside a frame, large beside its overhead."""
SNAPSHOT_BYTES_MAX: Final = 1 << 30
"""A peer may make this node hold this much; a million shards take a tenth of it."""

Chunk = tuple[bytes, bool, bool]


class Shelf(Protocol):
    """Where a snapshot outlives the process."""

    @property
    def is_busy(self) -> bool:
        """The last one put here is not whole on disk yet: the log behind it must stay."""

    def put(self, sealed: bytes, index: int, *, at_once: bool) -> None:
        """Keeps this one instead of the former: in shares, or whole within this very step."""


class NoShelf:
    """Memory only: a snapshot is kept as well as anything else is."""

    is_busy = False

    def put(self, sealed: bytes, index: int, *, at_once: bool) -> None:
        """Nothing."""


class SnapshotRefused(Exception):  # noqa: N818 - says what happened, and is no fault when held
    """The snapshot was not installed; the state is what it was."""


class SilentRefusals(logging.Filter):
    """The library logs every refusal with a traceback; this module already said the one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for the library's words on a refused snapshot."""
        return not (record.exc_info and isinstance(record.exc_info[1], SnapshotRefused))


logging.getLogger("pysyncobj.syncobj").addFilter(SilentRefusals())


class SnapshotStore:
    """The last snapshot made or installed, the one coming in, and who is being sent what."""

    def __init__(self, take: Callable[[], bytes], install: Callable[[bytes], None]) -> None:
        self._take = take
        self._install = install
        self.screen: Callable[[Entry], bool] = lambda _last: True
        self.index = 0
        self.made_at_s: float | None = None
        self.clock: Callable[[], float] = lambda: 0.0
        self.chunk_bytes = CHUNK_BYTES
        self.shelf: Shelf = NoShelf()
        self._sealed: bytes | None = None
        self._pending = False
        self._log_index = 0
        self._sending: dict[Any, tuple[bytes, int, int]] = {}
        self._incoming: list[bytes] | None = None
        self._incoming_bytes = 0
        self._complete: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """Size of the last snapshot."""
        return len(self._sealed or b"")

    @property
    def is_sending(self) -> bool:
        """Some peer has received a part, not the whole."""
        return bool(self._sending)

    def sending_from(self) -> int | None:
        """Where the log must begin so that whoever is being sent a snapshot can go on from it."""
        return min((index - 1 for _, _, index in self._sending.values()), default=None)

    # Making one: the library calls these two in a tick, the second one tick later.

    def serialize(self, data: tuple[Any, Entry, Entry, Any], id: int) -> None:
        """Takes a snapshot that covers the two entries given."""
        _, last, former, _ = data
        self._keep(seal_snapshot((former, last), self._take()), last[1])
        self.shelf.put(self._sealed or b"", last[1], at_once=False)
        self._pending = True
        self._log_index = id

    def checkSerializing(self) -> tuple[int, int | None]:
        """Success once after each `serialize`, when it is kept: the library then cuts its log."""
        if not self._pending:
            return NOT_SERIALIZING, None
        if self.shelf.is_busy:
            return SERIALIZING, None
        self._pending = False
        return SERIALIZED, self._log_index

    def _keep(self, sealed: bytes, index: int) -> None:
        self._sealed = sealed
        self.index = index
        self.made_at_s = self.clock()

    # Sending one.

    def getTransmissionData(self, transmissionID: Any) -> Chunk | None:
        """The next chunk for a peer; the last one is empty. None while there is nothing to send."""
        if self._pending or self._sealed is None:
            return None
        # A newer snapshot does not end the sending of this one, or a slow peer never had a whole.
        fresh = (self._sealed, 0, self.index)
        sealed, offset, index = self._sending.get(transmissionID, fresh)
        data = sealed[offset : offset + self.chunk_bytes]
        if data:
            self._sending[transmissionID] = (sealed, offset + len(data), index)
        else:
            self._sending.pop(transmissionID, None)
        return data, offset == 0, not data

    def cancelTransmisstion(self, id: Any) -> None:
        """Nothing: the library asks this also for a peer that only rests until the next step."""

    def restart(self, peer: Any) -> None:
        """Starts again with the first chunk: what was sent is lost with its link."""
        self._sending.pop(peer, None)

    # Receiving one.

    def setTransmissionData(self, data: Chunk | None) -> bool:
        """True when this chunk was the last and the whole is here, to be deserialized."""
        if data is None:
            return False
        chunk, is_first, is_last = data
        if is_first:
            self._incoming, self._incoming_bytes = [], 0
        if self._incoming is None:
            return False
        self._incoming.append(chunk)
        self._incoming_bytes += len(chunk)
        if self._incoming_bytes > SNAPSHOT_BYTES_MAX:
            self._incoming = None
            return False
        if not is_last:
            return False
        self._complete, self._incoming = b"".join(self._incoming), None
        return True

    def deserialize(self) -> tuple[None, Entry, Entry, tuple[()]]:
        """Installs what came in and tells which entries it covers; raises SnapshotRefused."""
        sealed, self._complete = self._complete, None
        try:
            (former, last), state = open_snapshot(sealed or b"")
        except Malformed as error:
            logger.error("snapshot_refused why=%r", f"corrupt: {error}")
            raise SnapshotRefused("corrupt") from error
        if not self.screen(last):
            raise SnapshotRefused("held already")
        try:
            self._install(state)
        except Exception as error:
            logger.exception("snapshot_refused why='not restored'")
            raise SnapshotRefused("not restored") from error
        self._sending.clear()
        self._keep(sealed or b"", last[1])
        # The library replaces its log by these two entries in this step, and says so to the leader.
        self._pending = False
        self.shelf.put(sealed or b"", last[1], at_once=True)
        return None, last, former, ()

    def take_over(self, sealed: bytes) -> tuple[Entry, Entry]:
        """Installs what a former life kept; the two entries it covers. Raises what is wrong."""
        (former, last), state = open_snapshot(sealed)
        self._install(state)
        self._keep(sealed, last[1])
        return former, last
