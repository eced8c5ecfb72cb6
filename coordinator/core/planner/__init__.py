"""Where shards should be: vacancies by load, balance by a descent that pays for its churn.

Pure functions of frozen records; nothing here knows of replication, leases, time or chance.
"""

from coordinator.core.planner.budget import MoveBudget
from coordinator.core.planner.figures import best_possible, fleet_figures, waterfill
from coordinator.core.planner.idle import level_idle
from coordinator.core.planner.place import hash_place, place
from coordinator.core.planner.records import (
    Blocked,
    BlockedReason,
    Bound,
    Dominant,
    FleetFigures,
    Hold,
    Move,
    MoveReason,
    Piece,
    Placement,
    Placements,
    Plan,
    Ramp,
    Seat,
    Stop,
)
from coordinator.core.planner.settle import settle

__all__ = [
    "Blocked",
    "BlockedReason",
    "Bound",
    "Dominant",
    "FleetFigures",
    "Hold",
    "Move",
    "MoveBudget",
    "MoveReason",
    "Piece",
    "Placement",
    "Placements",
    "Plan",
    "Ramp",
    "Seat",
    "Stop",
    "best_possible",
    "fleet_figures",
    "hash_place",
    "level_idle",
    "place",
    "settle",
    "waterfill",
]
