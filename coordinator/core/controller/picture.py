"""What a balancing pass is planned on: every shard with its load and what holds it in place.

Taken executor by executor, in slices, while heartbeats and handoffs go on; whoever's set changed
meanwhile is taken again with the last slice, so that no shard is seen twice or not at all.
"""

from array import array
from collections.abc import Collection
from dataclasses import dataclass
from math import fsum
from typing import Final

from coordinator.core.controller.fleet import seat_of
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.tallies import held_keys, moving_out
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Hold, Holdings, Seat, Slices, Stack, finished

STALE_AFTER_INTERVALS: Final = 5
"""A load not reported for this many heartbeat intervals is stale."""

_LOOKS: Final = 2
"""A shard's load and the time of it are looked up: twice what a plan does with most of them."""

_SEAT_WORK: Final = 20
"""To see whether an executor may give and take costs as much as to look at so many shards."""

_AT_ONCE: Final = 2_000
"""Shards of one executor looked at without a pause: half a millisecond."""


_FEW: Final = 256
"""Names of one executor; a collection comes after some 170 executors: 3 ms for all of them."""


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
        yield from camera.take(executor)
    return camera.developed()


class _Camera:
    """Takes executors one after the other."""

    def __init__(self, namespace: NamespaceState, mind: Mind, now: float) -> None:
        self._namespace = namespace
        self._mind = mind
        self._now = now
        self._median: float | None = None
        self._oldest = now - STALE_AFTER_INTERVALS * namespace.info.policy.heartbeat_interval_s
        self._seats: dict[str, Seat] = {}
        self._stacks: dict[str, Stack] = {}
        self._unmeasured: dict[str, tuple[str, ...]] = {}
        self._fresh: dict[str, int] = {}
        self._revisions: dict[str, int] = {}
        self._leaving = (namespace.revision, moving_out(namespace))

    def take(self, executor: str) -> Slices[None]:
        """One executor, some thousands of its shards at a time."""
        namespace = self._namespace
        if executor not in namespace.executors:
            return
        self._revisions[executor] = namespace.assignments_revision(executor)
        if self._leaving[0] != namespace.revision:
            self._leaving = (namespace.revision, moving_out(namespace))
        sheet = self._mind.tallies.sheet(namespace, executor, self._leaving[1])
        if sheet is not None:
            self._unmeasured[executor] = ()
            self._stacks[executor] = Stack.of(sheet.keys, sheet.means)
            self._fresh[executor] = (
                len(sheet.keys)
                if sheet.heard_at >= self._oldest
                else self._mind.loads.heard_since(sheet.keys, self._oldest)
            )
            yield len(sheet.keys) // 2
        else:
            yield from self._look(executor)
        record, leaving = namespace.executors.get(executor), self._leaving[1].get(executor, 0)
        if record is not None:
            ttl_s = namespace.info.policy.lease_ttl_s
            is_silent = self._mind.leases.is_silent(executor, ttl_s, self._now)
            self._seats[executor] = seat_of(namespace, record, leaving, is_silent=is_silent)
            yield _SEAT_WORK

    def _look(self, executor: str) -> Slices[None]:
        """Its shards one by one."""
        keys = held_keys(self._namespace, executor, self._leaving[1])
        found: list[float] = []
        unmeasured: list[str] = []
        fresh = 0
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            known = self._mind.loads.look_up(some, self._oldest)
            loads, heard = self._guessed(some, unmeasured) if known is None else known
            found += loads
            fresh += heard
            yield _LOOKS * len(some)
        self._unmeasured[executor] = tuple(unmeasured)
        # A million floats take 30 ms to let go of, in an array nothing.
        self._stacks[executor] = Stack(
            _kept(keys), array("d", found), fsum(found), max(found, default=0.0)
        )
        self._fresh[executor] = fresh

    def _guessed(self, keys: list[str], unmeasured: list[str]) -> tuple[list[float], int]:
        """The same where some were never measured: those count as the median, and are noted."""
        book = self._mind.loads
        loads = book.loads_of(keys)
        unmeasured += (key for key, load in zip(keys, loads, strict=True) if load is None)
        if self._median is None:
            self._median = book.median()
        median = self._median
        known = [median if load is None else load for load in loads]
        return known, book.heard_since(keys, self._oldest)

    def developed(self) -> Picture:
        """The picture as of this moment."""
        namespace, mind = self._namespace, self._mind
        present = sorted(namespace.executors)
        for executor in present:
            if self._revisions.get(executor) != namespace.assignments_revision(executor):
                finished(self.take(executor))
        seats = tuple(self._seats[one] for one in present)
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


def _kept(keys: list[str]) -> Collection[str]:
    """Names so that a garbage collection passes over them, which looks at each in a list or tuple.

    A dict of strings alone is nothing to it, but takes longer to make: for few it is not worth it.
    """
    return dict.fromkeys(keys) if len(keys) > _FEW else tuple(keys)
