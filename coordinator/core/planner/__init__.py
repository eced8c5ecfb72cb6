"""Where shards should be: vacancies by load, balance by a descent that pays for its churn.

Pure functions of frozen records; nothing here knows of replication, leases, time or chance.
"""

from coordinator.core.planner.bound import best_possible, waterfill
from coordinator.core.planner.budget import MoveBudget
from coordinator.core.planner.figures import fleet_figures
from coordinator.core.planner.idle import level_idle
from coordinator.core.planner.passes import plan_pass, planning
from coordinator.core.planner.place import hash_place, place
from coordinator.core.planner.records import (
    Aims,
    Blocked,
    BlockedReason,
    Bound,
    Dominant,
    FleetFigures,
    Hold,
    Holdings,
    Move,
    MoveReason,
    Piece,
    Placement,
    Placements,
    Plan,
    Ramp,
    Seat,
    Stack,
    Stop,
)
from coordinator.core.planner.settle import settle
from coordinator.core.planner.slices import Slices, finished
from coordinator.core.planner.verdicts import Court, Rejection, Rule, rejected
from coordinator.core.planner.whatif import Outlook, Scene
from coordinator.core.planner.yardstick import Yardstick, measuring, yardstick

__all__ = [
    "Aims",
    "Blocked",
    "BlockedReason",
    "Bound",
    "Court",
    "Dominant",
    "FleetFigures",
    "Hold",
    "Holdings",
    "Move",
    "MoveBudget",
    "MoveReason",
    "Outlook",
    "Piece",
    "Placement",
    "Placements",
    "Plan",
    "Ramp",
    "Rejection",
    "Rule",
    "Scene",
    "Seat",
    "Slices",
    "Stack",
    "Stop",
    "Yardstick",
    "best_possible",
    "finished",
    "fleet_figures",
    "hash_place",
    "level_idle",
    "measuring",
    "place",
    "plan_pass",
    "planning",
    "rejected",
    "settle",
    "waterfill",
    "yardstick",
]
