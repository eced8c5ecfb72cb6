"""The log on disk: a step's changes are gathered, and kept as one before anything of it is said.

Decides what of a step goes to disk and in which shares. The entries stay in memory as well, where
the library reads them. Must not know how a disk keeps them, nor what a term means.
"""

from typing import Final

from coordinator.consensus.disk import Batch, Chunk, Disk, Kept
from coordinator.consensus.memory_log import MemoryLog

CHUNK_BYTES: Final = 256 << 10
"""Of a snapshot in one row: a row is written and freed within a millisecond."""
CHUNKS_PER_STEP_MAX: Final = 4
"""1 MiB beside the entries of a step, so that a large snapshot stalls no step."""
CUTS_PER_STEP_MAX: Final = 5_000
"""Entries freed in one step; what a compaction no longer needs may stay for a few steps more."""


class Journal(MemoryLog):
    """A log whose changes, `sync`ed, outlive the process. `shelf` keeps its snapshots."""

    is_durable = True

    def __init__(self, disk: Disk, kept: Kept) -> None:
        super().__init__()
        self._disk = disk
        self._entries = list(kept.entries)
        self.size_bytes = sum(len(entry[0]) for entry in self._entries)
        self._term, self._vote = kept.term, kept.vote
        self.notes = dict(kept.notes)
        self.shelf = JournalShelf(kept)
        self.path = disk.path
        self._floor = self._entries[0][1] if self._entries else 0
        self._batch = Batch()
        self.is_waiting = False
        self._is_filled = False

    # What the library changes.

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Appends one entry."""
        super().add(command, idx, term)
        self._batch.entries.append((command, idx, term))
        self.is_waiting = True

    def clear(self) -> None:
        """Forgets every entry."""
        super().clear()
        self._cut(0)
        self._floor = 0

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        """Cuts the end off, from this position on."""
        position = max(entryFrom, self.keep_head)
        if position < len(self._entries):
            self._cut(self._entries[position][1])
        super().deleteEntriesFrom(entryFrom)

    def _cut(self, index: int) -> None:
        batch = self._batch
        while batch.entries and batch.entries[-1][1] >= index:
            batch.entries.pop()
        batch.cut_from = index if batch.cut_from is None else min(batch.cut_from, index)
        self.is_waiting = True

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        """Notes term and vote."""
        super().setCurrentTerm(term, votedForNodeId)
        self._batch.promise = (term, votedForNodeId)
        self.is_waiting = self.is_promise_waiting = True

    def note(self, name: str, value: str) -> None:
        """Keeps a short fact about this node."""
        if self.notes.get(name) != value:
            super().note(name, value)
            self._batch.notes[name] = value
            self.is_waiting = True

    def close(self) -> None:
        """Ends in order; nothing may change any more."""
        self._disk.close()

    def _destroy(self) -> None:
        self.close()

    # Keeping it.

    @property
    def is_behind(self) -> bool:
        """Shares are left for further steps."""
        return self.shelf.is_working or self._is_front_left

    @property
    def _is_front_left(self) -> bool:
        return bool(self._entries) and self._entries[0][1] > self._floor

    def sync(self) -> None:
        """Returns when all that changed is safe.

        Raises DiskRefused (call again: the same changes are tried) or DiskLost (never again).
        """
        if not (self.is_waiting or self.is_behind):
            return
        if not self._is_filled:
            self._fill()
        self._disk.commit(self._batch)
        self.shelf.committed()
        self._batch = Batch()
        self.is_waiting = self.is_promise_waiting = self._is_filled = False

    def _fill(self) -> None:
        self._is_filled = True
        batch = self._batch
        if self._is_front_left:
            if self._floor == 0:
                self._floor = self._entries[0][1]  # all was cleared: nothing lies in front
            else:
                self._floor = min(self._entries[0][1], self._floor + CUTS_PER_STEP_MAX)
                batch.cut_to = self._floor
        self.shelf.share(batch)


class JournalShelf:
    """Carries a snapshot to disk a few chunks a step, then frees the former one likewise.

    Until the last chunk is safe the former snapshot is the current one, and the log behind it
    stays: `is_busy` holds the library's cut back.
    """

    def __init__(self, kept: Kept) -> None:
        self._current = kept.snapshot_name
        self._stale = list(kept.stale)
        self._sealed: bytes | bytearray = b""
        self._name: Chunk | None = None
        self._next = 0
        self._is_at_once = False

    @property
    def is_busy(self) -> bool:
        """The last one put here is not whole on disk yet."""
        return self._name is not None

    @property
    def is_working(self) -> bool:
        """There is something to write or to free."""
        return self._name is not None or bool(self._stale)

    def put(self, sealed: bytes | bytearray, index: int, *, at_once: bool) -> None:
        """Keeps this one instead of the former."""
        if self._current is not None and self._current[0] == index and self._name is None:
            return  # it is the current one: equal index, equal state
        if self._name is not None:
            self._stale += [(self._name[0], number) for number in range(self._next)]
        self._stale = [chunk for chunk in self._stale if chunk[0] != index]
        self._sealed, self._next, self._is_at_once = sealed, 0, at_once
        self._name = (index, -(-len(sealed) // CHUNK_BYTES))

    def share(self, batch: Batch) -> None:
        """Adds what this step carries."""
        if self._name is None:
            batch.drops += self._stale[:CHUNKS_PER_STEP_MAX]
            del self._stale[:CHUNKS_PER_STEP_MAX]
            return
        index, count = self._name
        end = count if self._is_at_once else min(count, self._next + CHUNKS_PER_STEP_MAX)
        for number in range(self._next, end):
            at = number * CHUNK_BYTES
            batch.chunks[index, number] = bytes(self._sealed[at : at + CHUNK_BYTES])
        self._next = end
        if end == count:
            batch.snapshot = self._name

    def committed(self) -> None:
        """What was shared is safe."""
        if self._name is None or self._next < self._name[1]:
            return
        if self._current is not None:
            index, count = self._current
            self._stale += [(index, number) for number in range(count)]
        self._current, self._name, self._sealed = self._name, None, b""
