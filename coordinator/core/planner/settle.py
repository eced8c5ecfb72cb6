"""Balancing by a hottest-first descent in which every step has to pay for its churn.

Decides which shards to move between executors so that utilisations level out, with few moves and
little load moved. Each step takes from the potential of `steps.py` at least a floor given by the
gap: `price = gap ** 2 / 2`, the most a single move can gain between two executors `gap` of a mean
load apart. A pass starts only for a step worth `start_gap` and then goes on down to `stop_gap`.

What holds for every plan, cut short after any step: the potential falls at each step, the hottest
utilisation never rises, the coldest never falls, and equal inputs give equal plans whatever their
order. Must not know why a shard is held in place, nor when passes are made.
"""

from collections.abc import Iterable, Mapping, Sequence

from coordinator.core.planner.blocked import why_blocked
from coordinator.core.planner.board import Board
from coordinator.core.planner.descent import Descent
from coordinator.core.planner.figures import bound_figures, fleet_figures, with_dominant
from coordinator.core.planner.limits import Admission
from coordinator.core.planner.records import (
    Blocked,
    BlockedReason,
    Bound,
    Dominant,
    FleetFigures,
    Piece,
    Plan,
    Ramp,
    Seat,
    Stop,
)
from coordinator.core.planner.steps import Pricing

# A descent goes on past steps that are held back, up to this many times the budget: further down
# there may be pairs with hands free, but the search must end.
_HELD_BACK_FACTOR = 4


def settle(
    seats: Iterable[Seat],
    pieces_by_executor: Mapping[str, Sequence[Piece]],
    *,
    start_gap: float,
    stop_gap: float,
    budget: int,
    per_executor: int | None = None,
    ramps: Mapping[str, Ramp] | None = None,
    load_cost: float = 1.0,
    cold: int = 8,
    quiet_mark: float | None = None,
) -> Plan:
    """A plan of at most `budget` moves; a swap counts as two.

    `per_executor` limits the handoffs an executor may be part of, those in flight included; an
    executor in `ramps` is sent no more than that. `load_cost` 1 makes moving a mean executor's
    load cost one move more. `cold` is how many of the coldest executors are tried as targets for
    each source. Executors at or under the utilisation `quiet_mark` are not relieved.

    A plan that stopped at its budget, or held moves back, leaves a descent unfinished that may by
    then be below the start gap: to finish it, pass `start_gap=stop_gap` next time.
    """
    board = Board(seats, pieces_by_executor)
    before = _figures(board)
    bound = _bound(board)
    if board.open_count == 0:
        blocked = Blocked(before.hottest, BlockedReason.NO_TARGET) if board.seats else None
        return Plan((), Stop.NO_EXECUTORS, blocked, before, before, bound)
    if board.total <= 0.0:
        return Plan((), Stop.LEVEL, None, before, before, bound)
    unit = board.unit
    board.lightest = board.weightless(stop_gap)
    floors = (max(start_gap, stop_gap) ** 2 / 2.0 * unit, stop_gap**2 / 2.0 * unit)
    admission = Admission(board.twin(), per_executor, ramps or {}, unit)
    descent = Descent(board, Pricing(board.load_mean, load_cost, cold), quiet_mark)
    stop = _descend(descent, admission, floors, max(0, budget))
    return Plan(
        moves=tuple(admission.moves),
        stop=stop,
        blocked=_blocked(descent, admission, *floors, stop),
        before=before,
        after=_figures(admission.actual),
        bound=bound,
        held_back=tuple(admission.held_back),
    )


def _descend(
    descent: Descent, admission: Admission, floors: tuple[float, float], budget: int
) -> Stop:
    """Offer step after step to `admission`; says why no more came."""
    start_floor, floor = floors
    gate = descent.next_step(start_floor, has_swaps=True)
    descent.reconsider()
    if isinstance(gate, Stop):
        smaller = descent.next_step(floor, has_swaps=True)
        return smaller if isinstance(smaller, Stop) else Stop.BELOW_START_GAP
    while True:
        left = budget - len(admission.moves)
        step = descent.next_step(floor, has_swaps=left != 1)
        if isinstance(step, Stop) and left == 1:
            descent.reconsider()
            step = descent.next_step(floor, has_swaps=True)
        if isinstance(step, Stop):
            return step
        if step.moves > left or len(admission.held_back) >= _HELD_BACK_FACTOR * budget:
            return Stop.BUDGET
        admission.offer(step)
        descent.apply(step)


def _blocked(
    descent: Descent, admission: Admission, start_floor: float, floor: float, stop: Stop
) -> Blocked | None:
    """Why nothing is done for the hottest executor, if it is hot enough to act upon."""
    hottest = admission.actual.hottest_source()
    if any(move.source == hottest for move in admission.moves):
        return None
    if any(move.source == hottest for move in admission.held_back):
        return Blocked(hottest, BlockedReason.BUDGET)
    is_searched = stop in (Stop.NOTHING_WORTH_IT, Stop.BUDGET)
    if not is_searched or descent.most_to_gain() <= start_floor:
        return None
    return why_blocked(descent, floor)


def _figures(board: Board) -> FleetFigures:
    return fleet_figures(board.loads_by_executor(), board.capacities_by_executor())


def _bound(board: Board) -> Bound:
    """The best possible for what lies on the board, without a table of every shard."""
    values = [piece.load for pieces in board.pieces for piece in pieces]
    figures, lightest = bound_figures(values, board.capacities)
    return with_dominant(
        figures,
        (
            Dominant(piece.key, piece.load)
            for pieces in board.pieces
            for piece in pieces
            if piece.load >= lightest
        ),
    )
