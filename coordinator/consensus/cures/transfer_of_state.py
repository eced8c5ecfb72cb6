"""The cure of snapshots on the wire: `snapshot-cap`.

Decides what a follower believes of a snapshot message, which snapshot is worth installing, and
how many chunks a leader sends in one step. Must not know what a snapshot holds.

A large snapshot is read in slices. Meanwhile this node takes in nothing else, and tells whoever
leads that it is there: without an answer a leader of two nodes would give up, and an answer to its
appends would be a mismatch, at which it sends the snapshot again. The first append after the last
slice is taken as the order to install.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.consensus.codec import Message
from coordinator.consensus.cures.base import Blueprint, Cure, Rewrite, Seen
from coordinator.consensus.library import Entry
from coordinator.consensus.snapshots import LAST_CHUNK

CHUNKS_PER_STEP_MAX: Final = 8
"""2 MiB in a step: enough for a fast link, little for the loop and the peer's buffer."""
KEEP_FACTOR: Final = 4
"""How much longer than at a compaction the log may grow while a peer receives a snapshot."""


class SnapshotCap(Cure):
    """No commit is believed from a snapshot before it is installed; old and corrupt are refused."""

    name = "snapshot-cap"

    def __init__(self) -> None:
        self._chunks: dict[str, int] = {}
        self._resting: set[str] = set()
        self._installing = False
        self._is_contact = False
        self._held: int | None = None
        self._before = 0

    def prepare(self, blueprint: Blueprint) -> None:
        """Asks before anything is installed; keeps the log that a slow receiver will need."""
        blueprint.snapshots.screen = self._screen
        blueprint.log.keep_from = blueprint.snapshots.sending_from
        blueprint.log.keep_from_max = KEEP_FACTOR * blueprint.config.compaction_min_entries

    def incoming(self) -> Mapping[str, Rewrite]:
        """Commit indexes of snapshot messages are capped."""
        return {"append_entries": self._cap}

    def delivered(self) -> Mapping[str, Seen]:
        """The installation ends with its message; an acknowledged one is waited for no more."""
        return {"append_entries": self._finish, "next_node_idx": self._note_received}

    def outgoing(self) -> Mapping[str, Rewrite]:
        """A refused snapshot is not acknowledged; a sender rests after its share of chunks."""
        return {"append_entries": self._count, "next_node_idx": self._acknowledge}

    def _cap(self, _peer: str, message: Message) -> Message:
        store = self.replica.snapshots
        is_part = "prevLogIdx" not in message
        if message["term"] < self.replica.engine.term:
            return {**message, "commit_index": 0} if is_part else message
        if store.is_whole:
            return self._go_on(message)
        if not is_part:
            return message
        chunk = message.get("serialized")
        if chunk is None or not chunk[2]:
            # The tail of this log was not compared with the leader's: believe no commit of it.
            self._is_contact = True
            return {**message, "commit_index": 0}
        store.setTransmissionData(chunk)
        if not self._is_held():
            store.read_slice()
        return self._go_on(message)

    def _is_held(self) -> bool:
        """Whether this log holds all that the snapshot covers which is here."""
        covered = self.replica.snapshots.covered
        return covered is not None and not self._screen(covered)

    def _go_on(self, message: Message) -> Message:
        """The order to install what was read, or only a sign of life while it is read."""
        store = self.replica.snapshots
        self._held = None
        is_held = self._is_held()
        plain = {"type": message["type"], "term": message["term"], "commit_index": 0}
        if not store.is_read and not is_held:
            self._is_contact = store.is_whole
            return plain
        self._installing = True
        self._before = self.replica.engine.applied_index
        return {**plain, "serialized": LAST_CHUNK}

    def _screen(self, last: Entry) -> bool:
        """False when this log holds all that the snapshot covers: the tail behind it stays."""
        engine = self.replica.engine
        _, index, term = last
        if index <= engine.commit_index or engine.entry_term(index) == term:
            self._held = index
            return False
        return True

    def _acknowledge(self, _peer: str, message: Message) -> Message | None:
        if not self._installing:
            return message
        if self._held is not None:
            return {**message, "next_node_idx": self._held + 1}
        if self.replica.engine.applied_index > self._before:
            return message
        return None  # corrupt: this node has nothing of it, and says nothing

    def _finish(self, peer: str, _message: Message) -> None:
        engine = self.replica.engine
        if self._is_contact:
            self._is_contact = False
            self.replica.send(
                peer,
                {
                    "type": "next_node_idx",
                    "next_node_idx": engine.last_index + 1,
                    "reset": False,
                    "success": False,
                },
            )
        if not self._installing:
            return
        self._installing = False
        if self._held is not None:
            # Committed entries only are in a snapshot, and this log holds them all.
            engine.raise_commit(self._held)
        elif engine.applied_index > self._before:
            engine.raise_commit(engine.applied_index)

    def _note_received(self, peer: str, message: Message) -> None:
        if message["success"]:
            member = self.replica.members[peer]
            self.replica.snapshots.acknowledged(member, message["next_node_idx"] - 1)

    def _count(self, peer: str, message: Message) -> Message:
        if "serialized" not in message:
            return message
        chunk = message["serialized"]
        sent = self._chunks[peer] = self._chunks.get(peer, 0) + 1
        if chunk is None or (sent >= CHUNKS_PER_STEP_MAX and not chunk[2]):
            # Leaving the set of connected peers is the send loop's own way out.
            self.replica.engine.connected.discard(self.replica.members[peer])
            self._resting.add(peer)
        return message

    def before_step(self) -> None:
        """Who is no leader sends nothing, and keeps no log for anyone."""
        if not self.replica.engine.is_leader:
            self.replica.snapshots.forget_receivers()

    def after_step(self) -> None:
        """Resting peers are connected again."""
        self._chunks.clear()
        for peer in self._resting:
            self.replica.engine.connected.add(self.replica.members[peer])
        self._resting.clear()

    def link_shut(self, peer: str) -> None:
        """A real disconnect wins over a rest."""
        self._resting.discard(peer)
