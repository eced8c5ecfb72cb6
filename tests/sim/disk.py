"""A disk that crashes on command: keeps whole steps, as SQLite does, and nothing half.

What a scenario uses:

    disk = SimDisk("n1")                        one per node name; outlives the node's lives
    cures = [Durable(disk), *others]            a life on this disk (`Durable` comes first)
    disk.arm(Fault.CUT_BEFORE)                  the next commit raises PowerCut, its batch is lost
    disk.arm(Fault.CUT_AFTER)                   the next commit raises PowerCut, its batch is kept
    disk.arm(Fault.BROKEN, keeps=True)          the next commit raises DiskLost; kept or not
    disk.is_full = True                         commits raise DiskRefused until it is False
    disk.wipe()                                 a new, empty disk: the node has lost its memory

`PowerCut` leaves `Replica.step`: the driver catches it around the step, sends nothing, answers
nobody and kills the node; `SimDisk` then holds what a new life finds. A crash between two steps
needs no fault: all that a step changed is kept before its messages leave. After DiskLost the
replica has `fatal` set: the node is to be killed, as the product's process ends. While the disk
is full the replica has `disk_fault` set, sends nothing and hears nothing. With `Replica.send_early`
set to what sends, as the product sets it, a leader's entries leave before their commit: after
CUT_BEFORE the others may hold what the leader lost.

Why nothing is torn here: the last commit of a crashed process is whole or absent, because each
frame of SQLite's write-ahead file carries a checksum and only a complete, last frame commits.
`tests/consensus/test_journal_file.py` tears the real file at every byte to hold it to that.
"""

from enum import Enum, auto

from coordinator.consensus.disk import Batch, Chunk, DiskLost, DiskRefused, Kept
from coordinator.consensus.library import Entry


class PowerCut(BaseException):
    """The machine is off in the middle of a step; nothing after the commit happened."""


class Fault(Enum):
    """What the next commit comes to."""

    CUT_BEFORE = auto()
    """Off before the commit was safe: the batch is lost."""
    CUT_AFTER = auto()
    """Off after it was safe, before anything was said: the batch is kept."""
    BROKEN = auto()
    """An error of the device."""


class SimDisk:
    """What one node's disk holds; `commit` is atomic."""

    def __init__(self, name: str) -> None:
        self.path = f"sim:{name}"
        self.is_full = False
        self.commits = 0
        self.fault: Fault | None = None
        self._keeps = False
        self.wipe()

    def wipe(self) -> None:
        """As new."""
        self.entries: dict[int, Entry] = {}
        self.promise: tuple[int, str | None] = (0, None)
        self.notes: dict[str, str] = {}
        self.chunks: dict[Chunk, bytes] = {}
        self.snapshot: tuple[int, int] | None = None

    def arm(self, fault: Fault, *, keeps: bool = False) -> None:
        """Sets what the next commit comes to; `keeps` is for BROKEN only."""
        self.fault, self._keeps = fault, keeps

    def load(self) -> Kept:
        """What a new life finds."""
        indexes = sorted(self.entries)
        assert indexes == list(range(indexes[0], indexes[-1] + 1)) if indexes else True, indexes
        term, vote = self.promise
        return Kept(
            term=term,
            vote=vote,
            notes=dict(self.notes),
            entries=tuple(self.entries[index] for index in indexes),
            snapshot=self._sealed(),
            snapshot_name=self.snapshot,
            stale=tuple(sorted(c for c in self.chunks if not self._is_current(c))),
        )

    def _is_current(self, chunk: Chunk) -> bool:
        index, number = chunk
        return self.snapshot is not None and index == self.snapshot[0] and number < self.snapshot[1]

    def _sealed(self) -> bytes | None:
        if self.snapshot is None:
            return None
        index, count = self.snapshot
        return b"".join(self.chunks[index, number] for number in range(count))

    def commit(self, batch: Batch) -> None:
        """All of it, or what the armed fault leaves."""
        if self.is_full:
            raise DiskRefused("no space left")
        fault, self.fault = self.fault, None
        match fault:
            case None:
                self._keep(batch)
            case Fault.CUT_BEFORE:
                raise PowerCut
            case Fault.CUT_AFTER:
                self._keep(batch)
                raise PowerCut
            case Fault.BROKEN:
                if self._keeps:
                    self._keep(batch)
                raise DiskLost("input/output error")

    def _keep(self, batch: Batch) -> None:
        self.commits += 1
        if batch.cut_from is not None:
            for index in [index for index in self.entries if index >= batch.cut_from]:
                del self.entries[index]
        self.entries.update((entry[1], entry) for entry in batch.entries)
        if batch.cut_to is not None:
            for index in [index for index in self.entries if index < batch.cut_to]:
                del self.entries[index]
        if batch.promise is not None:
            self.promise = batch.promise
        self.notes.update(batch.notes)
        self.chunks.update(batch.chunks)
        if batch.snapshot is not None:
            self.snapshot = batch.snapshot
        for chunk in batch.drops:
            self.chunks.pop(chunk, None)

    def close(self) -> None:
        """Nothing is held."""
