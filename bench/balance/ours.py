"""This project's planner under the same roof as the other rules.

Decides only how a fleet is put before the planner and its moves carried out: one cycle is one
pass of the leader, with the same budget as everybody's.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from bench.balance.fleet import Fleet, executor_name, executor_number
from bench.balance.rules import budget_of
from coordinator.core.planner import Hold, Piece, Plan, Seat, Stop, level_idle, settle

LEVELS: Final = {"default": (0.20, 0.10), "level": (0.20, 0.05), "tight": (0.006325, 0.006325)}
"""Start and stop gap: the policy's own default, and two that an operator may set. The tight one
is the gap of a price of 2e-5 and has no gate: it is for measuring what can be reached."""


@dataclass(slots=True)
class Ours:
    """Passes of the planner."""

    start_gap: float
    stop_gap: float
    quiet_mark: float | None = None
    is_descending: bool = False
    last: Plan | None = None

    def cycle(self, fleet: Fleet, held: Collection[str]) -> list[str]:
        seats = [Seat(executor_name(at)) for at in range(len(fleet))]
        pieces = {
            executor_name(at): [
                Piece(key, load, Hold.COOLDOWN if key in held else None) for load, key in shelf
            ]
            for at, shelf in enumerate(fleet.shelves)
        }
        budget = budget_of(len(fleet.where))
        plan = settle(
            seats,
            pieces,
            start_gap=self.stop_gap if self.is_descending else self.start_gap,
            stop_gap=self.stop_gap,
            budget=budget,
            quiet_mark=self.quiet_mark,
        )
        self.last = plan
        self.is_descending = plan.stop is Stop.BUDGET
        moves = plan.moves
        if not moves and plan.stop is not Stop.BUDGET:
            moves = level_idle(seats, pieces, stop_gap=self.stop_gap, budget=budget)
        for move in moves:
            fleet.move(move.key, executor_number(move.target))
        return [move.key for move in moves]
