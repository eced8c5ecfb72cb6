"""Balancing by a hottest-first descent in which every step has to pay for its churn.

Decides which shards to move between executors so that utilisations level out, with few moves and
little load moved. Each step takes from the potential of `steps.py` at least a floor that `worth.py`
makes of the gap. A pass starts only for a step worth `start_gap` and then goes on down to
`stop_gap`.

What holds for every plan, cut short after any step: the potential falls at each step, the hottest
utilisation never rises, the coldest never falls, and equal inputs give equal plans whatever their
order. Must not know why a shard is held in place, nor when passes are made.
"""

from collections.abc import Generator, Iterable

from coordinator.core.planner.blocked import why_blocked
from coordinator.core.planner.board import Board
from coordinator.core.planner.bound import bound_slices
from coordinator.core.planner.descent import Descent
from coordinator.core.planner.figures import fleet_figures
from coordinator.core.planner.limits import Admission
from coordinator.core.planner.records import (
    Aims,
    Blocked,
    BlockedReason,
    FleetFigures,
    Holdings,
    Plan,
    Seat,
    Stop,
)
from coordinator.core.planner.slices import SEAT_WORK, Slices, finished, metered
from coordinator.core.planner.steps import Pricing
from coordinator.core.planner.worth import floor_of, typical_shard

# A descent goes on past steps that are held back, up to this many times the budget: further down
# there may be pairs with hands free, but the search must end.
_HELD_BACK_FACTOR = 4


def settle(seats: Iterable[Seat], holdings: Holdings, aims: Aims) -> Plan:
    """A whole plan at once; see `settling`."""
    return finished(settling(seats, holdings, aims))


def settling(seats: Iterable[Seat], holdings: Holdings, aims: Aims) -> Slices[Plan]:
    """A plan in slices: each `next` gives how much was looked at since the last, in shards.

    A plan that stopped at its budget, or held moves back, leaves a descent unfinished that may by
    then be below the start gap: to finish it, pass `start_gap=stop_gap` next time.
    """
    board = Board(seats, holdings)
    yield len(board.seats) * SEAT_WORK
    before = _figures(board)
    yield len(board.seats) * SEAT_WORK
    bound = yield from bound_slices(board.stacks, board.capacities)
    if board.open_count == 0:
        blocked = Blocked(before.hottest, BlockedReason.NO_TARGET) if board.seats else None
        return Plan((), Stop.NO_EXECUTORS, blocked, before, before, bound)
    if board.total <= 0.0:
        return Plan((), Stop.LEVEL, None, before, before, bound)
    unit = board.unit
    typical = yield from typical_shard(board)
    floors = (
        floor_of(max(aims.start_gap, aims.stop_gap), typical) * unit,
        floor_of(aims.stop_gap, typical) * unit,
    )
    board.lightest = board.weightless(floors[1])
    yield len(board.seats) * SEAT_WORK
    admission = Admission(board.twin(), aims.per_executor, aims.ramps, unit)
    pricing = Pricing(board.load_mean, aims.load_cost, aims.cold)
    descent = Descent(board, pricing, aims.quiet_mark)
    stop = yield from metered(board, _descend(descent, admission, floors, max(0, aims.budget)))
    blocked = yield from metered(board, _blocked(descent, admission, floors, stop))
    yield len(board.seats) * SEAT_WORK
    after = _figures(admission.actual)
    yield len(board.seats) * SEAT_WORK
    return Plan(
        moves=tuple(admission.moves),
        stop=stop,
        blocked=blocked,
        before=before,
        after=after,
        bound=bound,
        held_back=tuple(admission.held_back),
        typical=typical,
    )


def _descend(
    descent: Descent, admission: Admission, floors: tuple[float, float], budget: int
) -> Generator[None, None, Stop]:
    """Offer step after step to `admission`; says why no more came."""
    start_floor, floor = floors
    gate = yield from descent.next_step(start_floor, has_swaps=True)
    descent.reconsider()
    if isinstance(gate, Stop):
        smaller = yield from descent.next_step(floor, has_swaps=True)
        return smaller if isinstance(smaller, Stop) else Stop.BELOW_START_GAP
    while True:
        left = budget - len(admission.moves)
        step = yield from descent.next_step(floor, has_swaps=left != 1)
        if isinstance(step, Stop) and left == 1:
            descent.reconsider()
            step = yield from descent.next_step(floor, has_swaps=True)
        if isinstance(step, Stop):
            return step
        if step.moves > left or len(admission.held_back) >= _HELD_BACK_FACTOR * budget:
            return Stop.BUDGET
        admission.offer(step)
        descent.apply(step)


def _blocked(
    descent: Descent, admission: Admission, floors: tuple[float, float], stop: Stop
) -> Generator[None, None, Blocked | None]:
    """Why nothing is done for the hottest executor, if it is hot enough to act upon."""
    start_floor, floor = floors
    hottest = admission.actual.hottest_source()
    if any(move.source == hottest for move in admission.moves):
        return None
    if any(move.source == hottest for move in admission.held_back):
        return Blocked(hottest, BlockedReason.BUDGET)
    is_searched = stop in (Stop.NOTHING_WORTH_IT, Stop.BUDGET)
    if not is_searched or descent.most_to_gain() <= start_floor:
        return None
    return (yield from why_blocked(descent, floor))


def _figures(board: Board) -> FleetFigures:
    return fleet_figures(board.loads_by_executor(), board.capacities_by_executor())
