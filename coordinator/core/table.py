"""Records by name, in a table without long moments.

Decides where a record lies. Must not know what it is.

A `dict` of a million names stands still for 30 ms when it grows. Here names are spread over some
dicts, each of which grows by itself, for a millisecond at most, and is read by itself
(`core/view.py`). Parts of one size would all grow with the same few names, 0.1 s of a million; so
each gets a little more of them than the one before, the last twice as many as the first. The place
follows from the name alone, so tables that got the same names in the
same order, or in the order in which such a table gives them, give them in one order on every node.
"""

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from itertools import chain
from typing import Final, TypeVar, overload
from zlib import crc32

PARTS: Final = 64
"""A million names make 10,000 to 21,000 a part, which grows in a millisecond; an empty part takes
64 bytes."""

_MASK: Final = 4096 - 1
"""Of a checksum, what tells the part: a power of two less one, and fine enough for their sizes."""

_BOUNDS: Final = [43 * part + 21 * part * part // PARTS for part in range(PARTS + 1)]
"""From 43 to 85 places wide, in integers: they must be the same on every machine."""
_PARTS: Final = bytes(part for part in range(PARTS) for _ in range(*_BOUNDS[part : part + 2]))
"""By what is left of the checksum, the number of the part."""
_Record = TypeVar("_Record")
_Default = TypeVar("_Default")


def part_of(name: str) -> int:
    """The number of the part in which a name lies; not by `hash`, which processes disagree on."""
    return _PARTS[crc32(name.encode()) & _MASK]


class Table(MutableMapping[str, _Record]):
    """A `dict` in parts: for look-ups it takes 0.2 us more."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: tuple[dict[str, _Record], ...] = tuple({} for _ in range(PARTS))
        """For reading one at a time."""

    # The place is worked out in each of these: a call would double what they take.

    def __getitem__(self, name: str) -> _Record:
        return self.parts[_PARTS[crc32(name.encode()) & _MASK]][name]

    def __setitem__(self, name: str, record: _Record) -> None:
        self.parts[_PARTS[crc32(name.encode()) & _MASK]][name] = record

    def __delitem__(self, name: str) -> None:
        part = self.parts[part_of(name)]
        del part[name]
        if not part:
            part.clear()  # an emptied dict keeps its memory: 40 MB of a million names

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.parts[_PARTS[crc32(name.encode()) & _MASK]]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __bool__(self) -> bool:
        return any(self.parts)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.parts)

    @overload
    def get(self, name: str) -> _Record | None: ...

    @overload
    def get(self, name: str, default: _Record | _Default) -> _Record | _Default: ...

    def get(self, name: str, default: object = None) -> object:
        """The record of this name, or the default."""
        return self.parts[_PARTS[crc32(name.encode()) & _MASK]].get(name, default)

    def values(self) -> ValuesView[_Record]:
        """All records, in the order of the names."""
        return _Values(self)

    def items(self) -> ItemsView[str, _Record]:
        """All names with their records."""
        return _Items(self)


class _Values(ValuesView[_Record]):
    """Read part by part, without a look-up for each."""

    __slots__ = ()
    _mapping: Table[_Record]

    def __iter__(self) -> Iterator[_Record]:
        return chain.from_iterable(part.values() for part in self._mapping.parts)


class _Items(ItemsView[str, _Record]):
    """As values are."""

    __slots__ = ()
    _mapping: Table[_Record]

    def __iter__(self) -> Iterator[tuple[str, _Record]]:
        return chain.from_iterable(part.items() for part in self._mapping.parts)


_Key = TypeVar("_Key")


def merge(table: dict[_Key, _Record], changed: Mapping[_Key, _Record | None]) -> None:
    """Write what changed into a plain table; None takes a record out."""
    for key, value in changed.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
