"""Commands of a claim window: what executors bring from a cluster that is no more."""

from dataclasses import dataclass

from coordinator.core.types import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptClaims:
    """Shards that an executor held before go on with it, under epochs above all it claims."""

    namespace: str
    executor: str
    incarnation: str
    claims: tuple[Claim, ...]
    is_held: bool
    """It runs them, without a gap; else it ran them until its lease was lost."""
    at_ms: int
    lease_s: float = 0.0
    """The lease that it was promised last: others had as long a one, and the window outlasts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseWindow:
    """The leader vouches that no lease of before is out any more: place what nobody claimed."""

    namespace: str
    created_revision: int
    """Of the namespace that is meant: another one of this name has a window of its own."""
    at_ms: int
