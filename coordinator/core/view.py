"""A table as it was at one moment, read in slices while the table goes on changing.

Decides what is remembered for readers that are not through. Must not know what a shard means.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from coordinator.core.shard import Shard
from coordinator.core.table import PARTS, Table, part_of


class Follower(Protocol):
    """What is told of each shard before it changes."""

    def keep(self, key: str, was: Shard | None, becomes: Shard | None) -> None:
        """What it was, and what it becomes; None stands for one that is new, or goes."""


class ShardsView(Iterable[Shard]):
    """The shards of the moment it was made, in the table's order, to be read once.

    To make it costs nothing. Its table must tell it of each shard before that changes (`keep`), and
    what it was is kept until its part of the table was read. The names in a part are noted when its
    turn comes: a shard that changes keeps its place, and one that is new is known as such by then.
    Only one that goes takes its place along, so they are noted before the first does. Records that
    nobody changes are not copied, and a part that was read is let go.
    """

    __slots__ = ("__weakref__", "_before", "_names", "_reading", "_table")

    def __init__(self, table: Table[Shard]) -> None:
        self._table = table
        self._reading = 0
        """The part whose turn it is."""
        self._names: list[tuple[str, ...] | None] = [None] * PARTS
        self._before: list[dict[str, Shard | None]] = [{} for _ in range(PARTS)]

    def keep(self, key: str, was: Shard | None, becomes: Shard | None) -> None:
        """The shard is about to change; None stands for one that is new, or goes."""
        part = part_of(key)
        if part >= self._reading:
            if becomes is None:
                self._note_names(part)
            self._before[part].setdefault(key, was)

    def __iter__(self) -> Iterator[Shard]:
        while self._reading < PARTS:
            part = self._reading
            before, records = self._before[part], self._table.parts[part]
            for name in self._note_names(part):
                was = before.get(name, records.get(name))
                if was is not None:
                    yield was
            # To let go of a million names at once takes 25 ms.
            self._names[part], self._before[part] = (), {}
            self._reading += 1

    def _note_names(self, part: int) -> tuple[str, ...]:
        names = self._names[part]
        if names is None:
            names = self._names[part] = tuple(self._table.parts[part])
        return names
