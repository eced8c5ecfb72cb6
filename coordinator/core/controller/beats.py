"""What a heartbeat says, and what the leader makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from coordinator.core.commands import Refused
from coordinator.core.load import ProcessSignals
from coordinator.core.types import ExecutorProfile


class Held(Protocol):
    """A shard that an executor says it holds.

    The wire's own records serve as they are: a copy of each would cost as much as all the rest of
    a heartbeat.
    """

    @property
    def epoch(self) -> int:
        """The epoch it is held under."""
        ...

    @property
    def load(self) -> float | None:
        """Its mean load since the last report; None is no news."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One heartbeat. `shards` maps the keys held to epoch and load."""

    executor: str
    incarnation: str
    sequence: int
    joining: bool
    profile: ExecutorProfile
    shards: Mapping[str, Held] | None
    process: ProcessSignals | None = None
    predecessor_dead: str = ""
    last_held: Mapping[str, int] = field(default_factory=dict)
    """Shards given up because the lease was lost, with their epochs: a claim in an open window."""
    lease_s: float = 0.0
    """What its last acknowledged heartbeat was promised; 0 for one that never had a lease."""
    received_at: float
    """Monotonic seconds of the leader at receipt, from which the lease counts."""
    at_ms: int
    """Wall clock of the leader at receipt: what epochs a claim can name."""


class Need(StrEnum):
    """What must be committed before a heartbeat can be acknowledged."""

    JOIN = "join"
    UPDATE = "update"
    CLAIM = "claim"
    """It holds shards that the table does not give it."""
    WAIT = "wait"
    """Its incarnation is just being closed; nobody knows the outcome yet."""


Verdict = Need | Refused | None
"""None: the heartbeat may be acknowledged as it is."""
