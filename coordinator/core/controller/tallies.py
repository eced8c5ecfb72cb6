"""How much every executor holds, counted again only where something changed.

An executor that reports its loads, gains a shard or loses one is counted anew when next asked for;
all others are known. Shards in handoff count where they are going, so an executor with one under
way is counted each time. Must not know what the figures are for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum

from coordinator.core.load import LoadBook
from coordinator.core.namespace import NamespaceState


@dataclass(frozen=True, slots=True)
class Tally:
    """What one executor will hold once the open handoffs are through."""

    count: int
    load: float
    """Of the measured ones."""
    unmeasured: int


@dataclass(slots=True)
class Tallies:
    """The tallies of one namespace's executors."""

    _known: dict[str, tuple[tuple[int, tuple[int, int]], Tally]] = field(default_factory=dict)

    def of_all(
        self, namespace: NamespaceState, loads: LoadBook, leaving: Mapping[str, int]
    ) -> dict[str, Tally]:
        """Of every executor, by id; `leaving` has those that give up a shard just now."""
        for gone in [one for one in self._known if one not in namespace.executors]:
            del self._known[gone]
        return {
            executor: self._of(namespace, loads, executor, leaving)
            for executor in sorted(namespace.executors)
        }

    def _of(
        self, namespace: NamespaceState, loads: LoadBook, executor: str, leaving: Mapping[str, int]
    ) -> Tally:
        if executor in leaving or namespace.incoming(executor):
            self._known.pop(executor, None)
            return _counted(loads, held_keys(namespace, executor, leaving))
        stamp = (namespace.assignments_revision(executor), loads.version(executor))
        known = self._known.get(executor)
        if known is None or known[0] != stamp:
            known = (stamp, _counted(loads, list(namespace.owned(executor))))
            self._known[executor] = known
        return known[1]


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


def _counted(loads: LoadBook, keys: list[str]) -> Tally:
    measured = [load for load in loads.loads_of(keys) if load is not None]
    return Tally(len(keys), fsum(measured), len(keys) - len(measured))
