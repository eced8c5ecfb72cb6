"""The one place that reaches into PySyncObj 0.3.17: its clock, chance, journal and private names.

Decides nothing about Raft; it gives names to what the cures need. The contract tests compare
every private name used here with the installed library, and the version is pinned exactly.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import pysyncobj.serializer as _serializer
import pysyncobj.syncobj as _syncobj
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.config import FAIL_REASON, SERIALIZER_STATE
from pysyncobj.node import Node
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from coordinator.consensus import codec

VERSION_EXPECTED: Final = "0.3.17"
if VERSION != VERSION_EXPECTED:  # pragma: no cover - another version is another library
    raise ImportError(f"PySyncObj {VERSION_EXPECTED} is needed, this is {VERSION}")

SUCCESS: Final[int] = FAIL_REASON.SUCCESS
QUEUE_FULL: Final[int] = FAIL_REASON.QUEUE_FULL
MISSING_LEADER: Final[int] = FAIL_REASON.MISSING_LEADER
DISCARDED: Final[int] = FAIL_REASON.DISCARDED
NOT_LEADER: Final[int] = FAIL_REASON.NOT_LEADER
UNKNOWN_OUTCOME: Final[int] = FAIL_REASON.UNKNOWN_OUTCOME

REGULAR: Final = 0
NO_OP_ENTRY: Final = b"\x01"
FOLLOWER: Final = 0
CANDIDATE: Final = 1
LEADER: Final = 2

Entry = tuple[bytes, int, int]
"""(command, index, term), as the library keeps it."""
Answer = Callable[[Any, int], None]

logger = logging.getLogger("coordinator.consensus")


class _Clock:
    """The source of the library's time: one name for a whole process, set by whoever steps."""

    source: Callable[[], float] = staticmethod(time.monotonic)


def _read_clock() -> float:
    return _Clock.source()


def use_clock(source: Callable[[], float]) -> None:
    """Makes the library read this clock until the next call."""
    _Clock.source = source


_syncobj.monotonicTime = _read_clock
_syncobj.pickle = codec.PickleStandIn
_serializer.pickle = codec.PickleStandIn


class RepeatsOnce(logging.Filter):
    """Lets each of the library's log templates through once in `interval_s`: it logs per tick."""

    def __init__(self, interval_s: float = 5.0) -> None:
        super().__init__()
        self._interval_s = interval_s
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True when this template was not let through lately."""
        now = time.monotonic()
        if now - self._last.get(record.msg, -self._interval_s) < self._interval_s:
            return False
        self._last[record.msg] = now
        return True


logging.getLogger("pysyncobj.syncobj").addFilter(RepeatsOnce())


class Member(Node):  # type: ignore[misc]  # the library has no types
    """A member by its name; hashes alike in every process, so that a seed repeats exactly."""

    def __init__(self, id: str, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self._hash: int = sum(self.id.encode())  # asked for twice per entry and follower

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and bool(self.id == other.id)


class MemoryLog:
    """The library's journal interface over a list, with its size in bytes.

    `keep_head` and `keep_tail` are how many entries a cut leaves at least (see `journal-floor`).
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self.size_bytes = 0
        self.keep_head = 0
        self.keep_tail = 0
        self._term = 0
        self._vote: str | None = None

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
        if position > 0:
            self.size_bytes -= sum(len(entry[0]) for entry in self._entries[:position])
            self._entries = self._entries[position:]

    def __getitem__(self, item: Any) -> Any:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def _destroy(self) -> None:
        pass

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Memory does not survive, so there is nothing to note."""

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


class Port(Transport):  # type: ignore[misc]  # the library has no types
    """The library's transport without a network: what it sends is handed to one function."""

    def __init__(self, send: Callable[[str, codec.Message], bool]) -> None:
        super().__init__(None, None, ())
        self._send = send

    def send(self, node: Node, message: codec.Message) -> bool:
        """True when the peer is connected and the message is on its way."""
        return self._send(node.id, message)

    def addNode(self, node: Node) -> None:
        """Members are static."""

    def dropNode(self, node: Node) -> None:
        """Members are static."""

    def destroy(self) -> None:
        """Nothing is held."""

    @property
    def ready(self) -> bool:
        """There is nothing to wait for: binding is not the engine's business."""
        return True

    def deliver(self, node: Node, message: codec.Message) -> None:
        """Hands a message of a peer to the library."""
        self._onMessageReceived(node, message)

    def open(self, node: Node) -> None:
        """Tells the library that a link is up."""
        self._onNodeConnected(node)

    def shut(self, node: Node) -> None:
        """Tells the library that a link is down."""
        self._onNodeDisconnected(node)


class _NoPoller:
    """The library polls sockets in every tick; it has none here."""

    def poll(self, timeout: float) -> None:
        pass


class Engine(SyncObj):  # type: ignore[misc]  # the library has no types
    """PySyncObj with names for its private parts; the four overridden ones are its seams."""

    def __init__(
        self,
        name: str,
        others: Iterable[str],
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
        conf = SyncObjConf(**settings)
        super().__init__(
            Member(name),
            [Member(other) for other in others],
            conf,
            nodeClass=Member,
            transport=port,
        )
        log.add(NO_OP_ENTRY, 1, 0)
        self._SyncObj__raftLog = log
        self._SyncObj__serializer = snapshots
        self._poller = _NoPoller()

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

    def _SyncObj__connectedToAnyone(self) -> bool:
        # Asked exactly when the election deadline has passed, before standing.
        return self._may_stand()

    def _SyncObj__sendAppendEntries(self) -> None:
        self.sent = (self.last_index, self.commit_index)
        super()._SyncObj__sendAppendEntries()

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

    def waiting(self) -> dict[int, list[tuple[int, Answer]]]:
        """Callbacks of proposals by index, with the term they were appended in."""
        waiting: dict[int, list[tuple[int, Answer]]] = self._SyncObj__commandsWaitingCommit
        return waiting

    def take_forwarded(self, request_id: int) -> Answer | None:
        """The callback of a command that the library wants to forward."""
        answer: Answer | None = self._SyncObj__commandsWaitingReply.pop(request_id, None)
        return answer


NOT_SERIALIZING: Final[int] = SERIALIZER_STATE.NOT_SERIALIZING
SERIALIZED: Final[int] = SERIALIZER_STATE.SUCCESS
