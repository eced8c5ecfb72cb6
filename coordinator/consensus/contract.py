"""What the rest of the system may know of consensus: bytes in, outcomes out.

Decides nothing. Names the settings with their reasons, the records that are shown, and the
errors that are raised. Must not know PySyncObj, sockets, or what the bytes mean.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol, runtime_checkable

ENTRY_BYTES_MAX = 1 << 20
"""Largest payload of one log entry: half a batch, so the library's splitting path is never used."""

IN_FLIGHT_MAX = 20_000
"""Most proposals waiting for their outcome: ten times the intended 2,000, then refuse at once."""

COMPACTION_ENTRIES_MAX = 100_000
"""Four times as many entries (see `snapshot-cap`) of one byte still fit one frame."""


TIMEOUT_STEP_S: Final = 0.05
"""Time-outs are rounded up to this; the timer that ends them is not finer."""


@lru_cache(maxsize=64)
def rounded_s(timeout_s: float) -> float:
    """A time-out in whole steps; asked with every proposal, and almost always the same."""
    return math.ceil(timeout_s / TIMEOUT_STEP_S) * TIMEOUT_STEP_S


class StateMachine(Protocol):
    """What is replicated. Every node calls `apply` with the same bytes in the same order."""

    def apply(self, index: int, payload: bytes) -> object:
        """The outcome of one committed entry; a broken rule is a value, never an exception."""

    def snapshot(self) -> bytes:
        """All state as immutable bytes; called between two entries."""

    def restore(self, data: bytes) -> None:
        """Replaces all state; raises, changing nothing, when the bytes are not a snapshot."""


@runtime_checkable
class SlicedMachine(Protocol):
    """A state machine too large for a snapshot in one step: both ways go in slices.

    Each `next` is one slice, of milliseconds; entries are applied between them.
    """

    def apply(self, index: int, payload: bytes) -> object:
        """As of any state machine."""

    def parts(self) -> Iterator[bytes]:
        """All state as it is at this call, whatever is applied while the parts are made."""

    def prepare(self, parts: Iterator[bytes]) -> Generator[None, None, Callable[[], None]]:
        """Reads parts into a state of its own; returns what replaces all state by it, at once.

        Raises when the parts are no snapshot.
        """


@dataclass(frozen=True, slots=True)
class PeerCertificates:
    """Paths of the PEM files that make the Raft port mutual TLS 1.3."""

    ca: str
    """Whoever it signed may be a member; more than one while the CA is replaced."""
    certificate: str
    private_key: str
    names: Mapping[str, str] = field(default_factory=dict)
    """Member name -> DNS name in its certificate, where that is not the member's own name."""


@dataclass(frozen=True, slots=True)
class ConsensusConfig:
    """Settings of one node. `peers` holds every member, this one included."""

    name: str
    peers: Mapping[str, str]
    """Member name -> "host:port" of its Raft port."""
    api_url: str
    """Told to peers in the handshake, so that any node can name the leader's API."""
    raft_bind: str = ""
    """Where to listen, if that is not where peers find this node: a wildcard in a container."""
    formats: tuple[int, int] = (1, 1)
    """Oldest and newest format of entries and snapshots that the state machine reads."""
    bootstrap: bool = False
    """The operator's override: found the cluster with a majority of empty members."""
    election_timeout_s: tuple[float, float] = (0.5, 1.0)
    """At least four times the longest stall of the loop (125 ms), so a stall is no election."""
    fallback_timeout_s: float = 0.45
    """Below the shortest election timeout: a cut-off leader ends before another one can begin."""
    ping_interval_s: float = 0.1
    """Heartbeats of leader and links: five chances within the shortest election timeout."""
    link_dead_after_s: float = 1.0
    """Silence after which a link is replaced: ten missed pings."""
    tick_interval_s: float = 0.03
    """Timers are this exact; work itself steps at once."""
    compaction_min_entries: int = 100_000
    """Entries kept before a snapshot: more than a second of the highest rate, about 40 MB."""
    compaction_min_bytes: int = 64 << 20
    """The same bound for large entries."""
    storage_dir: str | None = None
    """Folder of the journal; None keeps everything in memory, and a restart is losing it."""
    certificates: PeerCertificates | None = None
    """Mutual TLS on the Raft port; None is plaintext."""
    insecure: bool = False
    """Allow a plaintext Raft port off loopback. Anyone who reaches it owns the cluster."""


def config_problems(config: ConsensusConfig) -> list[str]:
    """What is wrong with the settings, all of it at once; empty when they can be used."""
    shortest, longest = config.election_timeout_s
    checks = {
        f"peers: {config.name} is not among its peers": config.name in config.peers,
        "election_timeout_s: the second must be above the first": longest > shortest,
        "fallback_timeout_s: must be below the shortest election timeout, or a cut-off leader "
        "outlives the election of another": config.fallback_timeout_s < shortest,
        "ping_interval_s: must be above zero and fit the shortest election timeout four times": (
            0 < config.ping_interval_s * 4 <= shortest
        ),
        "fallback_timeout_s: must fit two pings": (
            config.fallback_timeout_s > config.ping_interval_s * 2
        ),
        "link_dead_after_s: must fit three pings": (
            config.link_dead_after_s > config.ping_interval_s * 3
        ),
        "tick_interval_s: must be above zero and at most the ping interval": (
            0 < config.tick_interval_s <= config.ping_interval_s
        ),
        "compaction_min_entries: 2 to 100000, so that an append fits a frame": (
            2 <= config.compaction_min_entries <= COMPACTION_ENTRIES_MAX
        ),
    }
    return [problem for problem, holds in checks.items() if not holds]


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """What this node knows of another member."""

    name: str
    address: str
    connected: bool
    api_url: str | None
    match_index: int | None
    """Highest index known to be on that node; only the leader knows."""
    last_heard_age_s: float | None
    quarantined: bool
    formats: tuple[int, int] | None = None
    """What it said that it reads, if it is connected."""


@dataclass(frozen=True, slots=True)
class Status:
    """One node's view of itself and its cluster at one moment."""

    name: str
    role: str
    """leader, follower, candidate or quarantined."""
    term: int
    leader: str | None
    has_quorum: bool
    """A majority of members, this one included, is connected."""
    cluster_id: str | None
    commit_index: int
    applied_index: int
    log_entries: int
    log_bytes: int
    snapshot_index: int
    snapshot_bytes: int
    snapshot_age_s: float | None
    leader_contact_age_s: float | None
    """Zero on a leader that a majority answers; None before the first contact."""
    peers: tuple[PeerStatus, ...]
    storage: str = "memory"
    """memory or journal."""
    disk_fault: str | None = None
    """Why nothing can be kept at the moment; such a node answers nothing from its state."""
    stepped_age_s: float = 0.0
    """Since the last step: many times the tick says that nothing goes on here any more."""
    certificate_left_s: float | None = None
    """How long this node's certificate is good for; None without TLS between nodes."""
    formats: tuple[int, int] = (1, 1)
    """Formats of entries that this node reads."""
    format_in_force: int = 0
    """The newest format that was used; 0 before the first entry."""


@dataclass(frozen=True, slots=True)
class ApplyFailed:
    """The outcome of an entry on which the state machine raised, against its contract."""

    index: int
    error: str


class ConsensusError(Exception):
    """The base of what this package raises."""


class NotLeader(ConsensusError):  # noqa: N818 - an outcome, not a fault
    """Definite: nothing of this call was or will be applied. Ask `leader` instead."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"not the leader (leader: {leader or 'unknown'})")
        self.leader = leader


class Overloaded(ConsensusError):  # noqa: N818 - an outcome, not a fault
    """Definite: too many proposals wait for their outcome; nothing was appended."""


class TooLarge(ConsensusError):  # noqa: N818 - an outcome, not a fault
    """Definite: the payload exceeds the limit of one entry; nothing was appended."""


class OutcomeUnknown(ConsensusError):  # noqa: N818 - an outcome, not a fault
    """The proposal may have been applied, may be later, or never."""


class ProbeTimeout(ConsensusError):  # noqa: N818 - an outcome, not a fault
    """No majority confirmed the leadership in time."""


class UnknownEntry(ConsensusError):  # noqa: N818 - says what the bytes are
    """What `apply` and `prepare` raise on bytes of a version that this node does not read.

    Fatal: others read them, so to go on without would be another history.
    """


class TransferFailed(ConsensusError):  # noqa: N818 - an outcome, not a fault
    """The leadership stayed here, or where it went is not known yet."""
