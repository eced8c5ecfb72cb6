"""How long this executor may act, judged by its own clock alone.

Decides CONNECTED / SUSPENDED / LOST / CONTINUED and whether anything may be acted on. Pure: every
time is an argument. It must not know HTTP, shards or callbacks. `may_act` may be asked from any
thread: the terms are one immutable record that is swapped.
"""

import enum
import math
from dataclasses import dataclass, replace
from typing import Final

# Bound on the difference in rate of two machines' clocks; real quartz is 100 times better.
CLOCK_ERROR: Final = 0.01
# Stops begin this share of the lease before its end, so that ordinary callbacks are through by
# then; more would turn a leader's election (1.5 s at worst) into stopped shards.
STOP_MARGIN_RATIO: Final = 0.1
STOP_MARGIN_MAX_S: Final = 1.0
# A renewal may be this much late before the executor starts nothing new.
GRACE_MIN_S: Final = 0.25


class LeaseState(enum.Enum):
    """An executor's own view of its right to act."""

    CONNECTED = "connected"  # renewals come in time
    SUSPENDED = "suspended"  # renewals fail: go on with what runs, start nothing
    LOST = "lost"  # the lease is over or nearly so: stop everything
    # The lease is over, no coordinator can be reached, and the policy says to go on: a partition
    # may have made another owner by now. Start nothing.
    CONTINUED = "continued"


@dataclass(frozen=True, slots=True)
class _Terms:
    suspend_at: float = -math.inf
    stop_at: float = math.inf
    act_until: float = -math.inf
    is_continued: bool = False


class Lease:
    """The lease of one incarnation. Before its first renewal it is SUSPENDED."""

    def __init__(self) -> None:
        self._terms = _Terms()

    def renew(self, sent_at: float, ttl_s: float, interval_s: float) -> None:
        """A heartbeat that was sent then has been acknowledged with these terms."""
        if self._terms.stop_at == -math.inf:
            return  # a closed incarnation is never renewed
        act_until = sent_at + ttl_s * (1.0 - CLOCK_ERROR)
        stop_at = act_until - min(STOP_MARGIN_MAX_S, ttl_s * STOP_MARGIN_RATIO)
        suspend_at = sent_at + interval_s + max(GRACE_MIN_S, interval_s / 2)
        self._terms = _Terms(min(suspend_at, stop_at), stop_at, act_until)

    def go_on(self, now: float) -> None:
        """Let it not end; without effect when it has ended already, or is closed."""
        if now < self._terms.act_until:
            self._terms = replace(self._terms, is_continued=True)

    def end(self) -> None:
        """Let it go on no longer than it was granted."""
        self._terms = replace(self._terms, is_continued=False)

    def close(self) -> None:
        """The coordinator has ended the incarnation: nothing may be acted on any more."""
        self._terms = _Terms(-math.inf, -math.inf, -math.inf)

    @property
    def act_until(self) -> float:
        """The end of what was granted; before it nobody else can be given a shard."""
        return self._terms.act_until

    def state(self, now: float) -> LeaseState:
        """The state at this time."""
        terms = self._terms
        if now >= terms.stop_at:
            return LeaseState.CONTINUED if terms.is_continued else LeaseState.LOST
        return LeaseState.SUSPENDED if now >= terms.suspend_at else LeaseState.CONNECTED

    def may_act(self, now: float) -> bool:
        """Whether what is assigned may be acted on at this time."""
        terms = self._terms
        return now < terms.act_until or terms.is_continued

    def changes_at(self, now: float) -> float | None:
        """When the state changes next if no renewal comes; None if it does not."""
        later = [at for at in (self._terms.suspend_at, self._terms.stop_at) if now < at < math.inf]
        return min(later, default=None)
