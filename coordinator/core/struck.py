"""The shards that have strikes, counted as they change.

Decides nothing; it answers what those ask who judge (`poison`, `controller/poison`). When a tenth
of a million shards lost its executors at once, each step of the leader looked at all of them for
the few that met more than the others, and took longer than an election. Whoever met one crash is
only counted; who met more is listed by their number. Must not know what a strike leads to.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Final, TypeVar

from coordinator.core.key_index import put_in, take_out
from coordinator.core.shard import Cause, Fate, Shard, ShardState
from coordinator.core.strikes import StrikeKind

AGAIN: Final = 2
"""From so many crashes on shards are listed. Nothing is ever asked of those that met fewer: no
threshold is below it, since one crash tells no shard from the others that were there."""


_Name = TypeVar("_Name", bound=Hashable)


def crashes_of(shard: Shard) -> int:
    """How many crashes a shard was present at."""
    return sum(strike.kind is StrikeKind.CRASH for strike in shard.strikes)


class Struck:
    """Keys of the shards with strikes, and what is asked of them."""

    __slots__ = (
        "_again",
        "_crashes",
        "_keys",
        "_met",
        "_met_waiting",
        "_owned",
        "_worst",
        "failed",
        "parked",
    )

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._owned: dict[str, dict[str, None]] = {}
        self._crashes: Counter[tuple[str, int]] = Counter()
        self._again: dict[int, dict[str, None]] = {}
        self._met: Counter[int] = Counter()
        self._met_waiting: Counter[int] = Counter()
        self._worst: Counter[int] = Counter()
        self.failed: dict[str, None] = {}
        """Those that wait for an owner since a start failed."""
        self.parked = 0
        """How many are parked."""

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struck):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    # -- asked ---------------------------------------------------------------------------

    def owned(self, executor: str) -> Mapping[str, None]:
        """Keys of those that the executor owns."""
        return self._owned.get(executor, {})

    def met(self, crashes: int) -> Mapping[str, None]:
        """Keys of those that met so many crashes: two at the least."""
        return self._again.get(crashes, {})

    def at_least(self, crashes: int) -> int:
        """How many met as many crashes, or more, and are to be run."""
        return sum(count for met, count in self._met.items() if met >= crashes)

    def suspected(self, threshold: int) -> int:
        """How many met as many crashes, or as many failed starts, and are to be run."""
        return sum(count for met, count in self._worst.items() if met >= threshold)

    @property
    def waiting(self) -> int:
        """How many are vacant."""
        return self._met_waiting.total()

    @property
    def most_waiting(self) -> int:
        """The most crashes that any vacant one met."""
        return max(self._met_waiting, default=0)

    @property
    def crashes(self) -> int:
        """How many crashes they tell of."""
        return len(self._crashes)

    def crashes_by_executor(self) -> Counter[str]:
        """How often each executor crashed, as they tell."""
        return Counter(executor for executor, _ in self._crashes)

    def tables(self) -> list[Mapping[str, object]]:
        """The tables that may be large."""
        return [self._keys, self.failed, *self._owned.values(), *self._again.values()]

    # -- told ----------------------------------------------------------------------------

    def add(self, shard: Shard) -> None:
        """A record is in force from now on."""
        if shard.strikes:
            self._keys[shard.key] = None
            self._count(shard, 1)

    def remove(self, shard: Shard) -> None:
        """A record that was added is no more."""
        if shard.strikes:
            del self._keys[shard.key]
            self._count(shard, -1)

    def _count(self, shard: Shard, by: int) -> None:
        marks, crashes = shard.marks, 0
        for strike in marks.strikes:
            if strike.kind is StrikeKind.CRASH:
                crashes += 1
                _change(self._crashes, (strike.executor, strike.at_ms), by)
        is_waiting = shard.state is ShardState.VACANT and marks.reserved is None
        if is_waiting:
            _change(self._met_waiting, crashes, by)
        if marks.fate is None:
            _change(self._met, crashes, by)
            _change(self._worst, max(crashes, len(marks.strikes) - crashes), by)
        elif marks.fate is Fate.PARKED:
            self.parked += by
        if shard.executor is not None:
            (put_in if by > 0 else take_out)(self._owned, shard.executor, shard.key)
        if crashes >= AGAIN:
            (put_in if by > 0 else take_out)(self._again, crashes, shard.key)
        if is_waiting and shard.cause is Cause.FAILED:
            if by > 0:
                self.failed[shard.key] = None
            else:
                del self.failed[shard.key]


def _change(counts: Counter[_Name], name: _Name, by: int) -> None:
    count = counts[name] + by
    if count:
        counts[name] = count
    else:
        del counts[name]
