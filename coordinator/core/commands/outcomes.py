"""The two outcomes that a command can have."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why the state machine refuses; the values are reasons of the HTTP API."""

    INVALID = "invalid"
    NAMESPACE_NOT_FOUND = "namespace_not_found"
    NAMESPACE_EXISTS = "namespace_exists"
    NAMESPACE_NOT_EMPTY = "namespace_not_empty"
    EXECUTOR_NOT_FOUND = "executor_not_found"
    SHARD_NOT_FOUND = "shard_not_found"
    DRAIN_NOT_FOUND = "drain_not_found"
    EVENT_NOT_FOUND = "event_not_found"
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
