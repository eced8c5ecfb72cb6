"""How even a fleet is, and how even it could be.

Decides the figures that are shown beside every plan. Must not know of moves: it reads loads and
capacities. Everything is summed exactly (`math.fsum`), so no figure depends on the order of input.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from math import fsum, sqrt

from coordinator.core.planner.records import Bound, Dominant, FleetFigures

# A shard counts as heavier than the level only by more than rounding: n equal shards on n
# executors must not look like n dominant ones.
_ROUNDING = 1e-12

_NOTHING = Bound(spread=0.0, max=0.0, level=0.0, dominant=())


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
    if executors <= 0 or not loads:
        return _NOTHING
    level, heavy = _level(list(loads.values()), executors)
    if not heavy:
        return Bound(spread=0.0, max=level, level=level, dominant=())
    mean = fsum(loads.values()) / executors
    square = fsum((load - mean) ** 2 for load in heavy)
    square += (executors - len(heavy)) * (level - mean) ** 2
    return Bound(
        spread=sqrt(square / executors) / mean,
        max=max(heavy),
        level=level,
        dominant=_named(loads, min(heavy)),
    )


def best_possible(loads: Mapping[str, float], capacities: Iterable[float]) -> Bound:
    """Lower bounds for the capacity-weighted spread and the highest utilisation.

    Equal capacities: the water-fill bound, which is sharp. Otherwise a weaker one: the k heaviest
    shards lie on at most k executors, whose capacity is at most that of the k largest. That much
    excess over the mean is somewhere, on so little capacity, for every k; the worst k is the bound.
    """
    rooms = sorted(capacities, reverse=True)
    if not rooms or not loads:
        return _NOTHING
    if rooms[0] == rooms[-1]:
        filled = waterfill(loads, len(rooms))
        return Bound(filled.spread, filled.max / rooms[0], filled.level / rooms[0], filled.dominant)
    total, room_total = fsum(loads.values()), fsum(rooms)
    mean = total / room_total
    heaviest = nlargest(len(rooms), loads.values())
    top, square, load, room = mean, 0.0, 0.0, 0.0
    for shard, seat in zip(heaviest, rooms[:-1], strict=False):
        load, room = load + shard, room + seat
        excess = load - mean * room
        if excess > _ROUNDING * total:
            top = max(top, load / room)
            spare = room_total - room
            square = max(square, excess**2 * (1.0 / room + 1.0 / spare))
    level, alone = _uneven_level(heaviest, rooms, total)
    return Bound(
        spread=sqrt(square / room_total) / mean if mean > 0.0 else 0.0,
        max=top,
        level=level,
        dominant=_named(loads, heaviest[alone - 1]) if alone else (),
    )


def _level(values: list[float], executors: int) -> tuple[float, list[float]]:
    """The water level, and the loads of the shards that stick out of it."""
    heavy: list[float] = []
    level = fsum(values) / executors
    while True:
        edge = level * (1.0 + _ROUNDING)
        out = [load for load in values if load > edge]
        if not out:
            return level, heavy
        heavy += out
        values = [load for load in values if load <= edge]
        level = fsum(values) / (executors - len(heavy))


def _uneven_level(
    heaviest: Sequence[float], rooms: Sequence[float], total: float
) -> tuple[float, int]:
    """Utilisation left for the rest, and how many shards need the largest executors alone."""
    load, room = total, fsum(rooms)
    for alone, (shard, seat) in enumerate(zip(heaviest, rooms, strict=False)):
        if shard * room <= load * seat * (1.0 + _ROUNDING):
            return load / room, alone
        load, room = max(0.0, load - shard), room - seat
    return 0.0, min(len(heaviest), len(rooms))


def _named(loads: Mapping[str, float], lightest: float) -> tuple[Dominant, ...]:
    """The shards of at least that load, heaviest first, ties by key."""
    named = [Dominant(key, load) for key, load in loads.items() if load >= lightest]
    return tuple(sorted(named, key=lambda one: (-one.load, one.key)))
