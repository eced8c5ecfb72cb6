"""Who owns what, as routers see it: a bounded ring of changes, and the table since a revision.

It decides when a reader gets only what changed and when the whole table. It knows nothing of
cursors' text form, of waiting or of encoding.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from coordinator.core.shard import Fate, Shard
from coordinator.core.types import Executor

if TYPE_CHECKING:
    from coordinator.core.namespace import NamespaceState

RING_NAMES_MAX: Final = 65_536
"""Changed names (shards and executors) kept per namespace: some minutes of a busy namespace and
about 5 MB. A reader further behind gets the whole table."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The routing table at `revision`: all of it, or what changed since the asked revision."""

    is_snapshot: bool
    revision: int
    owners: dict[str, tuple[str, int]]
    """Shard key to (executor, epoch)."""
    moving: dict[str, str]
    """Shard key to the executor that gets it next."""
    parked: list[str]
    removed: list[str]
    """Keys of a delta that have no owner any more and are not parked."""
    executors: dict[str, Executor]
    """Every executor named in `owners` and `moving`, and in a delta those that changed."""


class ChangeRing:
    """Which shards and executors changed at which revision, newest kept, bounded."""

    __slots__ = ("_changes", "_floor", "_names", "_names_max")

    def __init__(self, floor: int, names_max: int = RING_NAMES_MAX) -> None:
        self._changes: deque[tuple[int, tuple[str, ...], tuple[str, ...]]] = deque()
        self._floor = floor
        self._names = 0
        self._names_max = names_max

    @property
    def floor(self) -> int:
        """The oldest revision from which a delta can be told."""
        return self._floor

    def add(self, revision: int, shards: Iterable[str], executors: Iterable[str]) -> None:
        """Remember one revision's changes; the oldest fall out beyond the bound."""
        change = (revision, tuple(shards), tuple(executors))
        self._changes.append(change)
        self._names += len(change[1]) + len(change[2]) + 1
        while self._names > self._names_max:
            dropped = self._changes.popleft()
            self._names -= len(dropped[1]) + len(dropped[2]) + 1
            self._floor = dropped[0]

    def since(self, revision: int) -> tuple[list[str], list[str]] | None:
        """Shard keys and executor ids changed after `revision`, sorted; None when too old."""
        if revision < self._floor:
            return None
        shards: set[str] = set()
        executors: set[str] = set()
        for at, shard_keys, executor_ids in reversed(self._changes):
            if at <= revision:
                break
            shards.update(shard_keys)
            executors.update(executor_ids)
        return sorted(shards), sorted(executors)


def changes_after(namespace: "NamespaceState", revision: int | None) -> Routing:
    """What a reader at `revision` must learn to be at the namespace's present revision.

    None, a revision older than the ring or one from the future gives the whole table.
    """
    changed = None
    if revision is not None and revision <= namespace.revision:
        changed = namespace.ring.since(revision)
    if changed is None:
        return _table(namespace, namespace.shards, namespace.executors, is_snapshot=True)
    shards, executors = changed
    return _table(namespace, shards, executors, is_snapshot=False)


def _table(
    namespace: "NamespaceState",
    keys: Iterable[str],
    executor_ids: Iterable[str],
    *,
    is_snapshot: bool,
) -> Routing:
    owners: dict[str, tuple[str, int]] = {}
    moving: dict[str, str] = {}
    parked: list[str] = []
    removed: list[str] = []
    named: set[str] = set(executor_ids)
    for key in keys:
        shard = namespace.shards.get(key)
        if shard is None:
            removed.append(key)
        elif shard.fate is Fate.PARKED:
            parked.append(key)
        elif shard.executor is not None and is_routable(shard):
            owners[key] = (shard.executor, shard.epoch)
            named.add(shard.executor)
            if shard.target is not None:
                moving[key] = shard.target
                named.add(shard.target)
        elif not is_snapshot:
            removed.append(key)
    executors = {
        executor: record
        for executor in sorted(named)
        if (record := namespace.executors.get(executor)) is not None
    }
    return Routing(is_snapshot, namespace.revision, owners, moving, parked, removed, executors)


def is_routable(shard: Shard) -> bool:
    """Whether a router may be sent to the shard's owner now."""
    return shard.executor is not None and shard.fate is None
