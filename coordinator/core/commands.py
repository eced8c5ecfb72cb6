"""The closed set of replicated commands, and the two outcomes a command can have.

A command carries all that its rule needs, time and fresh ids included, so that every node
decides alike. Each names what it is based on (an incarnation, an epoch, a policy version)
and is refused when that is no longer so.
"""

from dataclasses import dataclass
from enum import StrEnum

from coordinator.core.types import (
    Cause,
    Claim,
    CloseCause,
    ExecutorProfile,
    HandoffStart,
    NamespaceKind,
    Placement,
    Policy,
    TargetKind,
)


class Reason(StrEnum):
    """Why the state machine refuses; the values are reasons of the HTTP API."""

    INVALID = "invalid"
    NAMESPACE_NOT_FOUND = "namespace_not_found"
    NAMESPACE_EXISTS = "namespace_exists"
    NAMESPACE_NOT_EMPTY = "namespace_not_empty"
    EXECUTOR_NOT_FOUND = "executor_not_found"
    SHARD_NOT_FOUND = "shard_not_found"
    DRAIN_NOT_FOUND = "drain_not_found"
    CONFLICT = "conflict"
    INCARNATION_CLOSED = "incarnation_closed"
    SHARD_PARKED = "shard_parked"
    PRECONDITION_FAILED = "precondition_failed"
    STALE_SEQUENCE = "stale_sequence"
    QUOTA_EXCEEDED = "quota_exceeded"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class Applied:
    """The command took effect (or had already). `resource` names what it made or changed."""

    resource: str = ""
    created: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule said no; nothing changed."""

    reason: Reason
    detail: str
    cause: str = ""
    """With `incarnation_closed`: a `CloseCause`."""


Outcome = Applied | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """The first command of a cluster's life: names it and sets the epoch counter."""

    cluster_id: str
    epoch_base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespace:
    """Make a namespace; the same kind and count again is no change."""

    namespace: str
    kind: NamespaceKind
    shard_count: int
    policy: Policy
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPolicy:
    """Replace the policy; refused if `expected_version` is given and is not current."""

    namespace: str
    policy: Policy
    expected_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleLease:
    """Every lease longer than the policy's has run out; refused under another policy."""

    namespace: str
    policy_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteNamespace:
    """Forget a namespace; refused while executors live there unless forced."""

    namespace: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinExecutor:
    """A new incarnation of an executor's name appears and supersedes the one before it."""

    namespace: str
    executor: str
    incarnation: str
    profile: ExecutorProfile
    at_ms: int
    predecessor_dead: str = ""
    """The incarnation whose process is known to be gone; honoured only if it is on record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateExecutor:
    """A live incarnation tells something new of itself."""

    namespace: str
    executor: str
    incarnation: str
    profile: ExecutorProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritShards:
    """The superseded incarnation can act no more: its shards pass over under new epochs."""

    namespace: str
    executor: str
    predecessor: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictExecutor:
    """Close an incarnation by order; its shards wait for its lease to run out."""

    namespace: str
    executor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseIncarnation:
    """An incarnation is over: its shards go where `placements` says, the rest turn vacant."""

    namespace: str
    executor: str
    incarnation: str
    cause: CloseCause
    placements: tuple[Placement, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignShards:
    """Give vacant shards an owner; those no longer vacant are left alone."""

    namespace: str
    placements: tuple[Placement, ...]
    cause: Cause
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartHandoffs:
    """Begin moves between live executors; those whose shard has changed are left alone."""

    namespace: str
    moves: tuple[HandoffStart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortHandoffs:
    """End open handoffs without a change of owner: the owner keeps or gets back the shard."""

    namespace: str
    claims: tuple[Claim, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOverdue:
    """Releases that were not acknowledged in time: stop renewing these shards' leases."""

    namespace: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishOverdue:
    """The leases of overdue shards have run out: hand them over."""

    namespace: str
    claims: tuple[Claim, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """What an executor did: stopped, warmed up, or failed to start."""

    namespace: str
    executor: str
    incarnation: str
    released: tuple[Claim, ...]
    prepared: tuple[Claim, ...]
    failed: tuple[Claim, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareShards:
    """Make shards of an open namespace known before their first use."""

    namespace: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireShard:
    """Forget a shard of an open namespace."""

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkShard:
    """Nobody shall run this shard."""

    namespace: str
    key: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnparkShard:
    """Somebody shall run this shard again."""

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinShard:
    """A shard belongs to an executor whatever the load."""

    namespace: str
    key: str
    executor: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpinShard:
    """The balancer may move this shard again."""

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveShard:
    """An operator's move."""

    namespace: str
    key: str
    target: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDrain:
    """Move everything away from a target; a second drain of it is the first one."""

    namespace: str
    id: str
    kind: TargetKind
    target: str
    reason: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDrain:
    """The target may be used again."""

    namespace: str
    kind: TargetKind
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCordon:
    """Place nothing on a target."""

    namespace: str
    kind: TargetKind
    target: str
    reason: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCordon:
    """Place on the target again."""

    namespace: str
    kind: TargetKind
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBalancer:
    """No voluntary moves until resumed or until `until_ms`."""

    namespace: str
    reason: str
    by: str
    at_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeBalancer:
    """Voluntary moves again."""

    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMember:
    """A member's next process is at another address; the one at the former counts no more."""

    node: str
    raft: str
    api: str


NamespaceCommand = (
    SetPolicy
    | SettleLease
    | JoinExecutor
    | UpdateExecutor
    | InheritShards
    | EvictExecutor
    | CloseIncarnation
    | AssignShards
    | StartHandoffs
    | AbortHandoffs
    | MarkOverdue
    | FinishOverdue
    | Acknowledge
    | DeclareShards
    | RetireShard
    | ParkShard
    | UnparkShard
    | PinShard
    | UnpinShard
    | MoveShard
    | StartDrain
    | EndDrain
    | StartCordon
    | EndCordon
    | PauseBalancer
    | ResumeBalancer
)
ClusterCommand = Bootstrap | CreateNamespace | DeleteNamespace | MoveMember
Command = ClusterCommand | NamespaceCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """A command under an idempotency key: applied at most once, its outcome remembered."""

    key: str
    digest: str
    """Of the request: the same key with another digest is refused."""
    command: Command


Entry = Command | Once
