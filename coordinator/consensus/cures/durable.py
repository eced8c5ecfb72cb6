"""The cure of forgetting: `durable`.

Decides what a node finds of its former life, and what makes it whole. Must not know how a disk
keeps it. The library's own journal is never synced, and is rewritten in place at a compaction.
"""

from coordinator.consensus.cures.base import Blueprint, Cure
from coordinator.consensus.disk import Disk, JournalRefused, Kept
from coordinator.consensus.journal import Journal
from coordinator.consensus.journal_file import open_journal
from coordinator.consensus.snapshots import SnapshotRefused, SnapshotStore


class Durable(Cure):
    """Log, term, vote and snapshots outlive the process, where a place for them is configured.

    What a step changed is safe before its messages and answers leave (`Replica.step`).
    """

    name = "durable"

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk

    def prepare(self, blueprint: Blueprint) -> None:
        """Takes the place of the memory; raises JournalRefused for a file it cannot trust."""
        config = blueprint.config
        disk = self._disk
        if disk is None:
            if config.storage_dir is None:
                return
            disk = open_journal(config.storage_dir, config.name)
        try:
            kept = disk.load()
            _take_over(disk.path, kept, blueprint.snapshots)
        except BaseException:
            disk.close()
            raise
        journal = Journal(disk, kept)
        blueprint.log = journal
        blueprint.snapshots.shelf = journal.shelf


def _take_over(path: str, kept: Kept, snapshots: SnapshotStore) -> None:
    """Restores the snapshot, and checks that the log goes on from it without a gap."""
    covered = 0
    if kept.snapshot is not None:
        try:
            _, (_, covered, _) = snapshots.take_over(kept.snapshot)
        except SnapshotRefused as error:
            raise refused(path, f"its snapshot is refused: {error.__cause__ or error}") from error
    if not kept.entries:
        if kept.term or kept.snapshot is not None:
            raise refused(path, "its log is missing")
        return
    first, last = kept.entries[0][1], kept.entries[-1]
    if first > max(covered, 1) or last[1] < covered:
        raise refused(path, f"its log, {first} to {last[1]}, does not meet its snapshot, {covered}")
    if last[2] > kept.term:
        raise refused(path, f"its log is of term {last[2]}, above its own term {kept.term}")


def refused(path: str, what: str) -> JournalRefused:
    """The refusal of a damaged file, with the way out that never loses anything."""
    return JournalRefused(
        f"{path}: {what}; move its folder away and start again: the node comes back empty and is "
        "caught up by the others, if a majority of them is up and whole"
    )
