"""Cures by limits: `journal-floor`, `total-apply`, `bounded`, `once`, `membership-gate`.

Decide what the library is never asked to do. Must not know terms or elections.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from coordinator.consensus.codec import Message
from coordinator.consensus.contract import (
    ENTRY_BYTES_MAX,
    IN_FLIGHT_MAX,
    ApplyFailed,
    UnknownEntry,
)
from coordinator.consensus.cures.base import Blueprint, Cure, Rewrite, Seen
from coordinator.consensus.library import NOT_LEADER, UNKNOWN_OUTCOME, logger

if TYPE_CHECKING:
    from coordinator.consensus.replica import Replica

BATCH_BYTES: Final = 2 << 20
"""Twice the largest entry, so that no entry is ever split (the splitting is wrong)."""
APPEND_ENTRIES_MAX: Final = 2_048
"""Of one message: read in 5 ms, and a receiver takes in the next one in another turn of its loop.
More than come up between two steps at 100,000 writes a second."""
APPENDS_PER_STEP_MAX: Final = 4
"""To one peer: packed in some milliseconds, and more than links and disks take in between steps."""
LOG_BYTES_MAX: Final = 256 << 20
"""A log that no compaction shortens is not committed; it may not eat the machine."""
ERROR_TEXT_MAX: Final = 200


class JournalFloor(Cure):
    """A cut never empties the log: the library indexes its first and last entry in every tick."""

    name = "journal-floor"

    def prepare(self, blueprint: Blueprint) -> None:
        """Two entries stay in front of a snapshot's cut, one behind a truncation."""
        blueprint.log.keep_tail = 2
        blueprint.log.keep_head = 1


class TotalApply(Cure):
    """A state machine that raises is answered with a value, on every node alike.

    The library would retry the entry in every tick, before it reads anything: all nodes go deaf.
    An entry that others read and this version does not is no such value: this node must end.
    """

    name = "total-apply"

    def prepare(self, blueprint: Blueprint) -> None:
        """Wraps the state machine."""
        blueprint.apply = self._total(blueprint.apply)

    def _total(self, apply: Callable[[int, bytes], object]) -> Callable[[int, bytes], object]:
        def apply_or_tell(index: int, payload: bytes) -> object:
            try:
                return apply(index, payload)
            except UnknownEntry as unknown:
                self.replica.fail(f"entry {index} cannot be read: {unknown}")
                raise
            except Exception as error:  # noqa: BLE001 - total means total
                logger.exception("apply_raised index=%d bytes=%d", index, len(payload))
                return ApplyFailed(index, f"{type(error).__name__}: {error}"[:ERROR_TEXT_MAX])

        return apply_or_tell


class Bounded(Cure):
    """Entries, batches, queues and waiters have limits, and nothing waits for a leader."""

    name = "bounded"

    def __init__(self) -> None:
        self._resting: set[str] = set()
        self._appends: dict[str, int] = {}

    def attach(self, replica: "Replica") -> None:
        """Bounds what the library puts into a message."""
        super().attach(replica)
        replica.engine.append_entries_max = APPEND_ENTRIES_MAX

    def prepare(self, blueprint: Blueprint) -> None:
        """Sets the limits."""
        blueprint.settings["appendEntriesBatchSizeBytes"] = BATCH_BYTES
        blueprint.settings["commandsQueueSize"] = IN_FLIGHT_MAX
        blueprint.settings["commandsWaitLeader"] = False
        blueprint.entry_bytes_max = ENTRY_BYTES_MAX
        blueprint.in_flight_max = IN_FLIGHT_MAX
        blueprint.log_bytes_max = LOG_BYTES_MAX

    def before_step(self) -> None:
        """A peer that does not read is not sent more: what it lacks stays in the log."""
        replica = self.replica
        self._appends.clear()
        if not replica.engine.is_leader:
            return
        for peer in replica.peers:
            if peer in replica.links and replica.is_congested(peer):
                replica.engine.connected.discard(self.replica.members[peer])
                self._resting.add(peer)

    def outgoing(self) -> Mapping[str, Rewrite]:
        """A peer that is far behind gets its share of a step; the next step goes on."""
        return {"append_entries": self._count}

    def _count(self, peer: str, message: Message) -> Message:
        if message.get("entries"):
            replica, member = self.replica, self.replica.members[peer]
            sent = self._appends[peer] = self._appends.get(peer, 0) + 1
            lacks_more = replica.engine.next_index[member] <= replica.engine.last_index
            if sent >= APPENDS_PER_STEP_MAX and lacks_more:
                # Leaving the set of connected peers is the send loop's own way out.
                replica.engine.connected.discard(member)
                self._resting.add(peer)
                replica.owes_appends = True
        return message

    def after_step(self) -> None:
        """Resting peers are connected again."""
        if self._resting:
            for peer in self._resting & self.replica.links:
                self.replica.engine.connected.add(self.replica.members[peer])
            self._resting.clear()


class Once(Cure):
    """A proposal is appended here or refused: never forwarded, never left without an answer.

    The library forwards what it holds when the leadership goes, and forgets the callbacks of
    entries that a snapshot covers.
    """

    name = "once"

    def incoming(self) -> Mapping[str, Rewrite]:
        """Nobody appends through another node."""
        return {"apply_command": _drop, "apply_command_response": _drop}

    def outgoing(self) -> Mapping[str, Rewrite]:
        """What would be forwarded is refused; it was not appended."""
        return {"apply_command": self._refuse}

    def delivered(self) -> Mapping[str, Seen]:
        """A snapshot may have covered entries that somebody waits for."""
        return {"append_entries": self._answer_covered}

    def _refuse(self, _peer: str, message: Message) -> None:
        answer = self.replica.engine.take_forwarded(message.get("request_id", 0))
        if answer is not None:
            answer(None, NOT_LEADER)

    def _answer_covered(self, _peer: str, message: Message) -> None:
        if "prevLogIdx" in message:
            return
        waiting = self.replica.engine.waiting()
        applied = self.replica.engine.applied_index
        for index in sorted(index for index in waiting if index <= applied):
            for _, answer in waiting.pop(index):
                answer(None, UNKNOWN_OUTCOME)


def _drop(_peer: str, _message: Message) -> None:
    return None


class MembershipGate(Cure):
    """Members are static, and a name is one process: the one where the name was moved to last.

    The library's own guard of changes never guards anything.
    """

    name = "membership-gate"

    def prepare(self, blueprint: Blueprint) -> None:
        """Keeps the library's membership code unreachable, and former processes out."""
        blueprint.settings["dynamicMembershipChange"] = False
        blueprint.links.checks_addresses = True
