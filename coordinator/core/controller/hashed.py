"""What static hashing would give, measured beside the passes.

Decides how often, and which shards count. It takes longer than a pass, so it is no part of one: it
goes on in slices while nothing else is to be done. Must not know how hashing places a shard.
"""

from collections.abc import Iterator
from typing import Final

from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Slices, Stack, Yardstick, measuring

YARDSTICK_S: Final = 60.0
"""How often it is measured with few shards."""

SHARDS_PER_S: Final = 1_700
"""Of many it is measured less often, a million every ten minutes: a name takes 3 us, so that half
a percent of a processor goes to a figure that hardly changes."""

_AT_ONCE: Final = 500


def is_due(namespace: NamespaceState, mind: Mind, now: float) -> bool:
    """Whether to measure again."""
    return now - mind.measured_at >= max(YARDSTICK_S, len(namespace.shards) / SHARDS_PER_S)


def measuring_hashes(namespace: NamespaceState, mind: Mind, now: float) -> Slices[Yardstick]:
    """Every owned shard over the executors that may be given some.

    One that changes hands meanwhile may count twice or not at all: of the figure that is nothing.
    """
    silent = mind.leases.silent(namespace.info.policy.lease_ttl_s, now)
    rooms = {
        record.id: record.profile.capacity
        for record in namespace.executors.values()
        if namespace.accepts(record) and record.id not in silent
    }
    return measuring(_stacks(namespace, mind), rooms)


def _stacks(namespace: NamespaceState, mind: Mind) -> Iterator[Stack]:
    median = mind.loads.median()
    for executor in sorted(namespace.executors):
        keys = list(namespace.owned(executor))
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            found = mind.loads.loads_of(some)
            yield Stack(some, [median if load is None else load for load in found])
