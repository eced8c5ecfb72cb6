"""Commands about a mass failure: so many executors silent at once that nothing is taken away."""

from dataclasses import dataclass

from coordinator.core.types import (
    Incarnation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseMassFailure:
    """Hold back what lost leases would set off, until enough are heard or somebody decides."""

    namespace: str
    silent: int
    total: int
    executors: tuple[str, ...]
    """Some of the silent ones, for people."""
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProceedMassFailure:
    """An operator gives up those that are silent now: their leases count again."""

    namespace: str
    given_up: tuple[Incarnation, ...]
    reason: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMassFailure:
    """Enough are heard again, and nobody given up is left."""

    namespace: str
    at_ms: int
