"""What a journal needs of a disk: to take a step's changes whole, and to give back what it kept.

Decides nothing. The product's disk is a SQLite file (`journal_file`), the simulator's a fake that
crashes. Must not know Raft beyond the names of what is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from coordinator.consensus.contract import ConsensusError
from coordinator.consensus.library import Entry

Chunk = tuple[int, int]
"""(index of its snapshot, number): the name of one chunk of a snapshot."""


class JournalRefused(ConsensusError):  # noqa: N818 - says what is done with the file
    """The kept file cannot be used; the text names the file and the way out."""


class DiskRefused(Exception):  # noqa: N818 - an outcome
    """Nothing of the batch is kept, and the same batch may be tried again: full, or read-only."""


class DiskLost(Exception):  # noqa: N818 - an outcome
    """It is not known what is kept: only a new start, which reads it again, can tell."""


@dataclass(slots=True)
class Batch:
    """All that one step changed. Kept whole or not at all; the fields in order of carrying out."""

    cut_from: int | None = None
    """Entries from this index on go."""
    entries: list[Entry] = field(default_factory=list)
    """They come, in order and without a gap to what stayed."""
    cut_to: int | None = None
    """Entries below this index go."""
    promise: tuple[int, str | None] | None = None
    """Term and vote."""
    notes: dict[str, str] = field(default_factory=dict)
    """Short facts by name."""
    chunks: dict[Chunk, bytes] = field(default_factory=dict)
    """Parts of a snapshot that is not the current one yet."""
    snapshot: tuple[int, int] | None = None
    """The current snapshot from now on: its index and how many chunks it has."""
    drops: list[Chunk] = field(default_factory=list)
    """Chunks of former snapshots that go."""

    @property
    def is_empty(self) -> bool:
        """Nothing changed."""
        return self == _NOTHING


_NOTHING = Batch()


@dataclass(frozen=True, slots=True)
class Kept:
    """What a disk gave back at a start; a disk that never kept anything gives `Kept()`."""

    term: int = 0
    vote: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    snapshot: bytes | None = None
    snapshot_name: tuple[int, int] | None = None
    """Its index and how many chunks it has."""
    stale: tuple[Chunk, ...] = ()
    """Chunks of no current snapshot: a crash came before they were dropped or complete."""


class Shelf(Protocol):
    """Where a sealed snapshot outlives the process; the journal's, or none."""

    @property
    def is_busy(self) -> bool:
        """The last one put here is not whole on disk yet: the log behind it must stay."""

    def put(self, sealed: bytes | bytearray, index: int, *, at_once: bool) -> None:
        """Keeps this one instead of the former: in shares, or whole within this very step."""


class NoShelf:
    """Memory only: a snapshot is kept as well as anything else is."""

    is_busy = False

    def put(self, sealed: bytes | bytearray, index: int, *, at_once: bool) -> None:
        """Nothing."""


class Disk(Protocol):
    """One node's disk."""

    path: str
    """For messages."""

    def load(self) -> Kept:
        """What was kept; raises JournalRefused when it cannot be trusted."""

    def commit(self, batch: Batch) -> None:
        """Returns when all of the batch is safe; raises DiskRefused or DiskLost."""

    def close(self) -> None:
        """Ends in order; nothing may be committed any more."""
