"""What operators ordered and what stays in force until it is ended; and what an order replaced.

Frozen values only. Times are of the wall clock: when an order is over is for people, and a leader
whose clock is wrong ends it early or late, which gives nobody's shard away.
"""

from dataclasses import dataclass

from coordinator.core.types import Pause, Policy, TargetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Move everything away from a target and place nothing there, until ended."""

    id: str
    kind: TargetKind
    target: str
    reason: str
    by: str
    since_ms: int
    moved: int = 0
    """Shards that left the target under this drain, each by acknowledgement or lease."""
    until_ms: int | None = None
    """When it ends by itself; None: when an operator ends it."""
    finished_ms: int | None = None
    """When nothing was left on the target for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Place nothing on a target, leave what is there."""

    kind: TargetKind
    target: str
    reason: str
    by: str
    since_ms: int
    until_ms: int | None = None
    """When it ends by itself; None: when an operator ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """What an operator's order replaced: all that is needed to take it back.

    Empty where there was nothing before. Orders that cannot be taken back keep none.
    """

    pin: str | None = None
    note: str = ""
    """Of the pin, or why the shard was parked."""
    until_ms: int | None = None
    """Of the pin."""
    drain: Drain | None = None
    cordon: Cordon | None = None
    pause: Pause | None = None
    policy: Policy | None = None
    policy_version: int = 0
