"""Who owned a shard when, for people: the newest changes of owners, a ring that every node holds.

Decides what is kept, and what is said of a time of which not all is known any more. It must not
know why a shard changed hands: that is told by events. No rule ever reads it.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator.core.shard import Shard
from coordinator.core.types import Namespace

TENURES_MAX: Final = 32_768
"""Kept per namespace, 4 MB: thirty deploys of a thousand shards."""


class Tenure(NamedTuple):
    """From here on a shard had this owner; a tuple, as there are very many."""

    key: str
    executor: str | None
    """None when nobody owned it from here on."""
    epoch: int
    """0 when nobody owned it."""
    since_ms: int
    """Wall clock of whoever led then; for people, never compared by a rule."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Who owned a shard at a time that was asked for."""

    is_known: bool
    """Whether that is known; if not, nothing but `known_from_ms` says anything."""
    executor: str | None = None
    epoch: int = 0
    since_ms: int | None = None
    until_ms: int | None = None
    """When it changed hands next; None when it has not."""
    known_from_ms: int | None = None
    """The earliest time for which it is known."""


class TenureRing:
    """The newest changes of owners in a namespace."""

    __slots__ = ("_kept", "forgotten_ms")

    def __init__(self) -> None:
        self._kept: deque[Tenure] = deque()
        self.forgotten_ms: int | None = None
        """The time of the newest that fell out; None while none did."""

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, key: str, old: Shard | None, new: Shard | None, at_ms: int) -> None:
        """A shard changes from one record to the other: keep it, if its owner changes."""
        owner = _owner(new)
        if owner != _owner(old):
            # The table's own string for the name: a command brings a new one each.
            self._keep(Tenure(key if old is None else old.key, *owner, at_ms))

    def load(self, tenures: Iterable[Tenure]) -> None:
        """Keep these, which are later than those here; the oldest fall out beyond the bound."""
        for tenure in tenures:
            self._keep(tenure)

    def _keep(self, tenure: Tenure) -> None:
        self._kept.append(tenure)
        if len(self._kept) > TENURES_MAX:
            self.forgotten_ms = self._kept.popleft().since_ms

    def kept(self) -> tuple[Tenure, ...]:
        """All of them, for a snapshot."""
        return tuple(self._kept)

    def of(self, key: str) -> list[Tenure]:
        """Those of one shard, oldest first.

        It takes as long as to look at the whole ring: 2 ms.
        """
        return [tenure for tenure in self._kept if tenure.key == key]

    def owner_at(self, shard: Shard, info: Namespace, at_ms: int) -> Owned:
        """Who owned a shard, given by its present record, at a time; it takes as long as `of`."""
        tenures = self.of(shard.key)
        if self.forgotten_ms is None:
            tenures.insert(0, Tenure(shard.key, None, 0, info.created_at_ms))
        elif not tenures:
            # What made it so fell out; it is so since then, or since before the last that did.
            owner = _owner(shard)
            since_ms = shard.since_ms if owner[1] else self.forgotten_ms
            tenures = [Tenure(shard.key, *owner, since_ms)]
        found: Owned | None = None
        for at, tenure in enumerate(tenures):
            if tenure.since_ms <= at_ms:
                found = Owned(
                    is_known=True,
                    executor=tenure.executor,
                    epoch=tenure.epoch,
                    since_ms=tenure.since_ms,
                    until_ms=tenures[at + 1].since_ms if at + 1 < len(tenures) else None,
                    known_from_ms=tenures[0].since_ms,
                )
        return found or Owned(is_known=False, known_from_ms=tenures[0].since_ms)


def _owner(shard: Shard | None) -> tuple[str | None, int]:
    """Who owns it and under which epoch; an epoch that nobody has is none."""
    return (None, 0) if shard is None or shard.executor is None else (shard.executor, shard.epoch)
