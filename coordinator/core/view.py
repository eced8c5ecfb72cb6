"""A table as it was at one moment, read in slices while the table goes on changing.

Decides what is remembered for readers that are not through. Must not know what a shard means.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from coordinator.core.types import Shard


class ShardsView(Sequence[Shard]):
    """The shards of the moment it was made, in the table's order.

    It costs one reference a key at once, and a record for each shard that changes afterwards. Its
    table must tell it of those first (`keep`). It knows nothing of records that nobody changed, so
    a million of them are not copied.
    """

    __slots__ = ("__weakref__", "_before", "_keys", "_table")

    def __init__(self, table: Mapping[str, Shard]) -> None:
        self._table = table
        self._keys = tuple(table)
        self._before: dict[str, Shard | None] = {}

    def keep(self, key: str, was: Shard | None) -> None:
        """The shard is about to change; `was` is None for a key that is new."""
        self._before.setdefault(key, was)

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> Shard: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Shard, ...]: ...

    def __getitem__(self, index: int | slice) -> Shard | tuple[Shard, ...]:
        if isinstance(index, slice):
            return tuple(map(self._was, self._keys[index]))
        return self._was(self._keys[index])

    def __iter__(self) -> Iterator[Shard]:
        return map(self._was, self._keys)

    def _was(self, key: str) -> Shard:
        return self._before.get(key) or self._table[key]
