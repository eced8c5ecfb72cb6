"""Orders that come to their end by themselves: drains that are through, and times that are over.

Decides when the leader says so. Times are those of its wall clock: an order is for people, and a
clock that is wrong ends it early or late, and gives nothing away.
"""

from itertools import chain
from typing import Final

from coordinator.core.commands import Command, ExpireOrders, FinishDrains
from coordinator.core.namespace import NamespaceState, Target
from coordinator.core.types import TargetKind

FINISHED_MAX: Final = 1_000
"""Drains that one command says are through: some milliseconds of every node."""


def plan_endings(namespace: NamespaceState, at_ms: int) -> list[Command]:
    """What is over now."""
    found: list[Command] = []
    finished = _finished(namespace)
    if finished:
        found.append(
            FinishDrains(namespace=namespace.info.name, targets=tuple(finished), at_ms=at_ms)
        )
    if _is_any_over(namespace, at_ms):
        found.append(ExpireOrders(namespace=namespace.info.name, at_ms=at_ms))
    return found


def _finished(namespace: NamespaceState) -> list[Target]:
    """Targets of drains that nothing is left on, and of which that is not told yet."""
    open_ones = [target for target, one in namespace.drains.items() if one.finished_ms is None]
    if not open_ones:
        return []
    busy = [
        record
        for record in namespace.executors.values()
        if namespace.owned(record.id) or namespace.incoming(record.id)
    ]
    names = {record.id for record in busy}
    hosts = {record.profile.host for record in busy}
    return [
        (kind, name)
        for kind, name in open_ones
        if name not in (hosts if kind is TargetKind.HOST else names)
    ][:FINISHED_MAX]


def _is_any_over(namespace: NamespaceState, at_ms: int) -> bool:
    pause = namespace.info.pause
    ends = chain(
        (one.until_ms for one in namespace.drains.values()),
        (one.until_ms for one in namespace.cordons.values()),
        (namespace.shards[key].pin_until_ms for key in namespace.expiring),
        () if pause is None else (pause.until_ms,),
    )
    return any(end is not None and end <= at_ms for end in ends)
