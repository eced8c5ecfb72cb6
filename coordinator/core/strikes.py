"""What speaks against a shard: crashes and failed starts that it was present at.

A record only. What it leads to is decided in `poison`.
"""

from dataclasses import dataclass
from enum import StrEnum


class StrikeKind(StrEnum):
    """What a shard was present at."""

    CRASH = "crash"
    """Its owner's process ended without a farewell."""
    FAILED_START = "failed_start"
    """Its owner said that it could not start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A crash or a failed start that a shard was present at; see `poison`."""

    kind: StrikeKind
    executor: str
    at_ms: int
    """Wall clock; for people, never compared by a rule."""
    is_fresh: bool = True
    """The shard had been placed there since its last strike: a crash that follows a restart in
    place, with the same shards on the same executor, tells none of them from the others."""
