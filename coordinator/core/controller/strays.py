"""Shards that an executor says it holds although nothing gives it the right: two owners, perhaps.

A detector, never a guard: it takes nothing away. It listens to what live executors report, and
tells what no order of messages explains. Must not know how a shard came to its owner.

A report may be older than the release that it was overtaken by, so one says nothing. A later one,
sent after the first had been received, does: an owner is replaced only after it acknowledged its
stop, or when the lease of its shard was over, and in both cases has stopped. What still reports the
shard then goes on against the protocol, or hangs in its stop.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from coordinator.core.commands import Command, NoteStrays, Stray
from coordinator.core.names import key_fault
from coordinator.core.namespace import NamespaceState

if TYPE_CHECKING:
    from coordinator.core.controller.beats import Held
    from coordinator.core.controller.mind import Mind

PATIENCE_INTERVALS: Final = 2.0
"""Between the first report and the one that counts: longer than any try of a heartbeat lasts."""

STRAYS_MAX: Final = 10_000
"""Followed in one namespace. One would be an incident; what exceeds this is one in any case."""

NOTED_MAX: Final = 64
"""Of one command, as events of one kind are summed up beyond that."""


@dataclass(slots=True)
class _Report:
    epoch: int
    first_at: float
    last_at: float
    is_noted: bool = False


class StrayBook:
    """What executors of one namespace report without owning it."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, _Report]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._reports.values()))

    def hear(self, executor: str, strays: Mapping[str, "Held"], at: float) -> None:
        """An executor reports these, and nothing else that is not its own.

        What can be no key is passed over: events would keep it, however long it is, and nobody
        else can own it.
        """
        before = self._reports.pop(executor, {})
        room = STRAYS_MAX - len(self)
        now: dict[str, _Report] = {}
        for key, held in list(strays.items())[:room]:
            if key_fault(key):
                continue
            report = before.get(key)
            if report is None or report.epoch != held.epoch:
                report = _Report(held.epoch, at, at)
            report.last_at = at
            now[key] = report
        if now:
            self._reports[executor] = now

    def unchanged(self, executor: str, at: float) -> None:
        """An executor lives and says that it holds what it held."""
        for report in self._reports.get(executor, {}).values():
            report.last_at = at

    def forget(self, executor: str) -> None:
        """Its incarnation is over, or another one is let in."""
        self._reports.pop(executor, None)

    def add_pause(self, gap_s: float) -> None:
        """The leader stood still: what it hears next may be as old as that."""
        for reports in self._reports.values():
            for report in reports.values():
                report.first_at += gap_s
                report.last_at += gap_s

    def proven(
        self, namespace: NamespaceState, now: float, *, are_new: bool = False
    ) -> Iterable[tuple[str, str, int]]:
        """(executor, key, epoch) of those that nothing explains, by executor and key.

        An executor that was not heard for a lease counts no more. With `are_new` those only that
        were not noted yet.
        """
        patience_s = PATIENCE_INTERVALS * namespace.info.policy.heartbeat_interval_s
        for executor, reports in sorted(self._reports.items()):
            owned = namespace.owned(executor)
            for key, report in sorted(reports.items()):
                is_proven = report.last_at - report.first_at >= patience_s
                is_live = now - report.last_at <= namespace.info.lease_bound_s
                if is_proven and is_live and key not in owned and not (are_new and report.is_noted):
                    yield executor, key, report.epoch

    def note(self, executor: str, key: str) -> None:
        """It is told of; another leader would tell it again."""
        self._reports[executor][key].is_noted = True


def strays(
    namespace: NamespaceState, mind: "Mind", now: float, *, are_new: bool = False
) -> list[Stray]:
    """Shards held without right, each with whoever else says that it holds it."""
    found = list(mind.strays.proven(namespace, now))
    holders: dict[str, list[str]] = {}
    for executor, key, _ in found:
        holders.setdefault(key, []).append(executor)
    reported: dict[str, frozenset[str]] = {}
    for key, names in holders.items():
        shard = namespace.shards.get(key)
        owner = None if shard is None else shard.executor
        if owner is None:
            continue
        if owner not in reported:
            reported[owner] = frozenset(mind.reported.get(owner, ()))
        if key in reported[owner]:
            names.insert(0, owner)
    if are_new:
        found = list(mind.strays.proven(namespace, now, are_new=True))
    return [
        Stray(
            key=key,
            executor=executor,
            epoch=epoch,
            other=next((name for name in holders[key] if name != executor), None),
        )
        for executor, key, epoch in found
    ]


def plan_strays(namespace: NamespaceState, mind: "Mind", now: float, at_ms: int) -> list[Command]:
    """Tell people of those not told of yet."""
    if not len(mind.strays):
        return []
    found = strays(namespace, mind, now, are_new=True)[:NOTED_MAX]
    if not found:
        return []
    for one in found:
        mind.strays.note(one.executor, one.key)
    return [NoteStrays(namespace=namespace.info.name, strays=tuple(found), at_ms=at_ms)]
