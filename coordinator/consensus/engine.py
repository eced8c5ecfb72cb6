"""PySyncObj with names for its private parts, and the six methods it is steered by.

Decides nothing about Raft. Every name used here is compared with the installed library by the
contract tests.
"""

import queue
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from pysyncobj import SyncObj, SyncObjConf

from coordinator.consensus.library import (
    FOLLOWER,
    LEADER,
    NO_OP_ENTRY,
    REGULAR,
    Answer,
    Member,
    Port,
    read_clock,
)
from coordinator.consensus.memory_log import MemoryLog

APPLY_S: Final = 0.01
"""Of one step: a node that comes back has a backlog to apply, and its loop must turn."""
SHARE_ENTRIES: Final = 64
SHARE_BYTES: Final = 16 << 10
"""So much is applied between two looks at the clock: a millisecond or two."""


class _NoPoller:
    """The library polls sockets in every tick; it has none here."""

    def poll(self, timeout: float) -> None:
        pass


class Proposals:
    """The library's queue of proposals without its lock: one thread alone uses it."""

    def __init__(self, size_max: int) -> None:
        self._waiting: deque[Any] = deque()
        self._size_max = size_max

    def put_nowait(self, proposal: Any) -> None:
        """Queue one; `queue.Full` at the limit."""
        if len(self._waiting) >= self._size_max:
            raise queue.Full
        self._waiting.append(proposal)

    def get_nowait(self) -> Any:
        """The oldest one; `queue.Empty` without any."""
        if not self._waiting:
            raise queue.Empty
        return self._waiting.popleft()


class Engine(SyncObj):  # type: ignore[misc]  # the library has no types
    """PySyncObj with names for its private parts; the six overridden ones are its seams."""

    def __init__(
        self,
        name: str,
        others: Iterable[Member],
        *,
        settings: dict[str, Any],
        port: Port,
        log: MemoryLog,
        snapshots: Any,
        rng: random.Random,
        apply: Callable[[int, bytes], object],
        may_stand: Callable[[], bool],
    ) -> None:
        self._rng = rng
        self._apply = apply
        self._may_stand = may_stand
        self.sent = (0, 0)
        self.append_entries_max: int | None = None
        """Entries of one message (see `bounded`)."""
        self._is_resting = False
        self.next_turn: Callable[[Callable[[], None]], object] | None = None
        """Calls back in the next turn of the loop that drives this engine, if one does."""
        conf = SyncObjConf(**settings)
        super().__init__(
            Member(name),
            list(others),
            conf,
            nodeClass=Member,
            transport=port,
        )
        self._SyncObj__serializer = snapshots
        self._SyncObj__commandsQueue = Proposals(conf.commandsQueueSize)
        self._remember(log, snapshots.index)
        self._poller = _NoPoller()

    def _remember(self, log: MemoryLog, covered: int) -> None:
        """Goes on from what a log holds, and from the index that a restored snapshot covers."""
        if not len(log):
            log.add(NO_OP_ENTRY, 1, 0)
        self._SyncObj__raftLog = log
        self._SyncObj__raftCurrentTerm = log.getCurrentTerm()
        self._SyncObj__votedForNodeId = log.getVotedForNodeId()
        if covered:
            self._SyncObj__raftCommitIndex = self._SyncObj__raftLastApplied = covered

    # The seams: what the library calls and we answer.

    def _SyncObj__generateRaftTimeout(self) -> float:
        conf = self._getConf()
        return float(self._rng.uniform(conf.raftMinTimeout, conf.raftMaxTimeout))

    def _SyncObj__doApplyCommand(self, command: bytes) -> object:
        # One entry form: a zero byte and the payload. The library raises the applied index only
        # after this call, so the entry's own index is the next one.
        if command[0] != REGULAR:
            return None
        return self._apply(self.applied_index + 1, command[1:])

    def _SyncObj__applyLogEntries(self) -> bool:
        # All that is committed, but no longer than a step may take: the next step goes on.
        if self._is_resting:
            return False
        committed = self.commit_index
        end_s = read_clock() + APPLY_S
        before = -1
        while before < self.applied_index < committed:
            before = self.applied_index
            self._SyncObj__raftCommitIndex = self._share_end(committed)
            try:
                super()._SyncObj__applyLogEntries()
            finally:
                self._SyncObj__raftCommitIndex = committed
            if read_clock() >= end_s:
                self._rest()
                break
        return False  # when to replicate is the replica's business

    def _rest(self) -> None:
        # One turn may have many steps, and together they must not hold the loop either.
        if self.next_turn is not None:
            self._is_resting = True
            self.next_turn(self._go_on)

    def _go_on(self) -> None:
        self._is_resting = False

    def _share_end(self, committed: int) -> int:
        """Up to where to apply before the clock is looked at."""
        applied = self.applied_index
        if committed - applied <= 1:
            return committed
        position = applied + 1 - self.first_index
        size, count = 0, 0
        for entry in self.log[position : position + SHARE_ENTRIES]:
            if applied + count >= committed or size > SHARE_BYTES:
                break
            size += len(entry[0])
            count += 1
        return min(committed, applied + max(count, 1))

    def _SyncObj__connectedToAnyone(self) -> bool:
        # Asked exactly when the election deadline has passed, before standing.
        return self._may_stand()

    def _SyncObj__sendAppendEntries(self) -> None:
        self.sent = (self.last_index, self.commit_index)
        super()._SyncObj__sendAppendEntries()

    def _SyncObj__getEntries(
        self, fromIDx: int, count: int | None = None, maxSizeBytes: int | None = None
    ) -> list[Any]:
        # Without a count the library copies the rest of the log for each message. Its other caller
        # without one looks at the first entry, and whether there is another.
        entries: list[Any] = super()._SyncObj__getEntries(
            fromIDx, count or self.append_entries_max, maxSizeBytes
        )
        return entries

    # Names for the private parts.

    def is_connected_to_anyone(self) -> bool:
        """The library's own condition for standing."""
        return bool(super()._SyncObj__connectedToAnyone())

    def replicate(self) -> None:
        """Sends what each connected peer lacks, or a heartbeat, now."""
        self._SyncObj__sendAppendEntries()

    @property
    def log(self) -> MemoryLog:
        """The entries; never empty."""
        log: MemoryLog = self._SyncObj__raftLog
        return log

    @property
    def first_index(self) -> int:
        """Index of the oldest entry kept."""
        index: int = self._SyncObj__raftLog[0][1]
        return index

    @property
    def last_index(self) -> int:
        """Index of the newest entry."""
        index: int = self._SyncObj__raftLog[-1][1]
        return index

    @property
    def last_term(self) -> int:
        """Term of the newest entry."""
        term: int = self._SyncObj__raftLog[-1][2]
        return term

    def entry_term(self, index: int) -> int | None:
        """Term of a kept entry."""
        log = self._SyncObj__raftLog
        position = index - log[0][1]
        if 0 <= position < len(log):
            term: int = log[position][2]
            return term
        return None

    @property
    def term(self) -> int:
        """The current term."""
        term: int = self._SyncObj__raftCurrentTerm
        return term

    def enter_term(self, term: int, vote: str | None) -> None:
        """Takes a term as a follower without a leader, with the vote given."""
        self._SyncObj__setCurrentTerm(term, vote)
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None

    def step_down(self) -> None:
        """Follows nobody, in the same term and with the same vote."""
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None

    def spend_vote(self, name: str) -> None:
        """Stays in the term, with its vote gone to this node."""
        self._SyncObj__setCurrentTerm(self.term, name)

    @property
    def role(self) -> int:
        """FOLLOWER, CANDIDATE or LEADER."""
        state: int = self._SyncObj__raftState
        return state

    @property
    def is_leader(self) -> bool:
        """What this node believes; only a probe makes it true."""
        return bool(self._SyncObj__raftState == LEADER)

    @property
    def leader(self) -> str | None:
        """The last leader this node followed in this term, or itself."""
        node = self._SyncObj__raftLeader
        return None if node is None else str(node.id)

    @property
    def commit_index(self) -> int:
        """Highest index known to be committed."""
        index: int = self._SyncObj__raftCommitIndex
        return index

    def raise_commit(self, index: int) -> None:
        """Believes that all up to `index` is committed, as far as it is held."""
        self._SyncObj__raftCommitIndex = max(self.commit_index, min(index, self.last_index))

    @property
    def applied_index(self) -> int:
        """Highest index that the state machine has seen."""
        index: int = self._SyncObj__raftLastApplied
        return index

    @property
    def is_behind(self) -> bool:
        """More is committed than the last step could apply."""
        return self.applied_index < self.commit_index

    @property
    def no_op_index(self) -> int:
        """Index of the entry that began this leadership."""
        index: int | None = self._SyncObj__noopIDx
        return index or 0

    @property
    def election_deadline_s(self) -> float:
        """When this follower would stand."""
        deadline: float = self._SyncObj__raftElectionDeadline
        return deadline

    def set_election_deadline(self, deadline_s: float) -> None:
        """When this follower shall stand."""
        self._SyncObj__raftElectionDeadline = deadline_s

    @property
    def is_transfer_target(self) -> bool:
        """The leader asked this node to stand at once."""
        return bool(self._SyncObj__transferInProgress)

    @property
    def connected(self) -> set[Member]:
        """Peers the library may send to; the cures take one out to end its turn."""
        nodes: set[Member] = self._SyncObj__connectedNodes
        return nodes

    @property
    def next_index(self) -> dict[Member, int]:
        """Leader: the next index to send to each peer."""
        indexes: dict[Member, int] = self._SyncObj__raftNextIndex
        return indexes

    @property
    def match_index(self) -> dict[Member, int]:
        """Leader: the highest index known to be on each peer."""
        indexes: dict[Member, int] = self._SyncObj__raftMatchIndex
        return indexes

    @property
    def response_times(self) -> dict[Member, float]:
        """Leader: when each peer last answered."""
        times: dict[Member, float] = self._SyncObj__lastResponseTime
        return times

    def excuse(self, stood_still_s: float) -> None:
        """Leader: nobody could be heard while the disk worked; answers wait to be read."""
        conf = self._getConf()
        if self.is_leader and stood_still_s > conf.appendEntriesPeriod:
            for member in self.response_times:
                # Not for longer than others wait: by then another may lead.
                self.response_times[member] += min(stood_still_s, conf.raftMinTimeout)

    def waiting(self) -> dict[int, list[tuple[int, Answer]]]:
        """Callbacks of proposals by index, with the term they were appended in."""
        waiting: dict[int, list[tuple[int, Answer]]] = self._SyncObj__commandsWaitingCommit
        return waiting

    def take_forwarded(self, request_id: int) -> Answer | None:
        """The callback of a command that the library wants to forward."""
        answer: Answer | None = self._SyncObj__commandsWaitingReply.pop(request_id, None)
        return answer
