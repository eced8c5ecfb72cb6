"""Why the hottest executor stays hot: the one rule that, lifted, would have let it be relieved.

Decides by trying: each rule is lifted alone, those that pass by themselves first. Must not know
how a plan was made, only the board it ended with and why it ended.
"""

from collections.abc import Callable, Generator

from coordinator.core.planner.board import Board
from coordinator.core.planner.descent import Descent
from coordinator.core.planner.records import Blocked, BlockedReason, Hold
from coordinator.core.planner.steps import Step, best_step

_REASONS = {
    # In this order: what passes by itself is named first.
    Hold.COOLDOWN: BlockedReason.COOLDOWN,
    Hold.UNMEASURED: BlockedReason.STALE_DATA,
    Hold.IN_FLIGHT: BlockedReason.BUDGET,
    Hold.PINNED: BlockedReason.PINNED,
}


def why_blocked(descent: Descent, floor: float) -> Generator[None, None, Blocked]:
    """The hottest source of an ended descent, and which rule leaves it without a step.

    Pauses after each rule that it tried to lift.
    """
    board = descent.board
    executor = board.hottest_source()
    if _step(descent, board, floor):
        return Blocked(executor, BlockedReason.BUDGET)
    for hold, reason in _REASONS.items():
        yield
        if _step(descent, board.under(_free_or(hold)), floor):
            return Blocked(executor, reason)
    yield
    # A swap may be held up on either side for different reasons: blame the side of the source.
    if step := _step(descent, board.under(_anything), floor):
        return Blocked(executor, _REASONS[step.piece.hold or Hold.PINNED])
    yield
    if _step(descent, board.under(_anything, has_bans=False), floor):
        return Blocked(executor, BlockedReason.NO_TARGET)
    return Blocked(executor, BlockedReason.FLOOR)


def _anything(_: Hold | None) -> bool:
    return True


def _free_or(lifted: Hold) -> Callable[[Hold | None], bool]:
    return lambda hold: hold in (None, lifted)


def _step(descent: Descent, board: Board, floor: float) -> Step | None:
    source = board.sources[-1][1]
    step = best_step(board, source, board.shelf(source), descent.pricing, has_swaps=True)
    descent.board.work = max(descent.board.work, board.work)
    return step if step is not None and step.score > floor else None
