"""This project's planner under the same roof as the other rules.

Decides only how a fleet is put before the planner and its moves carried out: one cycle is one
pass of the leader, with the same budget as everybody's.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from bench.balance.fleet import Fleet, executor_name, executor_number
from bench.balance.rules import budget_of
from coordinator.core.planner import Aims, Hold, Holdings, Plan, Seat, Stack, Stop, plan_pass

LEVELS: Final = {
    "default": (0.20, 0.10),
    "level": (0.20, 0.05),
    "tight": (0.006325, 0.006325),
    "calm": (0.45, 0.14),
}
"""Start and stop gap: the policy's own default, and others that an operator may set. The tight one
is the gap of a price of 2e-5 and has no gate: it is for measuring what can be reached. The calm one
is for loads that nobody can foresee (`configs/policies.toml`)."""


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
        holdings = Holdings(
            {
                executor_name(at): Stack.of([key for _, key in shelf], [load for load, _ in shelf])
                for at, shelf in enumerate(fleet.shelves)
            },
            holds=dict.fromkeys(held, Hold.COOLDOWN),
        )
        aims = Aims(
            start_gap=self.stop_gap if self.is_descending else self.start_gap,
            stop_gap=self.stop_gap,
            budget=budget_of(len(fleet.where)),
            quiet_mark=self.quiet_mark,
        )
        plan = plan_pass(seats, holdings, aims)
        self.last = plan
        self.is_descending = plan.stop is Stop.BUDGET
        for move in plan.moves:
            fleet.move(move.key, executor_number(move.target))
        return [move.key for move in plan.moves]
