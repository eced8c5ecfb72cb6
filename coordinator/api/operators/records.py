"""The records that operators exchange with a node, as msgspec Structs.

Decides the shape and the bounds of what comes in and goes out. Requests refuse unknown fields;
answers may grow. It must not know what is done with a record.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.api.operators.news import AlarmView
from coordinator.api.records import ExecutorName, Incarnation, ProcessSignals, ReasonText
from coordinator.core.types import (
    BalancerMode,
    NamespaceKind,
    Policy,
)
from coordinator.policy import PolicyFields, ShardCount

ExecutorStanding = Literal["active", "cordoned", "draining", "drained"]
HostStanding = Literal["active", "cordoned", "draining"]
DrainState = Literal["draining", "blocked", "drained"]
NEW_KEYS_MAX = 100_000
"""Keys of one declaration; 1 MiB of body ends it earlier for all but the shortest."""


class ReasonRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it is done; kept and shown."""

    reason: ReasonText = ""


Lifetime = Annotated[
    float, Meta(gt=0, le=30 * 86_400, description="It ends by itself after so many seconds.")
]
"""At most a month: what is to last longer is not for a while."""


class OrderRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to hold for an executor or a host, why, and for how long."""

    reason: ReasonText = ""
    expires_in_s: Lifetime | None = None


class UndoRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Take back an order."""

    reason: ReasonText = ""
    force: bool = False
    """Although the others have no room for what a drain that begins again empties."""


class DrainRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Empty an executor or a host."""

    reason: ReasonText = ""
    expires_in_s: Lifetime | None = None
    force: bool = False
    """Although the others have no room for its load."""


class EvictRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Close an executor's incarnation."""

    reason: ReasonText = ""
    force: bool = False
    """Do not wait for its lease: two owners are possible if it still runs."""
    incarnation: Incarnation | None = None
    """Which one is meant; without it the one that is on record when the order comes. One that has
    been followed by another is not evicted any more: 409."""


class PinRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bind a shard to an executor."""

    executor: ExecutorName
    reason: ReasonText = ""
    expires_in_s: Lifetime | None = None


class MoveRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bring a shard to an executor."""

    to: ExecutorName
    reason: ReasonText = ""


class DeclareRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shards that shall exist from now on."""

    keys: Annotated[list[str], Meta(min_length=1, max_length=NEW_KEYS_MAX)]


class PauseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No voluntary moves."""

    reason: ReasonText = ""
    expires_in_s: Lifetime | None = None


class NamespaceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A namespace to create."""

    kind: NamespaceKind
    shard_count: ShardCount | None = None
    policy: PolicyFields = PolicyFields()


class PolicyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of the policy to change; what is not named stays."""

    policy: PolicyFields
    reason: ReasonText = ""


class PauseView(Struct, frozen=True, kw_only=True):
    """Who paused the balancer, why and until when."""

    reason: str
    by: str
    since: str
    until: str | None


class NamespaceView(Struct, frozen=True, kw_only=True):
    """A namespace."""

    namespace: str
    kind: NamespaceKind
    shard_count: int | None
    """The count of a fixed namespace; null for an open one."""
    policy: Policy
    policy_version: int
    executors: int
    shards: int
    recovering: bool
    """Executors are still heard for what they hold from before: nobody is placed yet."""
    created_at: str
    cursor: str
    alarms: list[AlarmView]
    """What somebody should look at."""


class NamespacesAnswer(Struct, frozen=True, kw_only=True):
    """Every namespace, by name."""

    namespaces: list[NamespaceView]


class CordonView(Struct, frozen=True, kw_only=True):
    """Nothing is placed there: who ordered that, why and until when."""

    target: str
    """executor/ID or host/NAME."""
    reason: str
    by: str
    since: str
    until: str | None


class ExecutorRecord(Struct, frozen=True, kw_only=True):
    """An executor. What only the leader knows is null where the leader cannot be asked."""

    executor: str
    status: ExecutorStanding
    incarnation: str
    host: str
    address: str
    zone: str
    version: str
    labels: dict[str, str]
    capacity: float
    load: float | None
    """Sum of the smoothed loads of its shards, in the unit of `capacity`."""
    utilisation: float | None
    """Load by capacity."""
    shards: int
    releasing: int
    """Shards that it is to stop now."""
    heartbeat_age_s: float | None
    process: ProcessSignals | None
    joined_at: str
    drain: str | None
    """Id of the drain that covers it."""
    cordon: CordonView | None
    """The cordon that covers it."""
    leaving: bool
    back_within_s: float | None
    """Of one that leaves: its shards are kept for it for so long; null when they are not."""
    evicted: bool
    """Closed by an operator; its shards move when its lease has run out."""
    warning: str | UnsetType = UNSET
    """What the order that was given risks."""


class ReturningExecutor(Struct, frozen=True, kw_only=True):
    """An executor that went and said when it will be back: shards are kept for it."""

    executor: str
    host: str
    version: str
    shards: int
    since: str
    window_s: float
    """How long they are kept, counted anew by each leader."""


class ExecutorsAnswer(Struct, frozen=True, kw_only=True):
    """The executors of a namespace, by id."""

    executors: list[ExecutorRecord]
    returning: list[ReturningExecutor]
    """Those that are gone for a restart, by id; left out where only one standing is asked for."""


class HostView(Struct, frozen=True, kw_only=True):
    """A host and the executors on it now."""

    host: str
    status: HostStanding
    drain: str | None
    cordon: CordonView | None
    executors: list[str]


class BlockedShard(Struct, frozen=True, kw_only=True):
    """A shard that stands in the way of a drain."""

    key: str
    reason: str


class DrainView(Struct, frozen=True, kw_only=True):
    """A drain and how far it is. Drained only when every shard was acknowledged away."""

    id: str
    target: str
    """executor/ID or host/NAME."""
    reason: str
    by: str
    since: str
    until: str | None
    """When it ends by itself; null when an operator ends it."""
    finished_at: str | None
    """When nothing was left for the first time."""
    state: DrainState
    shards_left: int
    shards_moved: int
    blocked: list[BlockedShard]
    """At most 100 of them."""


class DrainsAnswer(Struct, frozen=True, kw_only=True):
    """The drains in force, by id."""

    drains: list[DrainView]


class DeclareAnswer(Struct, frozen=True, kw_only=True):
    """What became of the declared keys."""

    created: int
    existing: int
    cursor: str


class ExecutorShare(Struct, frozen=True, kw_only=True):
    """One executor's part of the load."""

    executor: str
    load: float
    share: float
    """Of the whole load, 0 to 1."""
    utilisation: float
    """Load by capacity."""
    shards: int


class DominantShard(Struct, frozen=True, kw_only=True):
    """A shard heavier than an even share of what the lighter ones leave."""

    key: str
    load: float


class PlannedMove(Struct, frozen=True, kw_only=True):
    """A move that a pass began."""

    key: str
    source: str
    target: str
    load: float
    reason: str
    gain: float
    """What it takes off the unevenness; the heavier one of a swap has the gain of both."""
    source_before: float
    """Utilisation of the source before and after, and of the target."""
    source_after: float
    target_before: float
    target_after: float
    swap_with: str | None
    """The shard that comes back for it."""
    why: str
    """What it does, in words."""


class PassView(Struct, frozen=True, kw_only=True):
    """The last balancing pass."""

    at: str
    moves: int
    moved: list[PlannedMove]
    """At most 100 of them, in the order in which each helps."""
    moved_load: float
    stopped: str
    """Why it ended, or why it was not made at all."""
    spread_before: float | None
    spread_after: float | None


class BalanceAnswer(Struct, frozen=True, kw_only=True):
    """How evenly the load lies, how evenly it could, and what is done about it."""

    mode: BalancerMode
    paused: bool
    paused_reason: str
    pause: PauseView | None
    executors: list[ExecutorShare]
    """Heaviest first."""
    hottest: float
    """Utilisation of the hottest executor; `mean` and `coldest` alike."""
    hottest_executor: str
    mean: float
    coldest: float
    coldest_executor: str
    max_over_mean: float
    spread: float
    """Standard deviation by mean of the executors' utilisation."""
    best_possible: float
    """The least spread that any placement of these shards could have."""
    gap: float
    """Spread above the best possible."""
    static_hash: float | None
    """The spread that blake2s(key) % n over the same executors would give."""
    static_ring: float | None
    """The same of a hash ring with 100 points for each executor."""
    static_hash_hottest: float | None
    """Utilisation of the hottest executor under static hashing."""
    dominant: list[DominantShard]
    """At most 100, heaviest first."""
    blocked: str | None
    """Why the hottest executor cannot be relieved; null when it need not or can."""
    blocked_why: str | None
    """The same in words."""
    skipped: str | None
    """Why no voluntary move may be made now: `recovering`, `off`, `paused`, `no_executors`,
    `mass_failure`, `suspect_executor` (silent for half a lease), `mixed_versions` (a deploy),
    `stale_data`; null when one may."""
    skipped_why: str | None
    """The same in words."""
    saturated: list[str]
    """Executors whose loop is late or whose backlog does not get less: their load is clipped."""
    last_pass: PassView | None
    in_flight: int
    unmeasured: int
    """Shards whose load was never reported."""
    moves: dict[str, int]
    """Moves since this leader's term began, by cause."""
