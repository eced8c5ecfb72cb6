"""What the leader told of shards held without right: true only where a stop was made to hang."""

from collections.abc import Iterable

from coordinator.core.events import EventKind
from coordinator.core.namespace import NamespaceState

ALARMS = (EventKind.SHARD_DOUBLE_OWNED, EventKind.SHARD_HELD_ASTRAY)
HOLD_ON = ("hang", "slow", "block")
"""Faults in which an executor still runs a shard whose lease is over: its stop does not end."""


def false_alarm(namespace: NamespaceState, faults: Iterable[str]) -> str | None:
    """An alarm that no fault of these explains."""
    if any(fault in HOLD_ON for fault in faults):
        return None
    return next((f"false alarm: {one}" for one in namespace.events if one.kind in ALARMS), None)
