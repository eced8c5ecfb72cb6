"""Two published balancing rules, written anew from their descriptions, as good as they say.

Each decides one cycle at a time, as its authors run it, on the same fleet as the planner. What a
description leaves open is decided in its favour and said here. Must not know the planner.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import Final, Protocol

from bench.balance.fleet import Fleet


class Rule(Protocol):
    """Something that moves shards in cycles."""

    def cycle(self, fleet: Fleet, held: Collection[str]) -> list[str]:
        """Move shards that are not held; the keys of those that were moved."""
        ...


CYCLES_MAX: Final = 20_000
"""A method that has not come to rest by then never will: that is an error, not a figure."""


def run(rule: Rule, fleet: Fleet) -> None:
    """Cycle after cycle until one moves nothing; the time is the method's own."""
    began = perf_counter()
    while rule.cycle(fleet, ()):
        fleet.tally.cycles += 1
        if fleet.tally.cycles > CYCLES_MAX:
            raise RuntimeError(f"{rule} does not come to rest")
    fleet.tally.seconds = perf_counter() - began


def budget_of(shards: int) -> int:
    """Moves in a cycle: one in a hundred shards, and two at least so that swaps are possible."""
    return max(2, ceil(shards / 100))


@dataclass(slots=True)
class Uber:
    """Cadence's shard manager: bands around the mean, from a hot host to the coldest one.

    Left open: what happens while some host is hot and none is cold. As in Cadence's published
    code, any host may then receive once the hottest is 1.3 times the mean. `is_guarded` keeps a
    move from making the cold host hot; the description has that rule, the published code has not.
    """

    upper: float = 1.15
    lower: float = 0.90
    severe: float = 1.30
    is_guarded: bool = True

    def cycle(self, fleet: Fleet, held: Collection[str]) -> list[str]:
        budget = max(1, ceil(len(fleet.where) / 100))
        moved: list[str] = []
        resting = set(held)
        while len(moved) < budget:
            key = self._next(fleet, resting)
            if key is None:
                break
            resting.add(key)
            moved.append(key)
        return moved

    def _next(self, fleet: Fleet, resting: Collection[str]) -> str | None:
        totals, mean = fleet.totals, fleet.mean
        hot = [at for at, load in enumerate(totals) if load > self.upper * mean]
        coldest = min(range(len(totals)), key=totals.__getitem__)
        if totals[coldest] >= self.lower * mean and max(totals) < self.severe * mean:
            return None
        for source in sorted(hot, key=lambda at: (-totals[at], at)):
            key = self._pick(fleet, source, coldest, mean, resting)
            if key is not None:
                fleet.move(key, coldest)
                return key
        return None

    def _pick(
        self, fleet: Fleet, source: int, target: int, mean: float, resting: Collection[str]
    ) -> str | None:
        """The shard that brings the two closest together, if any does."""
        apart = fleet.totals[source] - fleet.totals[target]
        room = self.upper * mean - fleet.totals[target] if self.is_guarded else apart
        ideal = min(apart / 2.0, room)
        fitting = [
            (load * (apart - load), key)
            for load, key in fleet.nearest(source, ideal, resting)
            if 0.0 < load < apart and load <= room
        ]
        return max(fitting)[1] if fitting else None


@dataclass(slots=True)
class Mergify:
    """Mergify's balancer: above a high mark a process is relieved until it is under a low one.

    Marks are shares of the mean here, unless `mean` fixes what they are shares of. Left open:
    which tenant is moved. It is the one after which the worse of source and destination is
    lowest; and a process that cannot be relieved does not keep the next from being relieved.
    """

    high: float = 1.25
    low: float = 1.10
    improvement: float = 0.035
    mean: float | None = None
    moves_max: int = 2
    relieving: set[int] = field(default_factory=set)

    def cycle(self, fleet: Fleet, held: Collection[str]) -> list[str]:
        mean = fleet.mean if self.mean is None else self.mean
        totals = fleet.totals
        self.relieving |= {at for at, load in enumerate(totals) if load > self.high * mean}
        moved: list[str] = []
        resting = set(held)
        while len(moved) < self.moves_max:
            self.relieving -= {at for at in self.relieving if totals[at] <= self.low * mean}
            key = self._next(fleet, mean, resting)
            if key is None:
                break
            resting.add(key)
            moved.append(key)
        return moved

    def _next(self, fleet: Fleet, mean: float, resting: Collection[str]) -> str | None:
        totals = fleet.totals
        coldest = min(range(len(totals)), key=totals.__getitem__)
        for source in sorted(self.relieving, key=lambda at: (-totals[at], at)):
            ideal = (totals[source] - totals[coldest]) / 2.0
            found = [
                (max(totals[source] - load, totals[coldest] + load), key)
                for load, key in fleet.nearest(source, ideal, resting)
            ]
            if found:
                worst, key = min(found)
                if worst <= totals[source] - self.improvement * mean:
                    fleet.move(key, coldest)
                    return key
        return None
