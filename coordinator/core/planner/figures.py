"""How even a fleet is, and how even it could be.

Decides the figures that are shown beside every plan. Must not know of moves: it reads loads and
capacities. Everything is summed exactly (`math.fsum`), so no figure depends on the order of input.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import chain
from math import fsum, inf, sqrt

from coordinator.core.planner.records import Bound, Dominant, FleetFigures

# A shard counts as heavier than the level only by more than rounding: n equal shards on n
# executors must not look like n dominant ones.
_ROUNDING = 1e-12


def fleet_figures(loads: Mapping[str, float], capacities: Mapping[str, float]) -> FleetFigures:
    """Figures of the executors in `loads`; a capacity that is not given is 1."""
    if not loads:
        return FleetFigures("", 0.0, "", 0.0, 0.0, 0.0, 0.0)
    room = {executor: capacities.get(executor, 1.0) for executor in loads}
    total = fsum(loads.values())
    room_total = fsum(room.values())
    mean = total / room_total
    heat = sorted((load / room[executor], executor) for executor, load in loads.items())
    coldest, hottest = heat[0], heat[-1]
    square = fsum(room[executor] * (at - mean) ** 2 for at, executor in heat)
    return FleetFigures(
        hottest=hottest[1],
        hottest_utilisation=hottest[0],
        coldest=coldest[1],
        coldest_utilisation=coldest[0],
        mean=mean,
        spread=sqrt(square / room_total) / mean if mean > 0.0 else 0.0,
        total=total,
    )


def waterfill(loads: Mapping[str, float], executors: int) -> Bound:
    """Lower bounds for spread and maximum on `executors` of equal capacity 1.

    Each dominant shard has an executor to itself and the rest is spread like water. The loads of
    any placement majorise that vector, so neither figure can be beaten.
    """
    return best_possible(loads, [1.0] * executors)


def best_possible(loads: Mapping[str, float], capacities: Iterable[float]) -> Bound:
    """Lower bounds for the capacity-weighted spread and the highest utilisation.

    Equal capacities: the water-fill bound, which is sharp. Otherwise a weaker one: the k heaviest
    shards lie on at most k executors, whose capacity is at most that of the k largest. That much
    excess over the mean is somewhere, on so little capacity, for every k; the worst k is the bound.
    """
    figures, lightest = bound_figures(list(loads.values()), capacities)
    named = [Dominant(key, load) for key, load in loads.items() if load >= lightest]
    return with_dominant(figures, named)


def bound_figures(values: list[float], capacities: Iterable[float]) -> tuple[Bound, float]:
    """The bound without names, and the load of the lightest dominant shard (infinite: none)."""
    rooms = sorted(capacities, reverse=True)
    if not rooms or not values:
        return Bound(spread=0.0, max=0.0, level=0.0, dominant=()), inf
    even = rooms[0] == rooms[-1]
    return _even_bound(values, rooms) if even else _uneven_bound(values, rooms)


def with_dominant(figures: Bound, named: Iterable[Dominant]) -> Bound:
    """The bound with its dominant shards, heaviest first, ties by key."""
    return replace(figures, dominant=tuple(sorted(named, key=lambda one: (-one.load, one.key))))


def _even_bound(values: list[float], rooms: list[float]) -> tuple[Bound, float]:
    executors = len(rooms)
    total = fsum(values)
    heavy: list[float] = []
    level = total / executors
    while True:
        edge = level * (1.0 + _ROUNDING)
        found = [load for load in values if load > edge]
        if len(found) == len(heavy):
            break
        heavy = found
        # What is left under the water, without a rounded difference of two large sums.
        level = max(0.0, fsum(chain(values, [-load for load in heavy]))) / (executors - len(heavy))
    mean = total / executors
    square = fsum((load - mean) ** 2 for load in heavy)
    square += (executors - len(heavy)) * (level - mean) ** 2
    return Bound(
        spread=sqrt(square / executors) / mean if heavy else 0.0,
        max=max(heavy, default=level) / rooms[0],
        level=level / rooms[0],
        dominant=(),
    ), min(heavy, default=inf)


def _uneven_bound(values: list[float], rooms: list[float]) -> tuple[Bound, float]:
    total, room_total = fsum(values), fsum(rooms)
    mean = total / room_total
    heaviest = nlargest(len(rooms), values)
    top, square, load, room = mean, 0.0, 0.0, 0.0
    for shard, seat in zip(heaviest, rooms[:-1], strict=False):
        load, room = load + shard, room + seat
        excess = load - mean * room
        if excess > _ROUNDING * total:
            top = max(top, load / room)
            square = max(square, excess**2 * (1.0 / room + 1.0 / (room_total - room)))
    level, alone = _uneven_level(heaviest, rooms, total)
    return Bound(
        spread=sqrt(square / room_total) / mean if mean > 0.0 else 0.0,
        max=top,
        level=level,
        dominant=(),
    ), heaviest[alone - 1] if alone else inf


def _uneven_level(
    heaviest: Sequence[float], rooms: Sequence[float], total: float
) -> tuple[float, int]:
    """Utilisation left for the rest, and how many shards need the largest executors alone."""
    load, room = total, fsum(rooms)
    for alone, (shard, seat) in enumerate(zip(heaviest, rooms[:-1], strict=False)):
        if shard * room <= (load + _ROUNDING * total) * seat:
            return load / room, alone
        load, room = max(0.0, load - shard), room - seat
    return load / room, min(len(heaviest), len(rooms) - 1)
