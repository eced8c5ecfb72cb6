"""One namespace's tables, their indices, and the one place where they change.

A rule writes into a `Draft`; `NamespaceState.commit` makes a draft true, keeps the indices, the
drain counters, the change ring and the revision. Nothing here decides whether a change is right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

from coordinator.core.routing import ChangeRing
from coordinator.core.types import (
    HANDOFF_STATES,
    Cause,
    CloseCause,
    Cordon,
    Drain,
    Executor,
    ExecutorStatus,
    Fate,
    Namespace,
    Shard,
    ShardState,
    TargetKind,
)

CLOSED_MAX: Final = 4096
"""Closed incarnations remembered with their cause: four restarts of a fleet of a thousand. An
older one is told that it expired, which makes it rejoin under a fresh incarnation."""

Target = tuple[TargetKind, str]
AssignmentState = Literal["run", "prepare", "release"]
ExecutorView = Literal["active", "cordoned", "draining", "drained"]


@dataclass(frozen=True, slots=True)
class NamespaceImage:
    """All of a namespace that a snapshot holds; indices are made again from it."""

    info: Namespace
    revision: int
    shards: tuple[Shard, ...]
    executors: tuple[Executor, ...]
    drains: tuple[Drain, ...]
    cordons: tuple[Cordon, ...]
    closed: tuple[tuple[str, str, CloseCause], ...]


@dataclass(slots=True)
class Draft:
    """What one command would change in a namespace. Rules write here and nowhere else."""

    base: "NamespaceState"
    next_epoch: int
    shards: dict[str, Shard | None] = field(default_factory=dict)
    executors: dict[str, Executor | None] = field(default_factory=dict)
    drains: dict[Target, Drain | None] = field(default_factory=dict)
    cordons: dict[Target, Cordon | None] = field(default_factory=dict)
    closed: list[tuple[str, str, CloseCause]] = field(default_factory=list)
    info: Namespace | None = None

    def shard(self, key: str) -> Shard | None:
        """The shard as this draft leaves it."""
        return self.shards[key] if key in self.shards else self.base.shards.get(key)

    def executor(self, executor: str) -> Executor | None:
        """The executor as this draft leaves it."""
        if executor in self.executors:
            return self.executors[executor]
        return self.base.executors.get(executor)

    def put(self, shard: Shard) -> None:
        """Write one shard."""
        self.shards[shard.key] = shard

    def grant(self, shard: Shard, executor: str, cause: Cause, at_ms: int) -> None:
        """Give a shard to an executor under a new epoch. Nobody else may act on it by now."""
        is_same_owner = shard.executor in (None, executor)
        self.put(
            replace(
                shard,
                state=ShardState.OWNED,
                executor=executor,
                epoch=self.next_epoch,
                target=None,
                overdue=False,
                cause=cause,
                next_cause=None,
                previous=shard.previous if is_same_owner else shard.executor,
                since_ms=at_ms,
            )
        )
        self.next_epoch += 1

    def free(self, shard: Shard, cause: Cause) -> None:
        """Nobody runs the shard any more: it turns vacant, parked, or is forgotten."""
        if shard.fate is Fate.RETIRED:
            self.shards[shard.key] = None
            return
        self.put(
            replace(
                shard,
                state=ShardState.PARKED if shard.fate is Fate.PARKED else ShardState.VACANT,
                executor=None,
                target=None,
                overdue=False,
                cause=cause,
                next_cause=None,
                previous=shard.executor or shard.previous,
            )
        )

    def is_open(self, executor: str) -> bool:
        """Whether the executor may be given shards, as this draft leaves it."""
        record = self.executor(executor)
        return record is not None and self.base.accepts(record)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (
            self.shards
            or self.executors
            or self.drains
            or self.cordons
            or self.closed
            or self.info is not None
        )


class NamespaceState:
    """The tables of one namespace. Read them freely; only `commit` writes."""

    __slots__ = (
        "_incoming",
        "_owned",
        "_set_revision",
        "closed",
        "cordons",
        "drains",
        "executors",
        "in_flight",
        "info",
        "pinned",
        "revision",
        "ring",
        "shards",
        "vacant",
    )

    def __init__(self, info: Namespace, revision: int) -> None:
        self.info = info
        self.revision = revision
        self.shards: dict[str, Shard] = {}
        self.executors: dict[str, Executor] = {}
        self.drains: dict[Target, Drain] = {}
        self.cordons: dict[Target, Cordon] = {}
        self.closed: dict[tuple[str, str], CloseCause] = {}
        self.vacant: dict[str, None] = {}
        self.in_flight: dict[str, None] = {}
        self.pinned: dict[str, None] = {}
        self.ring = ChangeRing(revision)
        self._owned: dict[str, dict[str, None]] = {}
        self._incoming: dict[str, dict[str, None]] = {}
        self._set_revision: dict[str, int] = {}

    # -- reading -------------------------------------------------------------------------

    def owned(self, executor: str) -> Mapping[str, None]:
        """Keys of the shards the executor owns, open handoffs away from it included."""
        return self._owned.get(executor, {})

    def incoming(self, executor: str) -> Mapping[str, None]:
        """Keys of the shards whose open handoff leads to the executor."""
        return self._incoming.get(executor, {})

    @property
    def has_owners(self) -> bool:
        """Whether any shard is owned."""
        return bool(self._owned)

    def drain_of(self, executor: Executor) -> Drain | None:
        """The drain that covers an executor: its own, else its host's."""
        return self.drains.get((TargetKind.EXECUTOR, executor.id)) or self.drains.get(
            (TargetKind.HOST, executor.profile.host)
        )

    def cordon_of(self, executor: Executor) -> Cordon | None:
        """The cordon that covers an executor: its own, else its host's."""
        return self.cordons.get((TargetKind.EXECUTOR, executor.id)) or self.cordons.get(
            (TargetKind.HOST, executor.profile.host)
        )

    def is_emptied(self, executor: Executor) -> bool:
        """Whether the executor's shards are owed elsewhere: it is drained or says it leaves."""
        return (
            executor.profile.status is ExecutorStatus.LEAVING or self.drain_of(executor) is not None
        )

    def accepts(self, executor: Executor) -> bool:
        """Whether the executor may be given shards."""
        return (
            executor.predecessor is None
            and not executor.evicted
            and not self.is_emptied(executor)
            and self.cordon_of(executor) is None
        )

    def status_of(self, executor: Executor) -> ExecutorView:
        """The executor's standing in one word."""
        if self.is_emptied(executor):
            busy = self.owned(executor.id) or self.incoming(executor.id)
            return "draining" if busy else "drained"
        return "active" if self.cordon_of(executor) is None else "cordoned"

    def covered(self, target: Target) -> list[Executor]:
        """The executors a drain or cordon of `target` covers now, by id."""
        kind, name = target
        if kind is TargetKind.EXECUTOR:
            record = self.executors.get(name)
            return [] if record is None else [record]
        return [e for _, e in sorted(self.executors.items()) if e.profile.host == name]

    def assignments(
        self, executor: str, incarnation: str
    ) -> list[tuple[str, int, AssignmentState]]:
        """The full set of (shard key, epoch, state) an incarnation shall hold, by key.

        Empty for an incarnation that is not the one on record, or while a superseded one may
        still act.
        """
        record = self.executors.get(executor)
        if record is None or record.incarnation != incarnation or record.evicted:
            return []
        if record.predecessor is not None:
            return []
        found: list[tuple[str, int, AssignmentState]] = []
        for key in self.owned(executor):
            shard = self.shards[key]
            found.append(
                (key, shard.epoch, "release" if shard.state is ShardState.RELEASING else "run")
            )
        for key in self.incoming(executor):
            shard = self.shards[key]
            if shard.state is ShardState.PREPARING:
                found.append((key, shard.epoch, "prepare"))
        found.sort()
        return found

    def assignments_revision(self, executor: str) -> int:
        """The last revision at which the executor's own set changed."""
        return self._set_revision.get(executor, 0)

    def overdue_of(self, executor: str) -> list[str]:
        """Keys whose lease alone is no longer renewed, by key."""
        return sorted(
            key
            for key in self.owned(executor)
            if key in self.in_flight and self.shards[key].overdue
        )

    # -- changing ------------------------------------------------------------------------

    def commit(self, draft: Draft, revision: int) -> None:
        """Make a draft true as `revision`."""
        if draft.info is not None:
            self.info = draft.info
        for executor, incarnation, cause in draft.closed:
            self.closed[executor, incarnation] = cause
        while len(self.closed) > CLOSED_MAX:
            del self.closed[next(iter(self.closed))]
        touched = self._commit_shards(draft.shards, draft.drains)
        renamed = dict.fromkeys(draft.executors)
        for target in (*draft.drains, *draft.cordons):
            renamed.update(dict.fromkeys(e.id for e in self.covered(target)))
        _merge(self.executors, draft.executors)
        _merge(self.drains, draft.drains)
        _merge(self.cordons, draft.cordons)
        for executor in draft.executors:
            if executor not in self.executors:
                self._set_revision.pop(executor, None)
        for executor in (*touched, *draft.executors):
            if executor in self.executors:
                self._set_revision[executor] = revision
        self.ring.add(revision, draft.shards, renamed)
        self.revision = revision

    def _commit_shards(
        self, changed: Mapping[str, Shard | None], drains: dict[Target, Drain | None]
    ) -> dict[str, None]:
        """Write shards; gives the executors whose sets are touched. Counts drained shards."""
        touched: dict[str, None] = {}
        left: dict[Target, int] = {}
        for key, shard in changed.items():
            old = self.shards.get(key)
            if old is not None:
                self._unindex(old, touched)
                if old.executor is not None and (shard is None or shard.executor != old.executor):
                    for target in self._draining_targets(old.executor):
                        left[target] = left.get(target, 0) + 1
            if shard is None:
                self.shards.pop(key, None)
            else:
                self.shards[key] = shard
                self._index(shard, touched)
        for target, count in left.items():
            drain = drains[target] if target in drains else self.drains[target]
            if drain is not None:
                drains[target] = replace(drain, moved=drain.moved + count)
        return touched

    def _draining_targets(self, executor: str) -> Iterable[Target]:
        own = (TargetKind.EXECUTOR, executor)
        record = self.executors.get(executor)
        host = (TargetKind.HOST, "" if record is None else record.profile.host)
        return [target for target in (own, host) if target in self.drains]

    def _index(self, shard: Shard, touched: dict[str, None]) -> None:
        key = shard.key
        if shard.executor is not None:
            self._owned.setdefault(shard.executor, {})[key] = None
            touched[shard.executor] = None
        if shard.target is not None:
            self._incoming.setdefault(shard.target, {})[key] = None
            touched[shard.target] = None
        if shard.state is ShardState.VACANT:
            self.vacant[key] = None
        elif shard.state in HANDOFF_STATES:
            self.in_flight[key] = None
        if shard.pin is not None:
            self.pinned[key] = None

    def _unindex(self, shard: Shard, touched: dict[str, None]) -> None:
        key = shard.key
        for index, executor in ((self._owned, shard.executor), (self._incoming, shard.target)):
            if executor is not None:
                touched[executor] = None
                keys = index[executor]
                del keys[key]
                if not keys:
                    del index[executor]
        self.vacant.pop(key, None)
        self.in_flight.pop(key, None)
        self.pinned.pop(key, None)

    # -- snapshots -----------------------------------------------------------------------

    def image(self) -> NamespaceImage:
        """An immutable view for a snapshot; costs references, not copies of records."""
        return NamespaceImage(
            info=self.info,
            revision=self.revision,
            shards=tuple(self.shards.values()),
            executors=tuple(self.executors.values()),
            drains=tuple(self.drains.values()),
            cordons=tuple(self.cordons.values()),
            closed=tuple((e, i, cause) for (e, i), cause in self.closed.items()),
        )

    @classmethod
    def from_image(cls, image: NamespaceImage) -> "NamespaceState":
        """The namespace a snapshot holds, indices made again."""
        state = cls(image.info, image.revision)
        state.executors = {e.id: e for e in image.executors}
        state.drains = {(d.kind, d.target): d for d in image.drains}
        state.cordons = {(c.kind, c.target): c for c in image.cordons}
        state.closed = {(e, i): cause for e, i, cause in image.closed}
        touched: dict[str, None] = {}
        for shard in image.shards:
            state.shards[shard.key] = shard
            state._index(shard, touched)
        state._set_revision = dict.fromkeys(state.executors, image.revision)
        return state


_Key = TypeVar("_Key")
_Record = TypeVar("_Record")


def _merge(table: dict[_Key, _Record], changed: Mapping[_Key, _Record | None]) -> None:
    for key, value in changed.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
