"""What a constraint solver finds, where OR-tools is installed (`pip install '.[bench]'`).

Decides two questions within a stated time: how level the fleet can be, and with how few moves its
hottest executor can be brought near the bound. The first starts from the planner's own answer, so
that the time goes into beating it. Must not know the rules under comparison.

The solver counts in integers. Loads are rounded to units of one 20,000th of a mean executor, and
down where the fewest moves are asked for: so what it proves there holds for the true loads too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import floor
from typing import Any, Final

from bench.balance.fleet import Fleet

SHARDS_MAX: Final = 2_000
"""A variable for each shard on each executor: beyond this the time limit is spent on reading."""
UNITS_PER_MEAN: Final = 20_000
WORKERS: Final = 2


@dataclass(frozen=True, slots=True)
class FewestMoves:
    """Moves that bring the hottest executor under a mark."""

    found: int | None
    proven: int
    """Nobody can do it with fewer."""


def is_installed() -> bool:
    """Whether OR-tools can be imported."""
    return find_spec("ortools") is not None


def most_level(start: Fleet, hint: Mapping[str, int], seconds: float) -> dict[str, int]:
    """The placement with the least sum of squares that it finds, beginning at `hint`.

    Squares are what spread is made of. They are handed over as distances from the mean, whose
    range is small, and as the hint is a placement there always is an answer.
    """
    cp_model: Any = import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    units = _units(start, round_down=False)
    at = _placements(model, start)
    mean = round(sum(units.values()) / len(start))
    squares = []
    for executor in range(len(start)):
        load = sum(units[key] * at[key][executor] for key in at)
        hinted = sum(units[key] for key in at if hint[key] == executor) - mean
        ends = (-mean, sum(units.values()) - mean)
        apart = model.new_int_var(*ends, "")
        square = model.new_int_var(0, max(end * end for end in ends), "")
        model.add(apart == load - mean)
        model.add_multiplication_equality(square, [apart, apart])
        model.add_hint(apart, hinted)
        model.add_hint(square, hinted * hinted)
        squares.append(square)
    for key, executor in hint.items():
        if key in at:
            for one, taken in enumerate(at[key]):
                model.add_hint(taken, one == executor)
    model.minimize(sum(squares))
    solver = _solver(cp_model, seconds)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return dict(hint)
    found = {
        key: next(one for one, taken in enumerate(row) if solver.value(taken))
        for key, row in at.items()
    }
    placed = {**hint, **found}
    # Rounding and a hint that was not taken up in time: the answer is the better of the two.
    return min(placed, dict(hint), key=lambda one: _unevenness(start, one))


def fewest_moves(start: Fleet, mark: float, seconds: float) -> FewestMoves:
    """How few moves bring every executor to at most `mark`."""
    cp_model: Any = import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    units = _units(start, round_down=True)
    at = _placements(model, start)
    most = floor(mark / start.mean * UNITS_PER_MEAN)
    for executor in range(len(start)):
        model.add(sum(units[key] * at[key][executor] for key in at) <= most)
    model.minimize(sum(1 - row[start.where[key]] for key, row in at.items()))
    solver = _solver(cp_model, seconds)
    status = solver.solve(model)
    is_found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    proven = max(0, round(solver.best_objective_bound)) if status != cp_model.INFEASIBLE else 0
    return FewestMoves(round(solver.objective_value) if is_found else None, proven)


def _unevenness(start: Fleet, placed: Mapping[str, int]) -> float:
    return Fleet(start.loads, placed, len(start)).figures().spread


def _units(start: Fleet, *, round_down: bool) -> dict[str, int]:
    per_unit = start.mean / UNITS_PER_MEAN
    whole = floor if round_down else round
    return {key: whole(load / per_unit) for key, load in start.loads.items()}


def _placements(model: Any, start: Fleet) -> dict[str, list[Any]]:
    """A yes or no for each shard on each executor; shards of no weight stay where they are."""
    at = {}
    for key, load in start.loads.items():
        if load > 0.0:
            at[key] = [model.new_bool_var("") for _ in range(len(start))]
            model.add_exactly_one(at[key])
    return at


def _solver(cp_model: Any, seconds: float) -> Any:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = WORKERS
    return solver
