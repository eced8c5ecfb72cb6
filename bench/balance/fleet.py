"""A fleet that the rules under comparison work on: who holds what, and what was moved.

Decides nothing about balance. Executors are numbered; each one's shards are kept in order of load,
so that every rule finds the shard that it wants by bisection, however many there are.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import fsum

from coordinator.core.planner import FleetFigures, fleet_figures

Shelf = list[tuple[float, str]]
"""Load and key of one executor's shards, lightest first."""


@dataclass(slots=True)
class Tally:
    """What a method cost so far."""

    moves: int = 0
    load: float = 0.0
    cycles: int = 0
    seconds: float = 0.0
    mark: float = 0.0
    """A load to bring the hottest executor down to."""
    moves_to_mark: int | None = None
    """Moves after which it was; None while it is not."""


class Fleet:
    """Executors 0 to n - 1 of equal capacity."""

    def __init__(self, loads: Mapping[str, float], where: Mapping[str, int], count: int) -> None:
        """`where` has the executor of every shard."""
        self.loads = loads
        self.where = dict(where)
        self.shelves: list[Shelf] = [[] for _ in range(count)]
        for key, at in self.where.items():
            self.shelves[at].append((loads[key], key))
        for shelf in self.shelves:
            shelf.sort()
        self.totals = [fsum(load for load, _ in shelf) for shelf in self.shelves]
        self.tally = Tally()

    def __len__(self) -> int:
        return len(self.totals)

    @property
    def mean(self) -> float:
        """Load of a mean executor."""
        return fsum(self.totals) / len(self.totals)

    def move(self, key: str, target: int) -> None:
        """One shard to another executor."""
        source, load = self.where[key], self.loads[key]
        del self.shelves[source][bisect_left(self.shelves[source], (load, key))]
        insort(self.shelves[target], (load, key))
        self.totals[source] -= load
        self.totals[target] += load
        self.where[key] = target
        tally = self.tally
        tally.moves += 1
        tally.load += load
        if tally.moves_to_mark is None and max(self.totals) <= tally.mark:
            tally.moves_to_mark = tally.moves

    def nearest(
        self, source: int, ideal: float, held: Collection[str]
    ) -> Iterator[tuple[float, str]]:
        """The heaviest free shard up to `ideal`, and the lightest one above it, if there are."""
        shelf = self.shelves[source]
        middle = bisect_left(shelf, (ideal, "\U0010ffff"))
        for side in (range(middle - 1, -1, -1), range(middle, len(shelf))):
            for at in side:
                if shelf[at][1] not in held:
                    yield shelf[at]
                    break

    def figures(self) -> FleetFigures:
        """How even it is, summed anew."""
        exact = {
            executor_name(at): fsum(load for load, _ in shelf)
            for at, shelf in enumerate(self.shelves)
        }
        return fleet_figures(exact, {})

    def copy(self) -> "Fleet":
        """The same state, with nothing moved yet."""
        return Fleet(self.loads, self.where, len(self.totals))


def executor_name(at: int) -> str:
    """Of an executor, in the order of its number."""
    return f"e{at:06d}"


def executor_number(name: str) -> int:
    """The number behind a name."""
    return int(name[1:])
