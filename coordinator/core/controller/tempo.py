"""What whoever watches the leader wants counted: handoffs, passes, time without an owner.

Nothing is decided by it. It counts since this leader's term began, in seconds of its clock.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from coordinator.core.durations import LONG_S, Durations
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Plan
from coordinator.core.shard import Shard
from coordinator.core.types import HandoffStart

HandoffId = tuple[str, int]
"""Shard key and the epoch that is being given up."""

RESTING: Final = frozenset({"off", "paused", "no_executors"})
"""Reasons for making no plan that are no passing trouble."""


class HandoffEnd(StrEnum):
    """What became of a handoff."""

    ARRIVED = "arrived"
    """Its target owns the shard."""
    OTHERWISE = "otherwise"
    """It was given up, or an executor was lost on the way."""


@dataclass(slots=True)
class Tempo:
    """One namespace's counts of one term."""

    handoffs: Durations = field(default_factory=lambda: Durations(LONG_S))
    """From the commit that opened a handoff to the target's ownership; those that arrived."""
    handoff_ends: dict[HandoffEnd, int] = field(default_factory=dict)
    passes: Durations = field(default_factory=lambda: Durations(LONG_S))
    """From the first slice to the last, with the turns that others had in between."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Why passes ended, or why none was made."""
    plan: Plan | None = None
    """The last one that was made, unless the balancer rests: one late heartbeat keeps a pass from
    being made, and makes nobody less blocked."""
    blocked: dict[str, int] = field(default_factory=dict)
    """Passes after which the hottest executor could not be relieved, by reason."""
    unowned_shard_s: float = 0.0
    """Seconds without an owner, of all shards together."""
    unowned_since: float | None = None
    """Since when there has been no moment in which every shard had an owner."""
    _opened: dict[HandoffId, tuple[float, str]] = field(default_factory=dict)
    _unowned: int = 0
    _looked_at: float | None = None
    _pass_began_at: float = 0.0

    # -- handoffs ------------------------------------------------------------------------

    def began(self, namespace: NamespaceState, move: HandoffStart, now: float) -> None:
        """A handoff was committed, unless its shard had changed hands; it may be over already."""
        shard = namespace.shards.get(move.key)
        if shard is not None and move.target in (shard.target, shard.executor):
            self._opened.setdefault((move.key, move.epoch), (now, move.target))

    def look(self, namespace: NamespaceState, open_now: Collection[HandoffId], now: float) -> None:
        """Hold the handoffs that are open against those that were."""
        shards = namespace.shards
        for handoff in [one for one in self._opened if one not in open_now]:
            since, target = self._opened.pop(handoff)
            end = HandoffEnd.OTHERWISE
            if _has_arrived(shards.get(handoff[0]), handoff[1], target):
                end = HandoffEnd.ARRIVED
                self.handoffs.observe(now - since)
            self.handoff_ends[end] = self.handoff_ends.get(end, 0) + 1
        for handoff in open_now:
            self._opened.setdefault(handoff, (now, shards[handoff[0]].target or ""))

    def oldest_handoff_s(self, now: float) -> float:
        """How long the longest of the open ones has been so, as this leader knows."""
        return now - min((since for since, _ in self._opened.values()), default=now)

    # -- owners --------------------------------------------------------------------------

    def unowned(self, count: int, now: float) -> None:
        """So many shards wait for an owner from now on, until this is told anew."""
        if self._looked_at is not None:
            self.unowned_shard_s += self._unowned * (now - self._looked_at)
        self._looked_at, self._unowned = now, count
        if count == 0:
            self.unowned_since = None
        elif self.unowned_since is None:
            self.unowned_since = now

    # -- passes --------------------------------------------------------------------------

    def pass_begins(self, now: float) -> None:
        """The first slice of a pass is about to be taken."""
        self._pass_began_at = now

    def pass_ends(self, outcome: str, plan: Plan | None, now: float) -> None:
        """A pass is over: with a plan, or with why there was none."""
        self.passes.observe(now - self._pass_began_at)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if plan is not None:
            self.plan = plan
            if plan.blocked is not None:
                reason = plan.blocked.reason.value
                self.blocked[reason] = self.blocked.get(reason, 0) + 1
        elif outcome in RESTING:
            self.plan = None


def unowned_count(namespace: NamespaceState) -> int:
    """Shards that wait for an owner, those that are kept for an executor included."""
    return len(namespace.vacant) + sum(
        len(namespace.reserved(executor)) for executor in namespace.reservations
    )


def _has_arrived(shard: Shard | None, epoch: int, target: str) -> bool:
    return shard is not None and shard.executor == target and shard.epoch > epoch
