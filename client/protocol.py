"""The wire records of executors, routers and refusals in API version 1 (operators': `views`).

Decides how bytes become typed records and back. It must not know who sends or receives them, nor
when. Records that come in ignore fields they do not know, so an older client works with a newer
node; fields that a node may leave out have a default. Records that go out leave defaults out.
"""

from typing import Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

T = TypeVar("T")

# ------------------------------------------------------------------ executors: what goes out


class HeldShard(Struct, frozen=True, omit_defaults=True):
    """A shard that an executor holds; `load` left out means "no news", not zero."""

    epoch: int
    load: float | UnsetType = UNSET  # mean since the last report, in the unit of `capacity`


class ProcessSignals(Struct, frozen=True, omit_defaults=True):
    """Signals of saturation that a ceiling cannot clip; never part of the load."""

    cpu_cores: float | UnsetType = UNSET
    event_loop_lag_s: float | UnsetType = UNSET
    backlog: float | UnsetType = UNSET


class Heartbeat(Struct, frozen=True, omit_defaults=True):
    """The report that renews a lease."""

    incarnation: str
    sequence: int
    shards: dict[str, HeldShard]  # all that is held now; always sent, so absent means not held
    status: Literal["active", "leaving"] = "active"
    back_within_s: float | UnsetType = UNSET  # of one that leaves: keep its shards for so long
    joining: bool = False
    predecessor_dead: str = ""  # an incarnation of this name whose process is known to be gone
    host: str = ""
    address: str = ""
    zone: str = ""
    capacity: float = 1.0
    version: str = ""
    labels: dict[str, str] = {}
    process: ProcessSignals | UnsetType = UNSET
    last_held: dict[str, int] = {}  # given up because the lease was lost, with their epochs
    lease_ttl_s: float | UnsetType = UNSET  # of the last answer to this incarnation


class EpochRef(Struct, frozen=True):
    """One shard under one epoch."""

    key: str
    epoch: int


class FailedStart(Struct, frozen=True):
    """A shard that could not be started under this epoch, and why."""

    key: str
    epoch: int
    error: str


class Acks(Struct, frozen=True, omit_defaults=True):
    """What an executor has finished; repeated and late acknowledgements are harmless."""

    incarnation: str
    released: list[EpochRef] = []
    prepared: list[EpochRef] = []
    failed: list[FailedStart] = []


# ------------------------------------------------------------------- executors: what comes in


class HeartbeatAnswer(Struct, frozen=True):
    """A renewed lease, and what the coordinator thinks of this executor."""

    lease_ttl_s: float
    heartbeat_interval_s: float
    cursor: str
    status: str = "active"
    term: int = 0
    on_lease_loss: str = "stop"
    not_renewed: list[str] = []  # shards whose release is overdue: their own lease runs out


class Assignment(Struct, frozen=True):
    """One line of an executor's set."""

    key: str
    epoch: int
    state: Literal["run", "prepare", "release"]


class AssignmentsAnswer(Struct, frozen=True):
    """The full set of an executor; an empty list means: hold nothing."""

    cursor: str
    assignments: list[Assignment]
    lease_ttl_s: float = 0.0


class AcksAnswer(Struct, frozen=True):
    """The revision at which the acknowledgements are in force."""

    cursor: str = ""


# ------------------------------------------------------------------------------------ routers


class NextOwner(Struct, frozen=True):
    """Where a shard is going."""

    executor: str
    address: str = ""


class OwnerAnswer(Struct, frozen=True):
    """Who owns one shard."""

    namespace: str
    key: str
    executor: str
    epoch: int
    address: str = ""
    host: str = ""
    state: str = "owned"
    next: NextOwner | None = None
    cursor: str = ""


class RoutedExecutor(Struct, frozen=True):
    """Where calls for an executor's shards go."""

    address: str = ""
    host: str = ""
    zone: str = ""
    status: str = "active"


class RoutingAnswer(Struct, frozen=True):
    """The whole table, or what changed since the cursor that was asked with."""

    kind: Literal["snapshot", "delta"]
    cursor: str
    executors: dict[str, RoutedExecutor] = {}
    owners: dict[str, tuple[str, int]] = {}
    moving: dict[str, str] = {}
    parked: list[str] = []
    removed: list[str] = []


# ----------------------------------------------------------------------------------- refusals


class FieldProblem(Struct, frozen=True):
    """One wrong field."""

    path: str = ""
    message: str = ""


class Problem(Struct, frozen=True):
    """An RFC 9457 problem."""

    reason: str = ""
    title: str = ""
    status: int = 0
    detail: str = ""
    instance: str = ""
    cause: str = ""  # of `incarnation_closed`: expired, superseded, evicted or left
    leader: str = ""
    retry_after_s: float | None = None
    errors: list[FieldProblem] = []


def encoded(record: object) -> bytes:
    """The JSON bytes of a record."""
    return msgspec.json.encode(record)


def decoded(body: bytes, record: type[T]) -> T:
    """A record from JSON bytes; raises `msgspec.MsgspecError` on anything else."""
    return msgspec.json.decode(body, type=record)
