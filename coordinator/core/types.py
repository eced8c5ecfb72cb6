"""The records of the domain: what a namespace, an executor, a shard and a handoff are.

Frozen values only. This module knows no rule; `rules` decides and `namespace` keeps.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from coordinator.core.shard import Cause
from coordinator.core.window import ClaimWindow

EPOCH_SHIFT_BITS: Final = 20
"""The epoch counter starts at `unix seconds at bootstrap << 20`: a million assignments a second
could be made for ever without catching up with the start of a later cluster."""

EPOCH_MAX: Final = 2**53 - 1
"""Epochs stay exact in JSON, whose numbers are doubles for many readers."""

SHARDS_MAX: Final = 1_000_000
"""Of one namespace, whatever its policy says: one command must not fill the memory of all nodes."""


class NamespaceKind(StrEnum):
    """Fixed: shards "0" … "n-1" exist from the start. Open: a shard is born on first use."""

    FIXED = "fixed"
    OPEN = "open"


class ExecutorStatus(StrEnum):
    """What the executor says of itself."""

    ACTIVE = "active"
    LEAVING = "leaving"


class CloseCause(StrEnum):
    """Why an incarnation may act no more."""

    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    EVICTED = "evicted"
    LEFT = "left"


class BalancerMode(StrEnum):
    """Whether the balancer makes voluntary moves. Owed moves (drains, losses) always go on."""

    OFF = "off"
    ON = "on"
    DRY_RUN = "dry_run"  # planned, told, held against what is measured later; nothing moves


class InitialPlacement(StrEnum):
    """How a shard that never had an owner gets its first one."""

    LOAD = "load"
    HASH = "hash"


class LeaseLoss(StrEnum):
    """What an executor does whose lease runs out while it can reach no coordinator at all."""

    STOP = "stop"
    CONTINUE = "continue"


class TargetKind(StrEnum):
    """What a drain or a cordon names."""

    EXECUTOR = "executor"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerPolicy:
    """How eagerly load is levelled. Gaps and budgets: source `bench/data` and its README."""

    mode: BalancerMode = BalancerMode.ON
    interval_s: float = 5.0
    """Seconds between passes: a pass over 100,000 shards costs about 0.1 s."""
    start_gap: float = 0.20
    """Nothing starts until one step is worth levelling a gap of this share of the mean."""
    stop_gap: float = 0.10
    """Once started, steps go on down to this gap: hysteresis without memory."""
    quiet_mark: float | None = None
    """Utilisation at or under which an executor is left alone; none by default, as it needs
    a capacity known in absolute terms."""
    high_mark: float | None = None
    """Utilisation that nobody should be above: answers about capacity go by it."""
    smoothing_horizon_s: float = 3600.0
    """Loads are means over this horizon; it should cover one natural period of the load."""
    cooldown_s: float | None = None
    """Rest of a moved shard; by default a quarter of the horizon."""
    move_budget_ratio: float = 0.01
    """Share of the shards that may move for balance in one budget window (at least two)."""
    budget_window_s: float = 60.0
    max_in_flight: int = 32
    """Open handoffs for balance at a time: bounds how much is restarting at once."""
    max_in_flight_per_executor: int = 4
    """Of these, on one executor, as source or target: warm-up is paid by the executor."""
    load_cost: float = 1.0
    """How much the moved load itself weighs against the gain of a move."""

    @property
    def effective_cooldown_s(self) -> float:
        """Seconds a moved shard rests."""
        return self.smoothing_horizon_s / 4 if self.cooldown_s is None else self.cooldown_s


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffPolicy:
    """How a shard changes hands between two live executors."""

    warmup: bool = False
    """Let the target prepare before the source stops; off, as it needs `on_prepare`."""
    release_timeout_s: float = 30.0
    """After this long without an acknowledged stop the shard's own lease is let run out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What an operator may set per namespace."""

    lease_ttl_s: float = 10.0
    """How long an executor may act after the send of its last acknowledged heartbeat."""
    heartbeat_interval_s: float = 2.0
    """Five tries within one lease."""
    on_lease_loss: LeaseLoss = LeaseLoss.STOP
    """Stop, since going on lets a partition make two owners: for whom an outage of the coordinator
    costs more than that, and whose stores refuse lower epochs."""
    balancer: BalancerPolicy = field(default_factory=BalancerPolicy)
    handoff: HandoffPolicy = field(default_factory=HandoffPolicy)
    mass_failure_ratio: float = 0.5
    """With this share of the executors (and at least three) silent at once nothing is taken away:
    half of a fleet rarely dies, half of a network does."""
    initial_placement: InitialPlacement = InitialPlacement.LOAD
    initial_hold_s: float = 5.0
    """The first assignment waits for a quiet period this long after the last join, so that
    the first executors up do not take everything; six times as long at most."""
    return_window_s: float = 30.0
    """The longest that shards are kept for an executor that said when it will be back: an ordinary
    restart fits in, and for callers of its shards it is still an outage to sit out."""
    join_ramp_ratio: float = 0.25
    """Share of its fair load that an executor which joined with nothing may be sent in each budget
    window: it is warm and full after four of them."""
    mixed_version_hold_s: float = 600.0
    """How long executors of differing versions are taken for a deploy under way: ten minutes see
    most of them through, and a canary left standing is not mistaken for one for ever."""
    drain_in_flight: int = 64
    """Open handoffs for drains at a time, beside the balancer's own budget."""
    poison_threshold: int | None = 3
    """Crashes or failed starts that a shard must at least have been present at before it is parked
    by itself: twice is coincidence too often. None parks nothing."""
    max_shards: int = 1_000_000
    """Open namespaces refuse further shards: memory stays bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorProfile:
    """What an executor tells of itself in each heartbeat and that others need to know."""

    host: str = ""
    address: str = ""
    zone: str = ""
    capacity: float = 1.0
    version: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    status: ExecutorStatus = ExecutorStatus.ACTIVE
    back_within_s: float = 0.0
    """Of one that leaves: it means to be back so soon that its shards can wait. 0: it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a process that owned more shards than one command passes on."""

    cause: CloseCause
    at_ms: int
    after: str = ""
    """Where a successor gets them: up to this key, in their order, all were passed over to it."""
    is_crash: bool = False
    withhold_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """A live executor: a stable name and the incarnation that answers to it now."""

    id: str
    incarnation: str
    profile: ExecutorProfile
    joined_at_ms: int
    predecessor: str | None = None
    """An incarnation that was superseded and may still act: this one owns nothing until
    that lease has run out. None when there is nothing to wait for."""
    evicted: bool = False
    """Closed by an operator; its shards move when its lease has run out."""
    given_up: bool = False
    """Silent in a mass failure that an operator proceeded with: its lease counts again."""
    ending: Ending | None = None
    """Who owned by this record (its predecessor, or else itself) can act no more, and not all of
    that is passed on yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """An executor went and said when it will be back: its shards are kept for it meanwhile."""

    executor: str
    incarnation: str
    """The one that went."""
    host: str
    version: str
    window_s: float
    """Every leader counts it from when it first saw the reservation."""
    since_ms: int
    """Wall clock; for people, never compared by a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The balancer rests by an operator's order."""

    reason: str
    by: str
    since_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MassFailure:
    """So many executors are silent at once that the network is the likelier cause."""

    since_ms: int
    silent: int
    """When it was raised, as the other figures here."""
    total: int
    executors: tuple[str, ...]
    """Some of the silent ones, by name."""
    proceeded_ms: int | None = None
    by: str = ""
    reason: str = ""

    @property
    def is_holding(self) -> bool:
        """Whether nothing is taken away from who is silent."""
        return self.proceeded_ms is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """One sharded service: its kind and its policy."""

    name: str
    kind: NamespaceKind
    shard_count: int
    policy: Policy
    created_at_ms: int
    created_revision: int
    """Tells a namespace from an earlier one of the same name."""
    lease_bound_s: float
    """The longest lease that an executor may have been promised and not yet outlived. It stays
    above `policy.lease_ttl_s` after a decrease until the leader settles it."""
    policy_version: int = 1
    newest_version: str = ""
    """The version that executors are being brought to: of the last one that came with another
    version than the same name ran before."""
    pause: Pause | None = None
    mass_failure: MassFailure | None = None
    window: ClaimWindow | None = None
    """Open from the namespace's creation until the leader closes it; None when it is closed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A shard and the epoch somebody speaks of."""

    key: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One process life of an executor."""

    executor: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Placement:
    """A shard and the executor that shall own it."""

    key: str
    executor: str


@dataclass(frozen=True, slots=True)
class HandoffStart:
    """A move to begin: refused unless the shard is still owned under `epoch`."""

    key: str
    epoch: int
    target: str
    cause: Cause
    note: str = ""  # what it is to come to, for people: told in the event of its start
