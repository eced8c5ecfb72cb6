"""Snapshots in memory, behind the library's serializer interface, made and read in slices.

Decides when the next slice of a snapshot is made or read, and how it is cut into chunks. Must not
know which snapshot is worth installing: `screen` is asked.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from coordinator.consensus.codec import Malformed
from coordinator.consensus.contract import SlicedMachine, StateMachine, UnknownEntry
from coordinator.consensus.disk import NoShelf, Shelf
from coordinator.consensus.library import (
    NOT_SERIALIZING,
    SERIALIZED,
    SERIALIZING,
    Entry,
    logger,
)
from coordinator.consensus.sealed import Opener, Sealer

CHUNK_BYTES: Final = 256 << 10
"""Small beside a frame, large beside its overhead."""
SNAPSHOT_BYTES_MAX: Final = 1 << 30
"""A peer may make this node hold this much; a million shards take a hundredth of it."""
SLICE_EVERY_S: Final = 0.01
"""From one slice to the next: a slice of some milliseconds leaves most of the loop to others."""
WHOLE_PART_BYTES: Final = 256 << 10
"""Of a machine that gives its state at once: each part takes a millisecond to compress."""
LAST_CHUNK: Final = (b"", False, True)

Chunk = tuple[bytes, bool, bool]


class SnapshotRefused(Exception):  # noqa: N818 - says what happened, and is no fault when held
    """The snapshot was not installed; the state is what it was."""


class SilentRefusals(logging.Filter):
    """The library logs every refusal with a traceback; this module already said the one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for the library's words on a refused snapshot."""
        return not (record.exc_info and isinstance(record.exc_info[1], SnapshotRefused))


logging.getLogger("pysyncobj.syncobj").addFilter(SilentRefusals())


@dataclass(slots=True)
class _Making:
    """A snapshot that is being made."""

    parts: Iterator[bytes]
    sealer: Sealer
    index: int
    log_index: int
    """The log is cut up to here once it is made."""
    is_made: bool = False


@dataclass(slots=True)
class _Incoming:
    """A snapshot that comes in, is read, and waits to be installed."""

    sealed: bytearray = field(default_factory=bytearray)
    opener: Opener = field(default_factory=Opener)
    fault: str | None = None
    is_whole: bool = False
    reading: Generator[None, None, Callable[[], None]] | None = None
    install: Callable[[], None] | None = None

    def take(self, chunk: bytes) -> None:
        """Adds a chunk; what is wrong with it is told when all of it is here."""
        if self.fault is None and len(self.sealed) + len(chunk) > SNAPSHOT_BYTES_MAX:
            self.fault = "too large"
        if self.fault is not None:
            return
        self.sealed += chunk
        try:
            self.opener.feed(chunk)
        except Malformed as error:
            self.fault = f"corrupt: {error}"


class Whole:
    """A small state machine as one of slices."""

    def __init__(self, machine: StateMachine) -> None:
        self._machine = machine

    def apply(self, index: int, payload: bytes) -> object:
        """As the machine does."""
        return self._machine.apply(index, payload)

    def parts(self) -> Iterator[bytes]:
        """The snapshot, cut by size alone."""
        data = self._machine.snapshot()
        return (data[at : at + WHOLE_PART_BYTES] for at in range(0, len(data), WHOLE_PART_BYTES))

    def prepare(self, parts: Iterator[bytes]) -> Generator[None, None, Callable[[], None]]:
        """Reads all of it at once."""
        yield from ()
        return partial(self._machine.restore, b"".join(parts))


class SnapshotStore:
    """The last snapshot made or installed, the one coming in, and who is being sent what."""

    def __init__(self, machine: SlicedMachine) -> None:
        self._machine = machine
        self.screen: Callable[[Entry], bool] = lambda _last: True
        self.on_unknown: Callable[[str], None] = lambda _what: None
        self.index = 0
        self.made_at_s: float | None = None
        self.clock: Callable[[], float] = lambda: 0.0
        self.chunk_bytes = CHUNK_BYTES
        self.shelf: Shelf = NoShelf()
        self._sealed: bytes | bytearray | None = None
        self._making: _Making | None = None
        self._slice_next_s = 0.0
        self._is_resting = False
        self.next_turn: Callable[[Callable[[], None]], object] | None = None
        """Calls back in the next turn of the loop: one turn may have many steps, and one slice."""
        self._sending: dict[Any, tuple[bytes | bytearray, int, int]] = {}
        self._awaited: dict[Any, int] = {}
        self._incoming: _Incoming | None = None

    @property
    def size_bytes(self) -> int:
        """Size of the last snapshot."""
        return len(self._sealed or b"")

    @property
    def is_sending(self) -> bool:
        """Some peer has received a part, not the whole."""
        return bool(self._sending)

    @property
    def is_making(self) -> bool:
        """A snapshot is being made; the log is cut when it is complete."""
        return self._making is not None

    @property
    def is_working(self) -> bool:
        """Slices are waiting for their turn."""
        return self.is_making or self.is_reading

    def sending_from(self) -> int | None:
        """Where the log must begin so that whoever is being sent a snapshot can go on from it."""
        indexes = [index for _, _, index in self._sending.values()] + [*self._awaited.values()]
        return min(indexes) - 1 if indexes else None

    def work(self) -> None:
        """The next slice of what is being made or read, if it is due."""
        if self._making is None and self._incoming is None:
            return
        now = self.clock()
        if now < self._slice_next_s or self._is_resting:
            return
        self._slice_next_s = now + SLICE_EVERY_S
        if self.next_turn is not None:
            self._is_resting = True
            self.next_turn(self._go_on)
        if self._making is not None:
            self._make_slice(self._making)
        if self.is_reading:
            self.read_slice()

    def _go_on(self) -> None:
        self._is_resting = False

    # Making one: the library calls these two in its ticks.

    def serialize(self, data: tuple[Any, Entry, Entry, Any], id: int) -> None:
        """Begins a snapshot of this moment, which covers the two entries given."""
        _, last, former, _ = data
        making = _Making(self._machine.parts(), Sealer((former, last)), last[1], id)
        self._making = making
        for _ in range(2):  # one part and the end: a small state is done with it
            self._make_slice(making)

    def _make_slice(self, making: _Making) -> None:
        if making.is_made:
            return
        try:
            making.sealer.add(next(making.parts))
        except StopIteration:
            making.sealer.close()
            making.is_made = True
            self.shelf.put(making.sealer.sealed, making.index, at_once=False)
        except Exception:
            self._making = None
            raise

    def checkSerializing(self) -> tuple[int, int | None]:
        """Success once for each snapshot that is complete: the library then cuts its log."""
        making = self._making
        if making is None:
            return NOT_SERIALIZING, None
        if not making.is_made or self.shelf.is_busy:
            return SERIALIZING, None
        self._making = None
        self._keep(making.sealer.sealed, making.index)
        return SERIALIZED, making.log_index

    def _keep(self, sealed: bytes | bytearray, index: int) -> None:
        self._sealed = sealed
        self.index = index
        self.made_at_s = self.clock()

    # Sending one.

    def getTransmissionData(self, transmissionID: Any) -> Chunk | None:
        """The next chunk for a peer; the last one is empty. None while there is nothing to send."""
        if self._sealed is None:
            return None
        # A newer snapshot does not end the sending of this one, or a slow peer never had a whole.
        fresh = (self._sealed, 0, self.index)
        sealed, offset, index = self._sending.get(transmissionID, fresh)
        data = bytes(memoryview(sealed)[offset : offset + self.chunk_bytes])
        if data:
            self._sending[transmissionID] = (sealed, offset + len(data), index)
        else:
            self._sending.pop(transmissionID, None)
            self._awaited[transmissionID] = index
        return data, offset == 0, not data

    def cancelTransmisstion(self, id: Any) -> None:
        """Nothing: the library asks this also for a peer that only rests until the next step."""

    def acknowledged(self, peer: Any, index: int) -> None:
        """The peer holds all up to here: what it was sent is installed."""
        if self._awaited.get(peer, index + 1) <= index:
            del self._awaited[peer]

    def restart(self, peer: Any) -> None:
        """Starts again with the first chunk: what was sent is lost with its link."""
        self._sending.pop(peer, None)
        self._awaited.pop(peer, None)

    def forget_receivers(self) -> None:
        """Nobody is sent anything any more."""
        self._sending.clear()
        self._awaited.clear()

    # Receiving one.

    def setTransmissionData(self, data: Chunk | None) -> bool:
        """True when this chunk was the last and the whole is here, to be deserialized."""
        if data is None:
            return False
        chunk, is_first, is_last = data
        if is_first:
            self._incoming = _Incoming()
        incoming = self._incoming
        if incoming is None:
            return False
        if not incoming.is_whole:
            incoming.take(chunk)
            incoming.is_whole = is_last
        return is_last

    @property
    def covered(self) -> Entry | None:
        """The last entry that the snapshot covers which is here as a whole and undamaged."""
        incoming = self._incoming
        if incoming is None or incoming.fault is not None or not incoming.opener.is_closed:
            return None
        entries = incoming.opener.entries
        return None if entries is None else entries[1]

    @property
    def is_reading(self) -> bool:
        """A whole snapshot is here and is not read to its end."""
        incoming = self._incoming
        return incoming is not None and incoming.is_whole and incoming.install is None

    @property
    def is_whole(self) -> bool:
        """A whole snapshot is here, read or not."""
        return self._incoming is not None and self._incoming.is_whole

    @property
    def is_read(self) -> bool:
        """A whole snapshot is here and can be installed at once."""
        return self._incoming is not None and self._incoming.install is not None

    def read_slice(self) -> None:
        """Reads on; afterwards the snapshot is read, or gone because it cannot be."""
        incoming = self._incoming
        if incoming is None or not incoming.is_whole:
            return
        try:
            self._read_on(incoming)
        except SnapshotRefused:
            self._incoming = None

    def _read_on(self, incoming: _Incoming) -> None:
        if incoming.fault is None and not incoming.opener.is_closed:
            incoming.fault = "corrupt: it ends too early"
        if incoming.fault is not None:
            logger.error("snapshot_refused why=%r", incoming.fault)
            raise SnapshotRefused(incoming.fault)
        if incoming.reading is None:
            incoming.reading = self._machine.prepare(incoming.opener.parts())
        try:
            next(incoming.reading)
        except StopIteration as done:
            incoming.install = done.value
        except UnknownEntry as unknown:
            self.on_unknown(f"a snapshot cannot be read: {unknown}")
            raise SnapshotRefused(str(unknown)) from unknown
        except Exception as error:
            logger.exception("snapshot_refused why='not restored'")
            raise SnapshotRefused("not restored") from error

    def deserialize(self) -> tuple[None, Entry, Entry, tuple[()]]:
        """Installs what came in and tells which entries it covers; raises SnapshotRefused."""
        if self.covered is not None and not self.screen(self.covered):
            self._incoming = None
            raise SnapshotRefused("held already")
        incoming, self._incoming = self._incoming, None
        if incoming is None:
            raise SnapshotRefused("nothing came in")
        while incoming.install is None:
            self._read_on(incoming)
        try:
            incoming.install()
        except Exception as error:
            logger.exception("snapshot_refused why='not restored'")
            raise SnapshotRefused("not restored") from error
        former, last = incoming.opener.covered()
        self._making = None  # it would cut a log that begins anew
        self.forget_receivers()
        self._keep(incoming.sealed, last[1])
        # The library replaces its log by these two entries in this step, and says so.
        self.shelf.put(incoming.sealed, last[1], at_once=True)
        return None, last, former, ()

    def take_over(self, sealed: bytes) -> tuple[Entry, Entry]:
        """Installs what a former life kept; the two entries it covers. Raises SnapshotRefused."""
        incoming = _Incoming(is_whole=True)
        incoming.take(sealed)
        while incoming.install is None:
            self._read_on(incoming)
        incoming.install()
        former, last = incoming.opener.covered()
        self._keep(incoming.sealed, last[1])
        return former, last
