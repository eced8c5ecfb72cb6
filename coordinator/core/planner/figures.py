"""How even a fleet is.

Decides the figures that are shown beside every plan. Must not know of moves: it reads loads and
capacities. Everything is summed exactly (`math.fsum`), so no figure depends on the order of input.
"""

from collections.abc import Mapping
from math import fsum, sqrt

from coordinator.core.planner.records import FleetFigures


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
