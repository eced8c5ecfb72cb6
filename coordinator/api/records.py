"""The records that executors and routers exchange with a node, as msgspec Structs.

Decides the shape and the bounds of what comes in and goes out. Requests refuse unknown fields;
answers may grow. It must not know what is done with a record.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from coordinator.core.types import EPOCH_MAX, ExecutorStatus, LeaseLoss
from coordinator.policy import LeaseSeconds

Incarnation = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9-]{1,64}$(?!\n)",
        description="Minted by each process at its start.",
    ),
]
Load = Annotated[
    float,
    Meta(
        ge=0,
        le=1_000_000_000_000,
        description="Mean since the last report, in the unit of `capacity`.",
    ),
]
Epoch = Annotated[int, Meta(ge=0, le=EPOCH_MAX, description="The fencing token: it only grows.")]
ShardName = Annotated[str, Meta(min_length=1, max_length=256)]
Sequence = Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
Capacity = Annotated[float, Meta(gt=0, le=1_000_000_000_000)]
HostName = Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._:@-]{0,127})?$(?!\n)")]
ShortText = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,256}$(?!\n)")]
ReasonText = Annotated[str, Meta(max_length=1024)]
ExecutorName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$(?!\n)")]
Signal = Annotated[float, Meta(ge=0, le=1_000_000_000_000)]

# --------------------------------------------------------------------------------- executors


class HeldShard(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A shard that the executor holds now. Without `load`: no news, which is not zero."""

    epoch: Epoch
    load: Load | None = None


class ProcessSignals(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """Signs of saturation that no ceiling can clip; never part of the load."""

    cpu_cores: Signal | None = None
    event_loop_lag_s: Signal | None = None
    backlog: Signal | None = None


class HeartbeatRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An executor lives, and this is what it holds and how loaded it is."""

    incarnation: Incarnation
    sequence: Sequence
    status: ExecutorStatus = ExecutorStatus.ACTIVE
    back_within_s: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """Of one that is `leaving`: it will be back so soon that its shards are to be kept for it, for
    at most the policy's `return_window_s`."""
    joining: bool = False
    """True in every heartbeat of an incarnation until its first 200."""
    predecessor_dead: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{0,64}$(?!\n)")] = ""
    """An incarnation of this name whose process is known to be gone."""
    host: HostName = ""
    address: ShortText = ""
    zone: ShortText = ""
    capacity: Capacity = 1.0
    version: ShortText = ""
    labels: Annotated[dict[str, str], Meta(max_length=32)] = {}
    process: ProcessSignals | None = None
    shards: dict[str, HeldShard] | None = None
    """All that is held now; omitted means unchanged. While claims are taken who omits it is not
    renewed before it has told this leader (503 `recovering`)."""
    last_held: dict[ShardName, Epoch] = {}
    """Shards that were given up because the lease was lost, with their epochs."""
    lease_ttl_s: LeaseSeconds | None = None
    """Of the last answer to this incarnation. A cluster without memory waits for as long before it
    gives away what nobody claims: whoever cannot reach it may have had such a lease, too."""


class HeartbeatAnswer(Struct, frozen=True, kw_only=True):
    """The lease is renewed: a quorum confirmed the leader after the heartbeat arrived."""

    lease_ttl_s: float
    heartbeat_interval_s: float
    status: Literal["active", "cordoned", "draining", "drained"]
    cursor: str
    term: int
    on_lease_loss: LeaseLoss = LeaseLoss.STOP
    """What to do when the lease runs out and no node at all can be reached."""
    not_renewed: tuple[str, ...] = ()
    """Shards whose release is overdue: their own lease runs out."""


class AssignmentRecord(Struct, frozen=True, gc=False):
    """A shard of an executor's set."""

    key: str
    epoch: int
    state: Literal["run", "prepare", "release"]


class AssignmentsAnswer(Struct, frozen=True, kw_only=True):
    """All that an incarnation shall hold; empty means: hold nothing."""

    cursor: str
    lease_ttl_s: float
    assignments: list[AssignmentRecord]


class ClaimRecord(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A shard under one epoch."""

    key: ShardName
    epoch: Epoch


class FailedClaim(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A shard that could not be started, or not be prepared, under this epoch."""

    key: ShardName
    epoch: Epoch
    error: ReasonText = ""


class AcksRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an executor has finished. Late and repeated acknowledgements are harmless."""

    incarnation: Incarnation
    released: list[ClaimRecord] = []
    prepared: list[ClaimRecord] = []
    failed: list[FailedClaim] = []


class CursorAnswer(Struct, frozen=True, kw_only=True):
    """The revision at which it is in force."""

    cursor: str


# ----------------------------------------------------------------------------------- routers


class NextOwner(Struct, frozen=True, kw_only=True):
    """The executor that gets the shard next."""

    executor: str
    address: str


class OwnerAnswer(Struct, frozen=True, kw_only=True):
    """Who owns one shard."""

    namespace: str
    key: str
    executor: str
    address: str
    host: str
    epoch: int
    state: Literal["owned", "preparing", "releasing"]
    next: NextOwner | None
    cursor: str


class RoutedExecutor(Struct, frozen=True, kw_only=True):
    """Where calls for an executor's shards go."""

    address: str
    host: str
    zone: str
    status: Literal["active", "cordoned", "draining", "drained"]


class RoutingAnswer(Struct, frozen=True, kw_only=True):
    """The routing table, or what changed in it since the cursor that was sent."""

    kind: Literal["snapshot", "delta"]
    cursor: str
    executors: dict[str, RoutedExecutor]
    owners: dict[str, tuple[str, int]]
    """Shard key -> [executor, epoch]."""
    moving: dict[str, str]
    """Shard key -> the executor that gets it next."""
    parked: list[str]
    removed: list[str]
    """Keys that have no owner any more; in deltas only."""
