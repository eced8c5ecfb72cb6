"""What operators order for a whole namespace, or for an executor or host in it."""

from dataclasses import dataclass

from coordinator.core.types import (
    Policy,
    TargetKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPolicy:
    """Replace the policy; refused if `expected_version` is given and is not current."""

    namespace: str
    policy: Policy
    expected_version: int | None = None
    by: str = ""
    at_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleLease:
    """Every lease longer than the policy's has run out; refused under another policy."""

    namespace: str
    policy_version: int


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
    until_ms: int | None = None
    """When it ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDrain:
    """The target may be used again."""

    namespace: str
    kind: TargetKind
    target: str
    reason: str = ""
    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCordon:
    """Place nothing on a target."""

    namespace: str
    kind: TargetKind
    target: str
    reason: str
    by: str
    at_ms: int
    until_ms: int | None = None
    """When it ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCordon:
    """Place on the target again."""

    namespace: str
    kind: TargetKind
    target: str
    reason: str = ""
    by: str = ""
    at_ms: int = 0


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
    reason: str = ""
    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDrains:
    """Nothing is left on these targets: told once of each, refused of none.

    A target that something is left on after all is passed over.
    """

    namespace: str
    targets: tuple[tuple[TargetKind, str], ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOrders:
    """Drains, cordons, pins and a pause whose time is over at `at_ms` end."""

    namespace: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOrder:
    """Take back an operator's order; refused when the state moved on."""

    namespace: str
    event: int
    """The event that told of the order."""
    reason: str
    by: str
    at_ms: int
