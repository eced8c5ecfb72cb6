"""What is left when executors are emptied: whether the others have room for what these hold.

Decides when emptying them would be too much. It only reads totals of executors, so it may be asked
with every order. Where each shard would go is the planner's to say.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import fsum
from typing import Final

from coordinator.core.controller.fleet import see
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState

FULL: Final = 1.0
"""The utilisation that nobody should be above where the policy has no `high_mark`: load is told in
the unit of capacity, so this is a full executor."""


@dataclass(frozen=True, slots=True)
class Room:
    """Some executors emptied, the others as they would be then."""

    shards: int
    """That would have to go elsewhere."""
    load: float
    """Of these, smoothed."""
    pinned: int
    """Of these, bound to where they are: they stay until they are unpinned."""
    executors: int
    """That are left and may be given shards."""
    capacity: float
    """Of those."""
    mean_before: float
    """Utilisation of all who may be given shards now, and of those that are emptied."""
    mean_after: float
    """Of those that are left, with all of the load and what earlier drains have yet to bring them;
    0 where nobody is left."""
    mark: float | None
    """What the mean should not be above; None where somebody is above a full executor already, so
    that loads are told in some unit of their own."""

    @property
    def overload(self) -> str:
        """Why it would be too much, in words; empty when it would not."""
        if not self.shards:
            return ""
        if not self.executors:
            return f"no other executor may be given its {self.shards} shards"
        if self.mark is None or self.mean_after <= self.mark:
            return ""
        return (
            f"its {self.shards} shards would bring the {self.executors} executors that are left"
            f" from {self.mean_before:.0%} to {self.mean_after:.0%} of their capacity, above"
            f" {self.mark:.0%}"
        )


def room_without(namespace: NamespaceState, mind: Mind, gone: Collection[str], now: float) -> Room:
    """The room that there is when these executors are emptied."""
    fleet = see(namespace, mind, now)
    left = [seat for seat in fleet.seats if seat.is_open and seat.executor not in gone]
    emptied = [seat for seat in fleet.seats if seat.executor in gone]
    load = fsum(fleet.loads[seat.executor] for seat in emptied)
    carried = fsum(fleet.loads[seat.executor] for seat in left)
    # Drains take a while: in that time the next would find the room that the first one takes.
    owed = fsum(
        fleet.loads[name]
        for name, record in namespace.executors.items()
        if name not in gone and namespace.is_emptied(record)
    )
    capacity = fsum(seat.capacity for seat in left)
    before = capacity + fsum(seat.capacity for seat in emptied)
    hottest = max((fleet.loads[one.executor] / one.capacity for one in fleet.seats), default=0.0)
    high_mark = namespace.info.policy.balancer.high_mark
    pins = namespace.pinned
    return Room(
        shards=sum(fleet.counts[seat.executor] for seat in emptied),
        load=load,
        pinned=sum(
            key in pins and namespace.shards[key].pin == seat.executor
            for seat in emptied
            for key in namespace.owned(seat.executor)
        ),
        executors=len(left),
        capacity=capacity,
        mean_before=(carried + load) / before if before else 0.0,
        mean_after=(carried + owed + load) / capacity if capacity else 0.0,
        mark=high_mark if high_mark is not None else FULL if hottest <= FULL else None,
    )
