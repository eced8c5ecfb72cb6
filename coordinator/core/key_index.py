"""Keys of shards under a name, such as those that an executor owns.

Decides that nobody who has none is listed. Must not know what the name stands for.
"""

from typing import TypeVar

_Name = TypeVar("_Name")


def put_in(index: dict[_Name, dict[str, None]], name: _Name, key: str) -> None:
    """List a key; one that is listed stays where it is."""
    index.setdefault(name, {})[key] = None


def take_out(index: dict[_Name, dict[str, None]], name: _Name, key: str) -> None:
    """List it no more; KeyError if it was not."""
    keys = index[name]
    del keys[key]
    if not keys:
        del index[name]
