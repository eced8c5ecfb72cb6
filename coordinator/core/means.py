"""Where the mean of every measured shard is kept: those of one report side by side.

Decides where a mean lies, nothing of what it is. A leader takes in hundreds of thousands of loads a
second, each a weighted sum, a weight and a time; an object for each of these lies anywhere in
memory, so that most of a fold was waiting for it, and the garbage collector walks through all of
them. So the shards that an executor reports lie in one run, in the order in which it names them:
numbers in arrays, written from one end to the other. Must not know where shards are placed.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import expm1, fsum, inf, log1p
from operator import truediv
from typing import Final

Mean = tuple[float, float, float]
"""Sum of past windows under exponential weights, the total of those weights, and when the last
window ended."""

_SHIFT: Final = 20
"""A place is one integer, run and index: a million of them cost no collection anything."""
RUN_MAX: Final = 1 << _SHIFT
"""Shards of one run, and more than a namespace has."""
_INDEX: Final = RUN_MAX - 1
LOOSE_MAX: Final = 1_024
"""Shards of a run that is made of single ones."""
LET_GO_MAX: Final = 4_096
"""Names forgotten at a time: half a millisecond."""
SPARSE: Final = 64
"""A run of fewer places than this is not worth packing."""


def weight_of(observed_s: float, horizon_s: float) -> float:
    """What a window, or all windows together, of that length weigh."""
    return -expm1(-observed_s / horizon_s)


def observed_s(weight: float, horizon_s: float) -> float:
    """A weight read backwards."""
    return inf if weight >= 1.0 else -horizon_s * log1p(-weight)


class Run:
    """Shards side by side. Those that were put elsewhere since have left their places empty."""

    __slots__ = (
        "_total",
        "ended",
        "even",
        "heard_at",
        "keys",
        "live",
        "number",
        "totals",
        "weights",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.keys: list[str] | tuple[str, ...] = ()
        self.totals = array("d")
        self.weights = array("d")
        self.ended = array("d")
        self.even: float | None = None
        """The weight of each, while all were measured alike."""
        self.heard_at = inf
        """No window of any of them ended before; it may have ended later."""
        self.live = 0
        self._total: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all of its shards still lie here."""
        return self.live == len(self.keys)

    @property
    def means(self) -> "array[float]":
        """The mean loads, beside the keys."""
        return array("d", map(truediv, self.totals, self.weights))

    @property
    def total(self) -> float:
        """The sum of the means, added up once: a leader asks for a thousand such at each step."""
        if self._total is None:
            even = self.even
            self._total = fsum(self.means) if even is None else fsum(self.totals) / even
        return self._total

    def touched(self) -> None:
        """Some numbers were written, and not those of all alike."""
        self.even = self._total = None

    def is_of(self, keys: tuple[str, ...]) -> bool:
        """Whether it holds just these shards, in this order."""
        return self.is_whole and self.keys == keys

    def fill(
        self, keys: tuple[str, ...], totals: list[float], weights: list[float], ended: float
    ) -> None:
        """All of its shards, which it is made of."""
        self.keys, self.live = keys, len(keys)
        self.totals, self.weights = array("d", totals), array("d", weights)
        self.ended = array("d", (ended,)) * len(keys)
        self.heard_at = ended
        if min(weights) == max(weights):
            self.even = weights[0]
        self._total = sum(map(truediv, totals, weights))

    def fold(self, loads: Iterable[float], kept: float, fresh: float, now: float) -> None:
        """A window of every shard, all of the same length."""
        totals = [
            total * kept + fresh * load for total, load in zip(self.totals, loads, strict=True)
        ]
        self.totals = array("d", totals)
        # Added up while they are at hand, which is as good as for nothing.
        if self.even is None:
            weights = [weight * kept + fresh for weight in self.weights]
            self.weights = array("d", weights)
            self._total = sum(map(truediv, totals, weights))
        else:
            self.even = self.even * kept + fresh
            self.weights = array("d", (self.even,)) * len(self.keys)
            self._total = sum(totals) / self.even
        self.ended = array("d", (now,)) * len(self.keys)
        self.heard_at = now

    def append(self, key: str, mean: Mean) -> None:
        """Another shard, behind the others."""
        if isinstance(self.keys, tuple):
            self.keys = [*self.keys]
        self.keys.append(key)
        self.totals.append(mean[0])
        self.weights.append(mean[1])
        self.ended.append(mean[2])
        self.heard_at = min(self.heard_at, mean[2])
        self.live += 1
        self._total = None

    def seal(self) -> None:
        """No more are to be appended, for now.

        The garbage collector looks once at a tuple of names, and at those in a list each time: of
        a million shards that alone took a tenth of a second.
        """
        self.keys = tuple(self.keys)


class MeanTable:
    """Shard key -> mean."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._runs: dict[int, Run] = {}
        self._loose: Run | None = None
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def let_go(self) -> Iterator[None]:
        """Forget everything, some thousand names at a time: nobody asks any more."""
        while self._places:
            for _ in range(min(LET_GO_MAX, len(self._places))):
                self._places.popitem()
            yield
        self._loose = None
        while self._runs:
            self._runs.popitem()
            yield

    def runs(self) -> Iterable[Run]:
        """All runs."""
        return self._runs.values()

    @property
    def room(self) -> int:
        """Places there are, empty ones included."""
        return sum(len(run.keys) for run in self._runs.values())

    def get(self, key: str) -> Mean | None:
        """A shard's mean; None while it was never measured."""
        place = self._places.get(key)
        if place is None:
            return None
        run, at = self._runs[place >> _SHIFT], place & _INDEX
        return run.totals[at], run.weights[at], run.ended[at]

    def put(self, key: str, mean: Mean) -> None:
        """Write a shard's mean where it lies."""
        place = self._places.get(key)
        if place is not None:
            run, at = self._runs[place >> _SHIFT], place & _INDEX
            run.totals[at], run.weights[at], run.ended[at] = mean
            run.heard_at = min(run.heard_at, mean[2])
            run.touched()
            return
        if self._loose is None or len(self._loose.keys) >= LOOSE_MAX:
            if self._loose is not None:
                self._loose.seal()
            self._loose = self._new()
        self._append(self._loose, key, mean)

    def remove(self, key: str) -> None:
        """The shard is no more."""
        place = self._places.pop(key, None)
        if place is not None:
            self._shrink(self._runs[place >> _SHIFT], 1)

    def lay(
        self, keys: tuple[str, ...], totals: list[float], weights: list[float], ended: float
    ) -> Run:
        """Write the means of these shards, side by side from now on."""
        run = self._new()
        former: dict[int, int] = {}
        places = self._places
        for key in keys:
            place = places.get(key)
            if place is not None:
                number = place >> _SHIFT
                former[number] = former.get(number, 0) + 1
        run.fill(keys, totals, weights, ended)
        first = run.number << _SHIFT
        places.update(zip(keys, range(first, first + len(keys)), strict=True))
        for number, count in former.items():
            self._shrink(self._runs[number], count)
        return run

    def means_of(self, keys: Sequence[str]) -> list[float] | None:
        """The mean loads of these shards, in their order; None if one was never measured."""
        places = self._places_of(keys)
        return None if places is None else self._means_at(places)

    def look_up(self, keys: Sequence[str], oldest: float) -> tuple[list[float], int] | None:
        """The mean loads, and how many have a window that ended at or after that time."""
        places = self._places_of(keys)
        if places is None:
            return None
        run = self._only(places)
        if run is not None and run.heard_at >= oldest:
            return self._means_at(places), len(places)
        return self._means_at(places), self._heard_at(places, oldest)

    def heard_since(self, keys: Iterable[str], oldest: float) -> int:
        """How many of these shards have a window that ended at or after that time."""
        places = self._places
        return self._heard_at([places[key] for key in keys if key in places], oldest)

    def _places_of(self, keys: Sequence[str]) -> list[int] | None:
        places = self._places
        try:
            return [places[key] for key in keys]
        except KeyError:
            return None

    def _means_at(self, places: Sequence[int]) -> list[float]:
        run = self._only(places)
        if run is not None:
            first = run.number << _SHIFT
            means = [total / weight for total, weight in zip(run.totals, run.weights, strict=True)]
            return [means[place - first] for place in places]
        runs, found = self._runs, []
        for place in places:
            run = runs[place >> _SHIFT]
            found.append(run.totals[place & _INDEX] / run.weights[place & _INDEX])
        return found

    def _heard_at(self, places: Sequence[int], oldest: float) -> int:
        runs, count = self._runs, 0
        are_fresh: dict[int, bool] = {}  # nearly always all of a run were heard a moment ago
        for place in places:
            number = place >> _SHIFT
            is_fresh = are_fresh.get(number)
            if is_fresh is None:
                is_fresh = are_fresh[number] = runs[number].heard_at >= oldest
            if is_fresh or runs[number].ended[place & _INDEX] >= oldest:
                count += 1
        return count

    def rescale(self, horizon_s: float, former_s: float) -> None:
        """Keep means and observed times under another horizon."""
        for run in self._runs.values():
            for at, (total, weight) in enumerate(zip(run.totals, run.weights, strict=True)):
                fresh = weight_of(observed_s(weight, former_s), horizon_s)
                run.totals[at], run.weights[at] = total / weight * fresh, fresh
            run.touched()

    def _only(self, places: Sequence[int]) -> Run | None:
        """The run in which all of these lie, when little else lies there."""
        if not places:
            return None
        number = places[0] >> _SHIFT
        run = self._runs[number]
        is_only = min(places) >> _SHIFT == number == max(places) >> _SHIFT
        return run if is_only and len(run.keys) <= 2 * len(places) else None

    def _new(self) -> Run:
        self._numbers += 1
        run = self._runs[self._numbers] = Run(self._numbers)
        return run

    def _append(self, run: Run, key: str, mean: Mean) -> None:
        self._places[key] = run.number << _SHIFT | len(run.keys)
        run.append(key, mean)

    def _shrink(self, run: Run, count: int) -> None:
        """So many shards of a run are elsewhere. Half of it may be empty, not more."""
        run.live -= count
        if run.live and (len(run.keys) < SPARSE or run.live * 2 >= len(run.keys)):
            return
        del self._runs[run.number]
        if run is self._loose:
            self._loose = None
        if run.live:
            packed = self._new()
            for at, key in enumerate(run.keys):
                if self._places.get(key) == run.number << _SHIFT | at:
                    self._append(packed, key, (run.totals[at], run.weights[at], run.ended[at]))
            packed.seal()
            run.live = 0  # whoever still holds it sees that it is not whole
