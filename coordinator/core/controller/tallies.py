"""How much every executor holds, counted as it changes.

A report counts its executor's shards anew; between reports each shard that changes hands is taken
off one tally and added to another, so nothing is counted when somebody asks. Shards in handoff
count where they are going. Must not know what the figures are for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum

from coordinator.core.load import LoadBook, Sheet
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import Shard


@dataclass(frozen=True, slots=True)
class Tally:
    """What one executor will hold once the open handoffs are through."""

    count: int
    load: float
    """Of the measured ones."""
    unmeasured: int

    def changed(self, load: float | None, by: int) -> "Tally":
        """With one shard more, or less."""
        if load is None:
            return Tally(self.count + by, self.load, self.unmeasured + by)
        # What was counted may have been measured again since: a little, until the next report.
        return Tally(self.count + by, max(0.0, self.load + by * load), self.unmeasured)


@dataclass(slots=True, weakref_slot=True, eq=False)
class Tallies:
    """The tallies of one namespace's executors. It follows the namespace's changes by itself."""

    loads: LoadBook
    steady: Mapping[str, int]
    """The revision of each executor's set at which all that it reported was its own."""
    _space: NamespaceState | None = None
    _known: dict[str, tuple[tuple[int, int], Tally]] = field(default_factory=dict)
    """By executor: which report it was counted with, and the tally as it is now."""

    def of_all(self, namespace: NamespaceState, leaving: Mapping[str, int]) -> dict[str, Tally]:
        """Of every executor, by id; `leaving` has those that give up a shard just now."""
        self._follow(namespace)
        for gone in [one for one in self._known if one not in namespace.executors]:
            del self._known[gone]
        return {
            executor: self._of(namespace, executor, leaving)
            for executor in sorted(namespace.executors)
        }

    def heard(self, namespace: NamespaceState, executor: str) -> None:
        """Count anew, now, what a report changed, if its sheet does not tell.

        Of all at once, when somebody asks, it takes 0.1 s with a million shards. While shards are
        being handed over it is left to who asks.
        """
        if not namespace.in_flight and self.sheet(namespace, executor, {}) is None:
            self._follow(namespace)
            self._of(namespace, executor, {})

    def of(self, namespace: NamespaceState, executor: str) -> Tally:
        """Of one executor on record."""
        self._follow(namespace)
        return self._of(namespace, executor, moving_out(namespace))

    def _follow(self, namespace: NamespaceState) -> None:
        if self._space is not namespace:
            self._space = namespace
            self._known.clear()
            namespace.follow(self)

    def keep(self, key: str, was: Shard | None, becomes: Shard | None) -> None:
        """The shard is about to change; None stands for one that is new, or goes."""
        source, target = _place(was), _place(becomes)
        if source == target:
            return
        load = self.loads.smoothed(key)
        for executor, by in ((source, -1), (target, 1)):
            if executor in self._known:
                stamp, tally = self._known[executor]
                self._known[executor] = (stamp, tally.changed(load, by))

    def sheet(
        self, namespace: NamespaceState, executor: str, leaving: Mapping[str, int]
    ) -> Sheet | None:
        """What its last report came to, if that is just what it will hold."""
        if executor in leaving or namespace.incoming(executor):
            return None
        if self.steady.get(executor) != namespace.assignments_revision(executor):
            return None
        sheet = self.loads.sheet(executor)
        is_all = sheet is not None and len(sheet.keys) == len(namespace.owned(executor))
        return sheet if is_all else None

    def _of(self, namespace: NamespaceState, executor: str, leaving: Mapping[str, int]) -> Tally:
        stamp = self.loads.version(executor)
        known = self._known.get(executor)
        if known is None or known[0] != stamp:
            known = (stamp, self._counted(namespace, executor, leaving))
            self._known[executor] = known
        return known[1]

    def _counted(
        self, namespace: NamespaceState, executor: str, leaving: Mapping[str, int]
    ) -> Tally:
        """All that it will hold, looked up only if its last report does not tell."""
        sheet = self.sheet(namespace, executor, leaving)
        if sheet is not None:
            return Tally(len(sheet.keys), sheet.total, 0)
        keys = held_keys(namespace, executor, leaving)
        measured = [load for load in self.loads.loads_of(keys) if load is not None]
        return Tally(len(keys), fsum(measured), len(keys) - len(measured))


def _place(shard: Shard | None) -> str:
    """Where it counts."""
    return "" if shard is None else shard.marks.target or shard.executor or ""


def moving_out(namespace: NamespaceState) -> dict[str, int]:
    """How many shards each executor is giving up just now; only of those that do."""
    leaving: dict[str, int] = {}
    for key in namespace.in_flight:
        owner = namespace.shards[key].executor or ""
        leaving[owner] = leaving.get(owner, 0) + 1
    return leaving


def held_keys(namespace: NamespaceState, executor: str, leaving: Mapping[str, int]) -> list[str]:
    """The shards that an executor will hold once the open handoffs are through."""
    incoming = namespace.incoming(executor)
    if executor not in leaving:
        return [*namespace.owned(executor), *incoming]
    shards = namespace.shards
    return [
        *(key for key in namespace.owned(executor) if shards[key].target is None),
        *incoming,
    ]
