"""The wire records of operators in API version 1: policies, fleet, shards, events, cluster.

Decides the shape of what operators read, nothing else. Every field that a node may leave out has a
default, and fields that are not known are ignored, so that an older client reads a newer node.
"""

from msgspec import Struct

from client.protocol import ProcessSignals

# ----------------------------------------------------------------------------------- policies


class BalancerPolicy(Struct, frozen=True):
    """How a namespace is balanced."""

    mode: str = "on"
    interval_s: float = 5.0
    start_gap: float = 0.20
    stop_gap: float = 0.10
    quiet_mark: float | None = None
    high_mark: float | None = None
    smoothing_horizon_s: float = 3600.0
    cooldown_s: float | None = None
    move_budget_ratio: float = 0.01
    budget_window_s: float = 60.0
    max_in_flight: int = 32
    max_in_flight_per_executor: int = 4
    load_cost: float = 1.0


class HandoffPolicy(Struct, frozen=True):
    """How a shard passes between live executors."""

    warmup: bool = False
    release_timeout_s: float = 30.0


class Policy(Struct, frozen=True):
    """What a namespace is run by; the defaults are those of the contract."""

    lease_ttl_s: float = 10.0
    heartbeat_interval_s: float = 2.0
    on_lease_loss: str = "stop"
    balancer: BalancerPolicy = BalancerPolicy()
    handoff: HandoffPolicy = HandoffPolicy()
    mass_failure_ratio: float = 0.5
    initial_placement: str = "load"
    initial_hold_s: float = 5.0
    return_window_s: float = 30.0
    join_ramp_ratio: float = 0.25
    mixed_version_hold_s: float = 600.0
    drain_in_flight: int = 64
    poison_threshold: int | None = 3
    max_shards: int = 1_000_000


class AlarmView(Struct, frozen=True):
    """Something in a namespace that somebody should look at."""

    namespace: str
    alarm: str = ""
    state: str = ""
    since: str = ""


class NamespaceView(Struct, frozen=True):
    """A namespace as operators see it."""

    namespace: str
    kind: str = "open"
    shard_count: int | None = None
    policy: Policy = Policy()
    policy_version: int = 0  # given back as `if_match`
    executors: int = 0
    shards: int = 0
    recovering: bool = False  # nobody is placed yet: executors say what they hold from before
    cursor: str = ""
    created_at: str = ""
    alarms: list[AlarmView] = []


class NamespacesPage(Struct, frozen=True):
    """Every namespace."""

    namespaces: list[NamespaceView] = []


# -------------------------------------------------------------------------------------- fleet


class CordonView(Struct, frozen=True):
    """Nothing is placed there: who ordered that, why and until when."""

    target: str = ""
    reason: str = ""
    by: str = ""
    since: str = ""
    until: str | None = None


class ExecutorView(Struct, frozen=True):
    """An executor as operators see it; what only the leader knows may be null."""

    executor: str
    status: str = "active"
    host: str = ""
    address: str = ""
    zone: str = ""
    version: str = ""
    capacity: float = 1.0
    load: float | None = None  # sum of its shards' smoothed loads, in the unit of `capacity`
    utilisation: float | None = None
    shards: int = 0
    releasing: int = 0  # shards that it is to stop now
    heartbeat_age_s: float | None = None
    incarnation: str = ""
    labels: dict[str, str] = {}
    process: ProcessSignals | None = None
    joined_at: str = ""
    drain: str | None = None  # the id of the drain that empties it
    cordon: CordonView | None = None
    leaving: bool = False
    back_within_s: float | None = None  # for so long its shards are kept when it is gone
    evicted: bool = False
    warning: str = ""  # what the order that was given risks


class ReturningExecutor(Struct, frozen=True):
    """An executor that is gone for a restart: its shards are kept for it."""

    executor: str
    host: str = ""
    version: str = ""
    shards: int = 0
    since: str = ""
    window_s: float = 0.0  # how long they are kept


class ExecutorsPage(Struct, frozen=True):
    """Executors of a namespace."""

    executors: list[ExecutorView] = []
    returning: list[ReturningExecutor] = []


class BlockedShard(Struct, frozen=True):
    """A shard that holds up a drain, and why."""

    key: str
    reason: str = ""


class DrainView(Struct, frozen=True):
    """A drain on its way; drained only when every shard was acknowledged away."""

    id: str
    target: str = ""
    state: str = "draining"
    reason: str = ""
    by: str = ""
    since: str = ""
    until: str | None = None  # when it ends by itself
    finished_at: str | None = None  # when nothing was left for the first time
    shards_left: int = 0
    shards_moved: int = 0
    blocked: list[BlockedShard] = []


class DrainsPage(Struct, frozen=True):
    """Drains of a namespace."""

    drains: list[DrainView] = []


class HostView(Struct, frozen=True):
    """A host and the executors on it now."""

    host: str
    status: str = "active"
    drain: str | None = None
    cordon: CordonView | None = None
    executors: list[str] = []


# ------------------------------------------------------------------------------------- shards


class Strike(Struct, frozen=True):
    """A crash or a failed start that a shard was present at."""

    kind: str
    executor: str
    at: str


class NotThere(Struct, frozen=True):
    """An executor that a shard is not on, and why."""

    executor: str
    rule: str = ""
    why: str = ""


class ShardThen(Struct, frozen=True):
    """Who owned a shard at a time that is past."""

    at: str = ""
    known: bool = False  # if not, all else but `known_from` is null
    executor: str | None = None  # null also when nobody owned it
    epoch: int | None = None
    since: str | None = None
    until: str | None = None  # when it changed hands next
    known_from: str | None = None
    told: str = ""  # the same in words


class ShardView(Struct, frozen=True):
    """A shard as operators see it."""

    key: str
    executor: str | None = None
    host: str | None = None
    epoch: int = 0
    state: str = "vacant"
    load: float | None = None
    pinned: str | None = None
    pinned_until: str | None = None  # when the pin ends by itself
    pin_reason: str = ""
    parked: str | None = None  # why it is parked
    strikes: list[Strike] = []  # what speaks for its being poison, oldest first
    retiring: bool = False
    overdue: bool = False  # its owner did not stop it in time
    next: str | None = None
    next_why: str | None = None
    cooldown_left_s: float | None = None
    reserved: str | None = None  # the executor that it is kept for, while that restarts
    previous: str | None = None
    since: str | None = None
    why: str = ""
    why_here: str = ""  # in words; this and what follows is told of a single shard, by the leader
    why_no_move: str = ""
    why_not_there: list[NotThere] = []
    decision: str | None = None  # of the balancer, that brought it here
    history: list["EventView"] = []  # what last happened to it, newest first
    then: ShardThen | None = None  # who owned it at the time that was asked for


class ShardsPage(Struct, frozen=True):
    """One page of shards; `next_page` is given back as `page` until it is null."""

    shards: list[ShardView] = []
    total: int = 0  # how many match, on all pages
    next_page: str | None = None


class DeclareAnswer(Struct, frozen=True):
    """How many of the declared shards are new."""

    created: int = 0
    existing: int = 0
    cursor: str = ""


# ---------------------------------------------------------------------------- events, outages


class EventView(Struct, frozen=True):
    """One thing that happened, or `count` shards' worth of one kind at once."""

    id: int
    at: str = ""
    kind: str = ""
    shard: str | None = None
    epoch: int | None = None
    executor: str | None = None  # whom it happened to; the owner of a shard before it moves
    target: str | None = None  # the executor that gets the shard
    host: str | None = None
    cause: str = ""
    by: str = ""
    reason: str = ""
    detail: str = ""
    count: int = 1
    undoes: int | None = None  # the event of the order that this one took back
    can_undo: bool = False  # an order that keeps what it takes to be taken back


class EventsPage(Struct, frozen=True):
    """Events, oldest first; `cursor` is given back as `after` for what comes next."""

    events: list[EventView] = []
    cursor: str = ""
    more: bool = False  # more is there already
    missed: bool = False  # some that came after `after` are not kept any more


class MassFailureView(Struct, frozen=True):
    """Whether so many executors are silent that nothing is taken away from them."""

    namespace: str
    state: str = "none"  # or holding, or proceeded
    since: str | None = None
    silent: int = 0
    total: int = 0
    executors: list[str] = []  # some of the silent ones
    proceeded_at: str | None = None
    by: str = ""
    reason: str = ""
    given_up: int = 0


# ------------------------------------------------------------------------------------ cluster


class NodeView(Struct, frozen=True):
    """One coordinator node, as the answering node sees it."""

    node: str
    role: str = ""
    address: str = ""
    api: str | None = None
    is_reachable: bool = True
    last_heard_age_s: float | None = None
    match_index: int | None = None
    formats: tuple[int, int] | None = None


class ClusterView(Struct, frozen=True):
    """The cluster as the answering node sees it."""

    cluster_id: str | None = None
    node: str = ""
    leader: str | None = None
    leader_api: str | None = None
    term: int = 0
    has_quorum: bool = True
    leader_contact_age_s: float | None = None
    commit_index: int = 0
    applied_index: int = 0
    storage: str = ""
    log_entries: int = 0
    log_bytes: int = 0
    snapshot_index: int = 0
    snapshot_bytes: int = 0
    snapshot_age_s: float | None = None
    format: int = 0
    nodes: list[NodeView] = []
    alarms: list[AlarmView] = []  # of every namespace
