"""The log in memory, behind the library's journal interface.

Decides nothing but how much a cut may take (see `journal-floor`). Must not know terms' meaning.
"""

from collections.abc import Callable
from typing import Any

from coordinator.consensus.library import Entry


class MemoryLog:
    """The library's journal interface over a list, with its size in bytes.

    `keep_head` and `keep_tail` are how many entries a cut leaves at least (see `journal-floor`).
    `keep_from` names the oldest index that is still of use (see `snapshot-cap`); it is obeyed
    until the log would be longer than `keep_from_max`.
    """

    is_durable = False
    """Restarting is losing it."""
    is_waiting = False
    is_promise_waiting = False
    """Nothing waits for a disk."""
    path = ""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self.size_bytes = 0
        self.keep_head = 0
        self.keep_tail = 0
        self.keep_from: Callable[[], int | None] = lambda: None
        self.keep_from_max = 0
        self._term = 0
        self._vote: str | None = None
        self.notes: dict[str, str] = {}

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Appends one entry."""
        self._entries.append((command, idx, term))
        self.size_bytes += len(command)

    def clear(self) -> None:
        """Forgets every entry."""
        self._entries = []
        self.size_bytes = 0

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        """Cuts the end off, from this position on."""
        position = max(entryFrom, self.keep_head)
        self.size_bytes -= sum(len(entry[0]) for entry in self._entries[position:])
        del self._entries[position:]

    def deleteEntriesTo(self, entryTo: int) -> None:
        """Cuts the beginning off, up to this position."""
        position = min(entryTo, len(self._entries) - self.keep_tail)
        useful = self.keep_from()
        if useful is not None and len(self._entries) <= self.keep_from_max:
            position = min(position, useful - self._entries[0][1])
        if position > 0:
            self.size_bytes -= sum(len(entry[0]) for entry in self._entries[:position])
            # In place: a collection walks through a new list, and this one may be long.
            del self._entries[:position]

    def __getitem__(self, item: Any) -> Any:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def _destroy(self) -> None:
        pass

    def note(self, name: str, value: str) -> None:
        """Keeps a short fact about this node as long as the log."""
        self.notes[name] = value

    @property
    def is_behind(self) -> bool:
        """Nothing is ever left to keep."""
        return False

    def sync(self) -> None:
        """Memory is as safe as it gets."""

    def close(self) -> None:
        """Nothing is held."""

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Not noted: a leader tells, and what a snapshot covers is known to be committed."""

    def getRaftCommitIndex(self) -> int:
        """The first entry is always committed."""
        return 1

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        """Notes term and vote."""
        self._term, self._vote = term, votedForNodeId

    def getCurrentTerm(self) -> int:
        """The noted term."""
        return self._term

    def getVotedForNodeId(self) -> str | None:
        """The noted vote."""
        return self._vote

    def onOneSecondTimer(self) -> None:
        """Nothing to do for memory."""
