"""What a step must be worth: the price of churn, said as a gap between two executors.

Decides how a gap becomes a floor under scores. A gap of `g` means that executors less than `g` of a
mean load apart are left alone, and that a step must gain what the ideal shard gains between two
that are: `g ** 2 / 2`. Where shards are so light that none can gain as much, a typical one's gain
between two so far apart is enough; otherwise a fleet of many light shards would stay as it is
however uneven. Must not know which steps there are.
"""

from collections.abc import Sequence
from itertools import accumulate

from coordinator.core.planner.board import Board
from coordinator.core.planner.slices import Slices

_STACKS_MAX = 64
"""Executors whose shards are looked at, evenly spread from the coldest to the hottest: what is
typical does not need more, and to sort a million loads takes half a second."""


def floor_of(gap: float, typical: float) -> float:
    """The score a step must exceed, in units of the board; `typical` in multiples of its mean."""
    ideal = gap / 2.0
    shard = min(ideal, typical)
    return 2.0 * shard * (gap - shard)


def typical_shard(board: Board) -> Slices[float]:
    """The shard in the middle of the load, in multiples of a mean executor's.

    Half of the load lies in lighter shards: many idle ones do not count for much, and neither do
    few heavy ones. Dominant shards, which are going nowhere, are left out.
    """
    ranked = [stack for stack in (board.stacks[at] for _, at in board.heat()) if stack.total > 0.0]
    step = -(-len(ranked) // _STACKS_MAX) or 1
    found: list[tuple[float, float]] = []
    for stack in ranked[::step]:
        loads = sorted([load for load in stack.loads if 0.0 < load <= board.load_mean])
        if loads:
            found.append(_middle([(load, load) for load in loads]))
        yield len(stack.loads)
    return _middle(sorted(found))[0] / board.load_mean if found else 0.0


def _middle(ordered: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The value with half of the weight on either side, and the weight of all."""
    sums = list(accumulate(weight for _, weight in ordered))
    half = sums[-1] / 2.0
    place = next(at for at, upto in enumerate(sums) if upto >= half)
    return ordered[place][0], sums[-1]
