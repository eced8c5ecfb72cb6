"""What a balancing pass is planned on: every shard with its load and what holds it in place.

Taken executor by executor, in slices, while heartbeats and handoffs go on; whoever's set changed
meanwhile is taken again with the last slice, so that no shard is seen twice or not at all.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.core.controller.fleet import seat_of
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.tallies import held_keys, moving_out
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Hold, Holdings, Seat, Slices, Stack

STALE_AFTER_INTERVALS: Final = 5
"""A load not reported for this many heartbeat intervals is stale."""

_LOOKS: Final = 2
"""A shard's load and the time of it are looked up: twice what a plan does with most of them."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The namespace as one pass sees it."""

    seats: tuple[Seat, ...]
    holdings: Holdings
    stale_ratio: float
    """Share of the shards held that were never measured, or not lately."""


def taking_picture(namespace: NamespaceState, mind: Mind, now: float) -> Slices[Picture]:
    """The picture, in slices."""
    camera = _Camera(namespace, mind, now)
    for executor in sorted(namespace.executors):
        yield camera.take(executor)
    return camera.developed()


class _Camera:
    """Takes executors one after the other."""

    def __init__(self, namespace: NamespaceState, mind: Mind, now: float) -> None:
        self._namespace = namespace
        self._mind = mind
        self._now = now
        self._median = mind.median(now)
        self._oldest = now - STALE_AFTER_INTERVALS * namespace.info.policy.heartbeat_interval_s
        self._stacks: dict[str, Stack] = {}
        self._unmeasured: dict[str, tuple[str, ...]] = {}
        self._fresh: dict[str, int] = {}
        self._revisions: dict[str, int] = {}
        self._leaving = (namespace.revision, moving_out(namespace))

    def take(self, executor: str) -> int:
        """One executor; how much was looked at."""
        namespace, loads = self._namespace, self._mind.loads
        if executor not in namespace.executors:
            return 1
        if self._leaving[0] != namespace.revision:
            self._leaving = (namespace.revision, moving_out(namespace))
        keys = held_keys(namespace, executor, self._leaving[1])
        found = loads.loads_of(keys)
        fresh = loads.heard_since(keys, self._oldest)
        known = [load for load in found if load is not None]
        self._unmeasured[executor] = ()
        if len(known) < len(keys):
            pairs = list(zip(keys, found, strict=True))
            self._unmeasured[executor] = tuple(key for key, load in pairs if load is None)
            known = [self._median if load is None else load for _, load in pairs]
        self._stacks[executor] = Stack.of(keys, known)
        self._fresh[executor] = fresh
        self._revisions[executor] = namespace.assignments_revision(executor)
        return 1 + _LOOKS * len(keys)

    def developed(self) -> Picture:
        """The picture as of this moment."""
        namespace, mind, now = self._namespace, self._mind, self._now
        present = sorted(namespace.executors)
        for executor in present:
            if self._revisions.get(executor) != namespace.assignments_revision(executor):
                self.take(executor)
        leaving = moving_out(namespace)
        seats = tuple(
            seat_of(namespace, mind, namespace.executors[one], now, leaving.get(one, 0))
            for one in present
        )
        held = sum(len(self._stacks[one].keys) for one in present)
        fresh = sum(self._fresh[one] for one in present)
        holdings = Holdings(
            stacks={one: self._stacks[one] for one in present},
            holds=self._holds(present),
            bans=mind.failures.all_bans({seat.executor for seat in seats if seat.is_open}),
        )
        return Picture(seats, holdings, stale_ratio=1.0 - fresh / held if held else 0.0)

    def _holds(self, present: list[str]) -> dict[str, Hold]:
        """Later ones win: what an order or a handoff holds is held by nothing less."""
        namespace, mind = self._namespace, self._mind
        cooling = mind.cooling_until.items()
        holds = {key: Hold.COOLDOWN for key, until in cooling if until > self._now}
        for executor in present:
            holds.update(dict.fromkeys(self._unmeasured[executor], Hold.UNMEASURED))
        holds.update(dict.fromkeys(namespace.pinned, Hold.PINNED))
        holds.update(dict.fromkeys(namespace.in_flight, Hold.IN_FLIGHT))
        return holds
