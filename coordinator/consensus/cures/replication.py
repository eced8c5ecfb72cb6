"""Cures of replication: `prefix-match`, `ack-term`, `reset-order`.

Decide which entries of an append are handed to the library, and which acknowledgements are
given and believed. Must not know elections or snapshots.
"""

from collections.abc import Mapping

from coordinator.consensus.codec import Message
from coordinator.consensus.cures.base import Cure, Rewrite, Seen


class PrefixMatch(Cure):
    """Only a real conflict cuts the log, and an acknowledgement never lowers `nextIndex`.

    The library cuts after `prevLogIdx` on every append, so a late resend drops entries that were
    acknowledged. Here the entries that are held already are taken out before it sees them.
    """

    name = "prefix-match"

    def __init__(self) -> None:
        self._ack: int | None = None
        self._next_before = 0

    def incoming(self) -> Mapping[str, Rewrite]:
        """Appends are shortened; acknowledgements are remembered against."""
        return {"append_entries": self._shorten, "next_node_idx": self._note_next}

    def delivered(self) -> Mapping[str, Seen]:
        """The cap ends with its message."""
        return {"append_entries": self._lift_cap, "next_node_idx": self._keep_next}

    def outgoing(self) -> Mapping[str, Rewrite]:
        """The acknowledgement of a shortened append names what the leader sent, no more."""
        return {"next_node_idx": self._cap_ack}

    def _shorten(self, _peer: str, message: Message) -> Message | None:
        engine = self.replica.engine
        prev = message.get("prevLogIdx")
        if prev is None or message["term"] < engine.term or "entries" not in message:
            return message
        last = engine.last_index
        if prev >= last:
            return message  # nothing lies behind the matched point
        if engine.entry_term(prev) != message["prevLogTerm"]:
            return message  # a mismatch: the library answers it
        prev_term = message["prevLogTerm"]
        entries = message["entries"]
        matched = 0
        for _, index, term in entries:
            if index > last or engine.entry_term(index) != term:
                break
            matched += 1
            prev, prev_term = index, term
        rest = entries[matched:]
        if rest and prev < engine.commit_index:
            self.replica.fail(f"an append conflicts below the commit index at {prev + 1}")
            return None
        if rest or prev == last:
            return {**message, "prevLogIdx": prev, "prevLogTerm": prev_term, "entries": rest}
        # All of it is held and more lies behind: let the library see an empty append at the end.
        self._ack = prev + 1
        return {
            **message,
            "prevLogIdx": last,
            "prevLogTerm": engine.last_term,
            "entries": (),
            "commit_index": min(message["commit_index"], prev),
        }

    def _cap_ack(self, _peer: str, message: Message) -> Message:
        if self._ack is None:
            return message
        return {**message, "next_node_idx": self._ack}

    def _lift_cap(self, _peer: str, _message: Message) -> None:
        self._ack = None

    def _note_next(self, peer: str, message: Message) -> Message:
        self._next_before = self.replica.engine.next_index.get(self.replica.members[peer], 0)
        return message

    def _keep_next(self, peer: str, message: Message) -> None:
        engine = self.replica.engine
        if message["success"] and not message["reset"] and engine.is_leader:
            member = self.replica.members[peer]
            engine.next_index[member] = max(engine.next_index[member], self._next_before)


class AckTerm(Cure):
    """An answer counts once, in its own term.

    Every message carries its sender's term, and an acknowledgement of another term is dropped. The
    library counts votes, not voters: a vote that comes twice would count twice.
    """

    name = "ack-term"

    def __init__(self) -> None:
        self._voters: set[str] = set()
        self._voted_term = 0

    def incoming(self) -> Mapping[str, Rewrite]:
        """Acknowledgements and votes are checked."""
        return {"next_node_idx": self._check, "response_vote": self._count_once}

    def _count_once(self, peer: str, message: Message) -> Message | None:
        term = self.replica.engine.term
        if self._voted_term != term:
            self._voted_term = term
            self._voters.clear()
        if message["term"] != term or peer in self._voters:
            return None
        self._voters.add(peer)
        return message

    def outgoing(self) -> Mapping[str, Rewrite]:
        """Everything is stamped."""
        return {"*": self._stamp}

    def _stamp(self, _peer: str, message: Message) -> Message:
        return {**message, "stamp": self.replica.engine.term}

    def _check(self, _peer: str, message: Message) -> Message | None:
        return message if message.get("stamp") == self.replica.engine.term else None


class ResetOrder(Cure):
    """A mismatch is answered with commit index + 1: all up to there is known to match.

    The library answers pipelined appends with different indexes and obeys the last, for ever.
    With one answer for all of them one round is enough.
    """

    name = "reset-order"

    def outgoing(self) -> Mapping[str, Rewrite]:
        """Resets are lowered."""
        return {"next_node_idx": self._lower}

    def _lower(self, _peer: str, message: Message) -> Message:
        if not message["reset"] or message["success"]:
            return message
        engine = self.replica.engine
        known = max(engine.commit_index, engine.first_index) + 1
        return {**message, "next_node_idx": min(message["next_node_idx"], known)}
