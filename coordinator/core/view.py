"""A table as it was at one moment, read in slices while the table goes on changing.

Decides what is remembered for readers that are not through. Must not know what a shard means.
"""

from collections.abc import Iterable, Iterator

from coordinator.core.table import Table, part_of
from coordinator.core.types import Shard


class ShardsView(Iterable[Shard]):
    """The shards of the moment it was made, in the table's order.

    To make it costs nothing. Its table must tell it of each shard before that changes (`keep`): a
    part of the table is noted when the first of its shards changes or when it is read, and each
    shard that changes then is. Records that nobody changes are not copied.
    """

    __slots__ = ("__weakref__", "_before", "_names", "_table")

    def __init__(self, table: Table[Shard]) -> None:
        self._table = table
        self._names: list[tuple[str, ...] | None] = [None] * len(table.parts)
        self._before: dict[str, Shard | None] = {}

    def keep(self, key: str, was: Shard | None) -> None:
        """The shard is about to change; `was` is None for a key that is new."""
        self._names_of(part_of(key))
        self._before.setdefault(key, was)

    def __iter__(self) -> Iterator[Shard]:
        for part in range(len(self._names)):
            yield from map(self._was, self._names_of(part))

    def _names_of(self, part: int) -> tuple[str, ...]:
        names = self._names[part]
        if names is None:
            names = self._names[part] = tuple(self._table.parts[part])
        return names

    def _was(self, key: str) -> Shard:
        return self._before.get(key) or self._table[key]
