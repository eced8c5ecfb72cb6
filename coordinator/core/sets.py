"""Which part of a record executors' assignment sets show, so that only a change of it wakes them.

Must not know what a set is made of: that is `NamespaceState.assignments`.
"""

from coordinator.core.shard import Shard
from coordinator.core.types import Executor


def duty(shard: Shard | None) -> tuple[object, ...] | None:
    """All of a shard that executors' sets show."""
    if shard is None:
        return None
    return (shard.executor, shard.epoch, shard.state, shard.target, shard.is_warm)


def parties(shard: Shard | None) -> list[str]:
    """The executors in whose sets a shard stands or may stand."""
    if shard is None:
        return []
    return [executor for executor in (shard.executor, shard.target) if executor is not None]


def standing(record: Executor | None) -> tuple[str, str | None, bool] | None:
    """All of an executor that decides whether it has a set at all."""
    return None if record is None else (record.incarnation, record.predecessor, record.evicted)
