"""One namespace's tables, their indices, and the one place where they change.

`NamespaceState.commit` makes a `Draft` true and keeps the indices, the drain counters, the change
ring and the revision. Nothing here decides whether a change is right.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal
from weakref import WeakSet

from coordinator.core.covering import covering
from coordinator.core.events import Event, EventRing
from coordinator.core.image import NamespaceImage
from coordinator.core.key_index import put_in, take_out
from coordinator.core.orders import Cordon, Drain
from coordinator.core.routing import ChangeRing
from coordinator.core.saved_loads import SavedLoads
from coordinator.core.sets import duty, parties, standing
from coordinator.core.shard import HANDOFF_STATES, UNMARKED, Shard, ShardState
from coordinator.core.struck import Struck
from coordinator.core.table import Table, merge
from coordinator.core.tenures import Tenure, TenureRing
from coordinator.core.types import (
    CloseCause,
    Executor,
    ExecutorStatus,
    Namespace,
    Reservation,
    TargetKind,
)
from coordinator.core.view import Follower, ShardsView

if TYPE_CHECKING:
    from coordinator.core.draft import Draft

CLOSED_MAX: Final = 4096
"""Closed incarnations remembered with their cause: four restarts of a fleet of a thousand. An
older one is told that it expired, which makes it rejoin under a fresh incarnation."""

Target = tuple[TargetKind, str]
AssignmentState = Literal["run", "prepare", "release"]
ExecutorView = Literal["active", "cordoned", "draining", "drained"]


class NamespaceState:
    """The tables of one namespace. Read them freely; only `commit` writes."""

    __slots__ = (
        "_followers",
        "_incoming",
        "_owned",
        "_reserved",
        "_set_revision",
        "closed",
        "cordons",
        "drains",
        "events",
        "executors",
        "expiring",
        "in_flight",
        "info",
        "loads",
        "pinned",
        "reservations",
        "revision",
        "ring",
        "shards",
        "struck",
        "tenures",
        "vacant",
    )

    def __init__(self, info: Namespace, revision: int) -> None:
        self.info = info
        self.revision = revision
        self.shards: Table[Shard] = Table()
        self.executors: dict[str, Executor] = {}
        self.drains: dict[Target, Drain] = {}
        self.cordons: dict[Target, Cordon] = {}
        self.closed: dict[tuple[str, str], CloseCause] = {}
        self.reservations: dict[str, Reservation] = {}
        self.vacant: Table[None] = Table()
        """Keys of the shards that may be placed: those kept for somebody are not among them."""
        self.in_flight: dict[str, None] = {}
        self.pinned: dict[str, None] = {}
        self.expiring: dict[str, None] = {}
        """Keys of the shards whose pin ends by itself."""
        self.struck = Struck()
        self.ring = ChangeRing(revision)
        self.events = EventRing()
        self.tenures = TenureRing()
        self.loads = SavedLoads()
        self._owned: dict[str, dict[str, None]] = {}
        self._incoming: dict[str, dict[str, None]] = {}
        self._reserved: dict[str, dict[str, None]] = {}
        self._set_revision: dict[str, int] = {}
        self._followers: WeakSet[Follower] = WeakSet()

    # -- reading -------------------------------------------------------------------------

    def owned(self, executor: str) -> Mapping[str, None]:
        """Keys of the shards the executor owns, open handoffs away from it included."""
        return self._owned.get(executor, {})

    def incoming(self, executor: str) -> Mapping[str, None]:
        """Keys of the shards whose open handoff leads to the executor."""
        return self._incoming.get(executor, {})

    def reserved(self, executor: str) -> Mapping[str, None]:
        """Keys of the vacant shards that are kept for the executor."""
        return self._reserved.get(executor, {})

    @property
    def has_owners(self) -> bool:
        """Whether any shard is owned."""
        return bool(self._owned)

    def drain_of(self, executor: Executor) -> Drain | None:
        """The drain that covers an executor: its own, else its host's."""
        return covering(self.drains, executor)

    def cordon_of(self, executor: Executor) -> Cordon | None:
        """The cordon that covers an executor: its own, else its host's."""
        return covering(self.cordons, executor)

    def return_window_s(self, executor: Executor) -> float:
        """For how long its shards are to be kept for an executor that leaves; 0 for not at all."""
        profile = executor.profile
        if profile.status is not ExecutorStatus.LEAVING or self.drain_of(executor) is not None:
            return 0.0
        return min(profile.back_within_s, self.info.policy.return_window_s)

    def is_emptied(self, executor: Executor) -> bool:
        """Whether the executor's shards are owed elsewhere: it is drained, or leaves for good."""
        if executor.profile.status is ExecutorStatus.LEAVING:
            return self.return_window_s(executor) <= 0.0
        return self.drain_of(executor) is not None

    def accepts(self, executor: Executor) -> bool:
        """Whether the executor may be given shards now: nobody is while claims are taken."""
        return self.info.window is None and self.is_eligible(executor)

    def is_eligible(self, executor: Executor) -> bool:
        """Whether nothing about the executor itself stands against giving it shards."""
        return (
            executor.predecessor is None
            and not executor.evicted
            and executor.profile.status is not ExecutorStatus.LEAVING
            and (not self.drains or self.drain_of(executor) is None)
            and (not self.cordons or self.cordon_of(executor) is None)
        )

    def status_of(self, executor: Executor) -> ExecutorView:
        """The executor's standing in one word."""
        if self.is_emptied(executor):
            busy = self.owned(executor.id) or self.incoming(executor.id)
            return "draining" if busy else "drained"
        is_leaving = executor.profile.status is ExecutorStatus.LEAVING
        return "cordoned" if is_leaving or self.cordon_of(executor) is not None else "active"

    def covered(self, target: Target) -> list[Executor]:
        """The executors a drain or cordon of `target` covers now, by id."""
        kind, name = target
        if kind is TargetKind.EXECUTOR:
            return [self.executors[name]] if name in self.executors else []
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
            # Until the grant: a shard that leaves the set of its target would be cooled down again.
            if shard.is_warm or shard.state is ShardState.PREPARING:
                found.append((key, shard.epoch, "prepare"))
        found.sort()
        return found

    def assignments_revision(self, executor: str) -> int:
        """The last revision at which the executor's own set changed.

        For one that is not on record the newest: who waits for its set must hear that it is over.
        """
        return self._set_revision.get(executor, self.revision)

    def overdue_of(self, executor: str) -> list[str]:
        """Keys whose lease alone is no longer renewed, by key."""
        # Asked with every heartbeat: handoffs in flight are few, the shards owned are not.
        if not self.in_flight:
            return []
        owned = self.owned(executor)
        return sorted(key for key in self.in_flight if key in owned and self.shards[key].overdue)

    def tables(self) -> list[Mapping[str, object]]:
        """The tables that may be large."""
        flat = (self.in_flight, self.pinned, self.expiring)
        nested = (self._owned, self._incoming, self._reserved)
        of_each = (keys for by_executor in nested for keys in by_executor.values())
        struck = self.struck.tables()
        return [*self.shards.parts, *self.vacant.parts, *flat, *struck, *of_each]

    def follow(self, follower: Follower) -> None:
        """Tell it of each shard before that changes, for as long as anybody else holds it."""
        self._followers.add(follower)

    # -- changing ------------------------------------------------------------------------

    def commit(self, draft: "Draft", revision: int) -> None:
        """Make a draft true as `revision`."""
        if draft.info is not None:
            self.info = draft.info
        for executor, incarnation, cause in draft.closed:
            self.closed[executor, incarnation] = cause
        while len(self.closed) > CLOSED_MAX:
            del self.closed[next(iter(self.closed))]
        touched = self._commit_shards(draft)
        for executor, record in draft.executors.items():
            if standing(record) != standing(self.executors.get(executor)):
                touched[executor] = None
        renamed = dict.fromkeys(draft.executors)
        for target in (*draft.drains, *draft.cordons):
            renamed.update(dict.fromkeys(e.id for e in self.covered(target)))
        merge(self.executors, draft.executors)
        merge(self.drains, draft.drains)
        merge(self.cordons, draft.cordons)
        merge(self.reservations, draft.reservations)
        for executor in draft.executors:
            if executor not in self.executors:
                self._set_revision.pop(executor, None)
        for executor in touched:
            if executor in self.executors:
                self._set_revision[executor] = revision
        self.ring.add(revision, draft.shards, renamed)
        if draft.events:  # most commits of a busy namespace are told of, most of a quiet one not
            self.events.add(revision, draft.events)
        self.revision = revision

    def _commit_shards(self, draft: "Draft") -> dict[str, None]:
        """Write shards; gives the executors whose sets change. Counts drained shards."""
        touched: dict[str, None] = {}
        left: Counter[Target] = Counter()
        followers = tuple(self._followers)
        for key, shard in draft.shards.items():
            old = self.shards.get(key)
            self.tenures.note(key, old, shard, draft.at_ms)
            for follower in followers:
                follower.keep(key, old, shard)
            if duty(old) != duty(shard):
                touched.update(dict.fromkeys((*parties(old), *parties(shard))))
            if old is not None:
                self._unindex(old)
                if old.executor is not None and (shard is None or shard.executor != old.executor):
                    left.update(self._draining_targets(old.executor))
            if shard is None:
                self.shards.pop(key, None)
            else:
                self.shards[key] = shard
                self._index(shard)
        for target, count in left.items():
            # No command both ends a drain and moves shards, so the drain in force is the one.
            drain = self.drains[target]
            draft.drains[target] = replace(drain, moved=drain.moved + count)
        return touched

    def _draining_targets(self, executor: str) -> Iterable[Target]:
        record = self.executors.get(executor)
        host = (TargetKind.HOST, "" if record is None else record.profile.host)
        return [one for one in ((TargetKind.EXECUTOR, executor), host) if one in self.drains]

    def _index(self, shard: Shard) -> None:
        key = shard.key
        if shard.executor is not None:
            put_in(self._owned, shard.executor, key)
        if shard.state is ShardState.VACANT:
            if shard.reserved is None:
                self.vacant[key] = None
        elif shard.state in HANDOFF_STATES:
            self.in_flight[key] = None
        if shard.marks is UNMARKED:  # as nearly all are of very many that change at once
            return
        if shard.target is not None:
            put_in(self._incoming, shard.target, key)
        if shard.reserved is not None:
            put_in(self._reserved, shard.reserved, key)
        if shard.pin is not None:
            self.pinned[key] = None
        if shard.pin_until_ms is not None:
            self.expiring[key] = None
        self.struck.add(shard)

    def _unindex(self, shard: Shard) -> None:
        key = shard.key
        if shard.executor is not None:
            take_out(self._owned, shard.executor, key)
        if shard.state is ShardState.VACANT:
            self.vacant.pop(key, None)
        elif shard.state in HANDOFF_STATES:
            del self.in_flight[key]
        if shard.marks is UNMARKED:
            return
        if shard.target is not None:
            take_out(self._incoming, shard.target, key)
        if shard.reserved is not None:
            take_out(self._reserved, shard.reserved, key)
        self.pinned.pop(key, None)
        self.expiring.pop(key, None)
        self.struck.remove(shard)

    # -- snapshots -----------------------------------------------------------------------

    def image(self) -> NamespaceImage:
        """All of it as it is now."""
        return self._image(tuple(self.shards.values()))

    def view(self) -> NamespaceImage:
        """An image that is read in slices later; to make it takes as long with a million shards."""
        shards = ShardsView(self.shards)
        self.follow(shards)
        return self._image(shards)

    def _image(self, shards: Iterable[Shard]) -> NamespaceImage:
        return NamespaceImage(
            info=self.info,
            revision=self.revision,
            shards=shards,
            executors=tuple(self.executors.values()),
            drains=tuple(self.drains.values()),
            cordons=tuple(self.cordons.values()),
            closed=tuple((e, i, cause) for (e, i), cause in self.closed.items()),
            events=self.events.kept(),
            forgotten=self.events.forgotten,
            reservations=tuple(self.reservations.values()),
            loads=self.loads,
            tenures=self.tenures.kept(),
            forgotten_ms=self.tenures.forgotten_ms,
        )

    @classmethod
    def from_image(cls, image: NamespaceImage) -> "NamespaceState":
        """The namespace a snapshot holds, indices made again."""
        state = cls(image.info, image.revision)
        state.events.forgotten, state.loads = image.forgotten, image.loads
        state.tenures.forgotten_ms = image.forgotten_ms
        state.load_others(
            executors=image.executors,
            drains=image.drains,
            cordons=image.cordons,
            closed=image.closed,
            reservations=image.reservations,
            events=image.events,
            tenures=image.tenures,
        )
        state.load(image.shards)
        return state

    def load_others(
        self,
        *,
        executors: Iterable[Executor] = (),
        drains: Iterable[Drain] = (),
        cordons: Iterable[Cordon] = (),
        closed: Iterable[tuple[str, str, CloseCause]] = (),
        reservations: Iterable[Reservation] = (),
        events: Iterable[Event] = (),
        tenures: Iterable[Tenure] = (),
    ) -> None:
        """Put in records that are not there yet, before anybody reads this namespace."""
        for record in executors:
            self.executors[record.id] = record
            self._set_revision[record.id] = self.revision
        self.drains.update(((d.kind, d.target), d) for d in drains)
        self.cordons.update(((c.kind, c.target), c) for c in cordons)
        self.closed.update(((e, i), cause) for e, i, cause in closed)
        self.events.load(events)
        self.tenures.load(tenures)
        self.reservations.update((r.executor, r) for r in reservations)

    def load(self, shards: Iterable[Shard]) -> None:
        """The same of shards."""
        for shard in shards:
            self.shards[shard.key] = shard
            self._index(shard)
