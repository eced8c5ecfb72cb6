"""One case of the comparison: a snapshot, a start, a number of executors; a row per method.

Decides what is measured of each method. Must not judge: bars are in `verdict`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from bench.balance import solver
from bench.balance.fleet import Fleet, Tally
from bench.balance.ours import LEVELS, Ours
from bench.balance.rules import Mergify, Rule, Uber, run
from bench.balance.snapshots import Snapshot
from bench.balance.starts import STARTS
from coordinator.core.planner import waterfill

NEAR: Final = 1.05
"""Moves are also counted up to the moment when the hottest is within this of the bound."""

METHODS: Final = ("hash", "uber", "uber_unguarded", "mergify", "ours", "solver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one method made of one case."""

    snapshot: str
    start: str
    executors: int
    method: str
    shards: int
    level: str
    is_heldout: bool
    spread: float
    bound: float
    """The least spread that any placement could have."""
    max_over_mean: float
    max_bound: float
    """The least `max_over_mean` that any placement could have."""
    moves: int
    moved_load: float
    """As a share of all load."""
    moves_to_near: int | None
    """Moves until the hottest is within 5 % of its bound; None if it never is."""
    moves_to_near_proven: int | None = None
    """Of the solver: nobody gets there with fewer."""
    cycles: int
    seconds: float

    @property
    def excess(self) -> float:
        """Spread above the bound."""
        return self.spread - self.bound


@dataclass(frozen=True, slots=True)
class Asked:
    """Which cases, and how."""

    level: str
    starts: tuple[str, ...]
    methods: tuple[str, ...]
    solver_seconds: float = 0.0


def rows_of(
    snapshot: Snapshot, count: int, asked: Asked, *, is_heldout: bool = False
) -> Iterator[Row]:
    """Every asked method from every asked start."""
    for start in asked.starts:
        fleet = STARTS[start](snapshot, count)
        case = _Case(
            Snapshot(snapshot.name, fleet.loads), start, fleet, asked, is_heldout=is_heldout
        )
        yield from case.rows()


class _Case:
    """One fleet to begin with."""

    def __init__(
        self, snapshot: Snapshot, start: str, fleet: Fleet, asked: Asked, *, is_heldout: bool
    ) -> None:
        self._snapshot = snapshot
        self._start = start
        self._fleet = fleet
        self._asked = asked
        self._is_heldout = is_heldout
        self._total = snapshot.total
        self._bound = waterfill(snapshot.loads, len(fleet))

    def rows(self) -> Iterator[Row]:
        """`hash` is the start itself: nobody does anything."""
        rules: Mapping[str, Callable[[], Rule]] = {
            "uber": Uber,
            "uber_unguarded": lambda: Uber(is_guarded=False),
            "mergify": Mergify,
            "ours": lambda: Ours(*LEVELS[self._asked.level]),
        }
        for method in self._asked.methods:
            if method == "hash":
                yield self._row(method, self._marked())
            elif method in rules:
                fleet = self._marked()
                run(rules[method](), fleet)
                yield self._row(method, fleet)
            elif self._asked.solver_seconds > 0.0 and len(self._fleet.where) <= solver.SHARDS_MAX:
                yield self._solved()

    def _marked(self) -> Fleet:
        fleet = self._fleet.copy()
        fleet.tally.mark = self._bound.max * NEAR
        if max(fleet.totals) <= fleet.tally.mark:
            fleet.tally.moves_to_mark = 0
        return fleet

    def _solved(self) -> Row:
        """Half of the time for the level, half for the moves."""
        seconds = self._asked.solver_seconds / 2.0
        hint = self._fleet.copy()
        run(Ours(*LEVELS["tight"]), hint)
        began = perf_counter()
        placed = solver.most_level(self._fleet, hint.where, seconds)
        least = solver.fewest_moves(self._fleet, self._bound.max * NEAR, seconds)
        fleet = Fleet(self._fleet.loads, placed, len(self._fleet))
        moved = [key for key, at in placed.items() if at != self._fleet.where[key]]
        fleet.tally = Tally(
            moves=len(moved),
            load=sum(self._fleet.loads[key] for key in moved),
            seconds=perf_counter() - began,
            moves_to_mark=least.found,
        )
        return replace(self._row("solver", fleet), moves_to_near_proven=least.proven)

    def _row(self, method: str, fleet: Fleet) -> Row:
        figures, tally = fleet.figures(), fleet.tally
        mean = figures.mean or 1.0
        return Row(
            snapshot=self._snapshot.name,
            start=self._start,
            executors=len(fleet),
            method=method,
            shards=len(fleet.where),
            level=self._asked.level,
            is_heldout=self._is_heldout,
            spread=figures.spread,
            bound=self._bound.spread,
            max_over_mean=figures.max_over_mean,
            max_bound=self._bound.max / mean,
            moves=tally.moves,
            moved_load=tally.load / (self._total or 1.0),
            moves_to_near=tally.moves_to_mark,
            cycles=tally.cycles,
            seconds=tally.seconds,
        )
