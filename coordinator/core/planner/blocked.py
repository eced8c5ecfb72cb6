"""Why the hottest executor stays hot: the one rule that, lifted, would have let it be relieved.

Decides by trying: each rule is lifted alone, those that pass by themselves first. Must not know
how a plan was made, only the board it ended with and why it ended.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.core.planner.board import Shelf, is_free
from coordinator.core.planner.descent import Descent
from coordinator.core.planner.records import Blocked, BlockedReason, Hold, Piece
from coordinator.core.planner.steps import best_step

_REASONS = {
    Hold.COOLDOWN: BlockedReason.COOLDOWN,
    Hold.UNMEASURED: BlockedReason.STALE_DATA,
    Hold.IN_FLIGHT: BlockedReason.BUDGET,
    Hold.PINNED: BlockedReason.PINNED,
}


def why_blocked(descent: Descent, floor: float) -> Blocked:
    """The hottest source of an ended descent, and which rule leaves it without a step."""
    board = descent.board
    source = board.sources[-1][1]
    executor = board.seats[source].executor
    rules: list[tuple[BlockedReason, Callable[[Piece], bool]]] = [(BlockedReason.BUDGET, is_free)]
    rules += [(reason, _held_only_by(hold)) for hold, reason in _REASONS.items()]
    for reason, may_move in rules:
        if _has_step(descent, source, board.shelf_of(source, may_move), floor):
            return Blocked(executor, reason)
    everything = board.shelf_of(source, lambda _: True)
    if _has_step(descent, source, everything, floor):
        return Blocked(executor, _REASONS[_heaviest_hold(everything)])
    free = [replace(piece, banned=frozenset()) for piece in everything.pieces]
    if _has_step(descent, source, Shelf(everything.loads, free), floor):
        return Blocked(executor, BlockedReason.NO_TARGET)
    return Blocked(executor, BlockedReason.FLOOR)


def _held_only_by(hold: Hold) -> Callable[[Piece], bool]:
    return lambda piece: piece.hold in (None, hold)


def _has_step(descent: Descent, source: int, shelf: Shelf, floor: float) -> bool:
    step = best_step(descent.board, source, shelf, descent.pricing, has_swaps=True)
    return step is not None and step.score > floor


def _heaviest_hold(shelf: Shelf) -> Hold:
    """The hold under which most of the load lies; the heaviest shard's on a tie."""
    load_by_hold: dict[Hold, float] = {}
    for piece in reversed(shelf.pieces):
        if piece.hold is not None:
            load_by_hold[piece.hold] = load_by_hold.get(piece.hold, 0.0) + piece.load
    return max(load_by_hold, key=lambda hold: load_by_hold[hold])
