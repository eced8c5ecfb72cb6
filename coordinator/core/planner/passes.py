"""One balancing pass: steps that pay by load, else idle shards that pile up.

Decides only which of the two a pass does: never both, since the second would be planned on a
picture that the first is about to change.
"""

from collections.abc import Iterable
from dataclasses import replace

from coordinator.core.planner.idle import levelling_idle
from coordinator.core.planner.records import Aims, Holdings, Plan, Seat, Stop
from coordinator.core.planner.settle import settling
from coordinator.core.planner.slices import Slices, finished


def plan_pass(seats: Iterable[Seat], holdings: Holdings, aims: Aims) -> Plan:
    """The whole pass at once."""
    return finished(planning(seats, holdings, aims))


def planning(seats: Iterable[Seat], holdings: Holdings, aims: Aims) -> Slices[Plan]:
    """The pass in slices."""
    seats = tuple(seats)
    plan = yield from settling(seats, holdings, aims)
    if plan.moves or plan.stop in (Stop.BUDGET, Stop.NO_EXECUTORS):
        return plan
    idle = yield from levelling_idle(seats, holdings, aims)
    return replace(plan, moves=idle) if idle else plan
