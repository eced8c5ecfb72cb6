"""The order in which a plan looks for steps: hottest executor first, coldest targets first.

Decides which step comes next, and when there is none. An executor without a step above the floor
is retired, so that a descent does not try it over and over; before the search gives up, all are
tried once more, for what is coldest has changed meanwhile. Must not know of budgets or limits.
"""

from collections.abc import Generator

from coordinator.core.planner.board import Board
from coordinator.core.planner.records import Stop
from coordinator.core.planner.steps import Pricing, Step, best_step

Search = Generator[None, None, Step | Stop]
"""Looks for a step, and pauses after each executor that it tried."""


class Descent:
    """Finds steps on a board and applies them to it."""

    def __init__(self, board: Board, pricing: Pricing, quiet_mark: float | None) -> None:
        self.board = board
        self.pricing = pricing
        self._quiet_mark = quiet_mark
        self._retired: set[int] = set()
        self._waiting = list(board.sources)  # those that are not retired, in heat order
        board.rankings.append(self._waiting)
        self._is_outdated = False  # whether someone was retired before the latest step
        # A single move between executors `apart` gains at most apart^2 / (1/c + 1/c), and no pair
        # has a larger factor than two of the largest capacity.
        self._reach = max(board.capacities) / 2.0

    def most_to_gain(self) -> float:
        """What the best imaginable step of the hottest source could take off the potential."""
        return self.board.apart**2 * self._reach

    def next_step(self, floor: float, *, has_swaps: bool) -> Search:
        """A step that scores above `floor`, or why there is none."""
        found = yield from self._sweep(floor, has_swaps=has_swaps)
        if isinstance(found, Stop) and self._is_outdated:
            self.reconsider()
            found = yield from self._sweep(floor, has_swaps=has_swaps)
        return found

    def apply(self, step: Step) -> None:
        """Carry the step out on the board; its shards do not move again in this plan."""
        board = self.board
        board.move(step.piece.key, step.piece.load, step.source)
        if step.back is not None:
            board.move(step.back.key, step.back.load, step.target)
        board.shift(step.source, step.target, step.transfer)
        # Neither end can be retired: who is retired is hotter than all who are not.
        self._is_outdated = bool(self._retired)

    def reconsider(self) -> None:
        """Try everyone again: for another floor, or now with swaps."""
        self._retired.clear()
        self._waiting[:] = self.board.sources
        self._is_outdated = False

    def _sweep(self, floor: float, *, has_swaps: bool) -> Search:
        board = self.board
        coldest = board.targets[0][0]
        while self._waiting:
            heat, source = self._waiting[-1]
            if self._quiet_mark is not None and heat <= self._quiet_mark:
                return Stop.NOTHING_WORTH_IT if self._retired else Stop.QUIET
            if max(0.0, heat - coldest) ** 2 * self._reach <= floor:
                break
            shelf = board.shelf(source)
            step = best_step(board, source, shelf, self.pricing, has_swaps=has_swaps)
            yield
            if step is not None and step.score > floor:
                return step
            self._retired.add(source)
            self._waiting.pop()
        return Stop.NOTHING_WORTH_IT if self._retired else Stop.LEVEL
