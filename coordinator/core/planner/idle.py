"""Levelling idle shards by count, where loads give no reason to move them.

Decides about shards so light that no load-based step would ever pay for them, but which may pile
up in thousands on a few executors. Acts only on a pile clearly above the mean, and never lifts an
executor above the hottest one.
"""

from bisect import insort
from collections.abc import Iterable

from coordinator.core.planner.board import Board
from coordinator.core.planner.limits import RampUse
from coordinator.core.planner.place import IDLE_RATIO
from coordinator.core.planner.records import Aims, Holdings, Move, MoveReason, Piece, Seat
from coordinator.core.planner.slices import SEAT_WORK, Slices, finished
from coordinator.core.planner.worth import floor_of, typical_shard

# A pile counts from a quarter and one shard above the mean: rounding and the coming and going of
# shards at the edge of idleness stay below that.
_SLACK_RATIO, _SLACK_COUNT = 1.25, 1.0


def level_idle(seats: Iterable[Seat], holdings: Holdings, aims: Aims) -> tuple[Move, ...]:
    """All moves at once; see `levelling_idle`."""
    return finished(levelling_idle(seats, holdings, aims))


def levelling_idle(
    seats: Iterable[Seat], holdings: Holdings, aims: Aims
) -> Slices[tuple[Move, ...]]:
    """Moves of idle shards within the budget, from the largest piles to the smallest, in slices.

    Counts are taken per capacity, on executors that are open; held shards count and stay. Idle is
    only what a descent to the stop gap would leave alone, or the two would send it to and fro.
    """
    board = Board(seats, holdings)
    yield len(board.seats) * SEAT_WORK
    if not board.open_count:
        return ()
    typical = (yield from typical_shard(board)) if board.total > 0.0 else 0.0
    floor = floor_of(aims.stop_gap, typical) * board.unit
    idle_to = min(board.load_mean * IDLE_RATIO, board.weightless(floor))
    counts: list[int] = []
    for stack in board.stacks:
        counts.append(len([1 for load in stack.loads if load <= idle_to]))
        yield len(stack.loads)
    piles = _Piles(board, counts, idle_to, aims)
    moves: list[Move] = []
    while len(moves) < aims.budget and (move := piles.next_move()) is not None:
        moves.append(move)
        yield len(board.seats)
    return tuple(moves)


class _Piles:
    """How many idle shards lie on each open executor, and which of them may go."""

    def __init__(self, board: Board, counts: list[int], idle_to: float, aims: Aims) -> None:
        self._board = board
        self._limit = aims.per_executor
        self._ramps = RampUse(aims.ramps)
        self._counts = counts
        self._idle_to = idle_to
        self._in_flight = [seat.in_flight for seat in board.seats]
        self._free: dict[int, list[Piece]] = {}
        open_seats = [at for at, seat in enumerate(board.seats) if seat.is_open]
        room = sum(board.capacities[at] for at in open_seats)
        mean = sum(counts[at] for at in open_seats) / room
        self._high = [mean * seat.capacity * _SLACK_RATIO + _SLACK_COUNT for seat in board.seats]
        self._hottest = max(board.utilisation(at) for at in open_seats)
        """Never lifted, and what is idle lowers it by next to nothing."""
        self._by_share = sorted((self._share(at), at) for at in open_seats)

    def next_move(self) -> Move | None:
        """The lightest idle shard of the largest pile that may give, to the smallest."""
        giving = (
            (share, at)
            for share, at in sorted(self._by_share, key=lambda one: (-one[0], one[1]))
            if self._may_give(at)
        )
        for share, source in giving:
            piece = self._idle(source)[-1]
            for _, target in self._by_share:
                if self._may_take(target, share, piece):
                    return self._move(source, target)
            return None
        return None

    def _idle(self, at: int) -> list[Piece]:
        """The idle shards of a pile that may go, the next one last; listed on first use."""
        pieces = self._free.get(at)
        if pieces is None:
            board = self._board
            stack, holds = board.stacks[at], board.holdings.holds
            listed = [
                (-load, key)
                for load, key in zip(stack.loads, stack.keys, strict=True)
                if load <= self._idle_to and key not in holds
            ]
            pieces = self._free[at] = [
                board.holdings.piece(key, -load) for load, key in sorted(listed)
            ]
        return pieces

    def _share(self, at: int) -> float:
        return self._counts[at] / self._board.capacities[at]

    def _may_give(self, at: int) -> bool:
        is_pile = self._board.seats[at].is_source and self._counts[at] > self._high[at]
        return is_pile and self._has_hands(at) and bool(self._idle(at))

    def _may_take(self, at: int, share: float, piece: Piece) -> bool:
        board = self._board
        name = board.seats[at].executor
        if name in piece.banned or not self._has_hands(at):
            return False
        if not self._ramps.has_room(name, piece.load):
            return False
        is_smaller = (self._counts[at] + 1) / board.capacities[at] < share
        return is_smaller and (board.loads[at] + piece.load) / board.capacities[at] <= self._hottest

    def _has_hands(self, at: int) -> bool:
        return self._limit is None or self._in_flight[at] < self._limit

    def _move(self, source: int, target: int) -> Move:
        board = self._board
        piece = self._free[source].pop()
        before = (board.utilisation(source), board.utilisation(target))
        board.shift(source, target, piece.load)
        self._ramps.use(board.seats[target].executor, piece.load)
        for at, change in ((source, -1), (target, 1)):
            self._by_share.remove((self._share(at), at))
            self._counts[at] += change
            self._in_flight[at] += 1
            insort(self._by_share, (self._share(at), at))
        return Move(
            key=piece.key,
            source=board.seats[source].executor,
            target=board.seats[target].executor,
            load=piece.load,
            reason=MoveReason.LEVEL_IDLE,
            gain=0.0,
            source_before=before[0],
            source_after=board.utilisation(source),
            target_before=before[1],
            target_after=board.utilisation(target),
        )
