"""What a heartbeat says, and what the leader makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from coordinator.core.commands import Refused
from coordinator.core.load import ProcessSignals
from coordinator.core.types import ExecutorProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One heartbeat. `shards` maps the keys held to (epoch, mean load or None for no news)."""

    executor: str
    incarnation: str
    sequence: int
    joining: bool
    profile: ExecutorProfile
    shards: Mapping[str, tuple[int, float | None]] | None
    process: ProcessSignals | None = None
    predecessor_dead: str = ""
    received_at: float
    """Monotonic seconds of the leader at receipt, from which the lease counts."""


class Need(StrEnum):
    """What must be committed before a heartbeat can be acknowledged."""

    JOIN = "join"
    UPDATE = "update"
    WAIT = "wait"
    """Its incarnation is just being closed; nobody knows the outcome yet."""


Verdict = Need | Refused | None
"""None: the heartbeat may be acknowledged as it is."""
