"""Levelling idle shards by count, where loads give no reason to move them.

Decides about shards so light that no load-based step would ever pay for them, but which may pile
up in thousands on a few executors. Acts only on a pile clearly above the mean, and never lifts an
executor above the hottest one.
"""

from collections.abc import Iterable, Mapping, Sequence

from coordinator.core.planner.board import Board, is_free
from coordinator.core.planner.limits import RampUse
from coordinator.core.planner.place import IDLE_RATIO
from coordinator.core.planner.records import Move, MoveReason, Piece, Ramp, Seat

# A pile counts from a quarter and one shard above the mean: rounding and the coming and going of
# shards at the edge of idleness stay below that.
_SLACK_RATIO, _SLACK_COUNT = 1.25, 1.0


def level_idle(
    seats: Iterable[Seat],
    pieces_by_executor: Mapping[str, Sequence[Piece]],
    *,
    stop_gap: float,
    budget: int,
    per_executor: int | None = None,
    ramps: Mapping[str, Ramp] | None = None,
) -> tuple[Move, ...]:
    """At most `budget` moves of idle shards, from the largest piles to the smallest.

    Counts are taken per capacity, on executors that are open; held shards count and stay. Idle is
    only what a descent to `stop_gap` would leave alone, or the two would send it to and fro. An
    executor in `ramps` is sent no more than that.
    """
    board = Board(seats, pieces_by_executor)
    if not board.open_count:
        return ()
    idle_to = min(board.load_mean * IDLE_RATIO, board.weightless(stop_gap))
    return _Piles(board, idle_to, per_executor, RampUse(ramps or {})).level(budget)


class _Piles:
    """How many idle shards lie on each open executor, and which of them may go."""

    def __init__(
        self, board: Board, idle_to: float, per_executor: int | None, ramps: RampUse
    ) -> None:
        self._board = board
        self._ramps = ramps
        self._limit = per_executor
        self._seats = [at for at, seat in enumerate(board.seats) if seat.is_open]
        idle = [[one for one in pieces if one.load <= idle_to] for pieces in board.pieces]
        self._counts = [len(pieces) for pieces in idle]
        self._free = [
            sorted(filter(is_free, pieces), key=lambda one: (-one.load, one.key))
            if board.seats[at].is_source
            else []
            for at, pieces in enumerate(idle)
        ]
        self._in_flight = [seat.in_flight for seat in board.seats]
        room = sum(board.capacities[at] for at in self._seats)
        mean = sum(self._counts[at] for at in self._seats) / room
        self._high = [mean * seat.capacity * _SLACK_RATIO + _SLACK_COUNT for seat in board.seats]

    def level(self, budget: int) -> tuple[Move, ...]:
        moves: list[Move] = []
        while len(moves) < budget:
            move = self._next()
            if move is None:
                break
            moves.append(move)
        return tuple(moves)

    def _next(self) -> Move | None:
        """The lightest idle shard of the largest pile that may give, to the smallest."""
        giving = [at for at in self._seats if self._may_give(at)]
        if not giving:
            return None
        source = max(giving, key=lambda at: (self._share(at), -at))
        piece = self._free[source][-1]
        hottest = max(self._board.utilisation(at) for at in self._seats)
        taking = [at for at in self._seats if self._may_take(at, source, piece, hottest)]
        if not taking:
            return None
        target = min(taking, key=lambda at: (self._share(at), at))
        return self._move(source, target)

    def _share(self, at: int) -> float:
        return self._counts[at] / self._board.capacities[at]

    def _may_give(self, at: int) -> bool:
        has_pile = self._counts[at] > self._high[at] and bool(self._free[at])
        return has_pile and self._has_hands(at)

    def _may_take(self, at: int, source: int, piece: Piece, hottest: float) -> bool:
        board = self._board
        name = board.seats[at].executor
        if at == source or name in piece.banned or not self._has_hands(at):
            return False
        if not self._ramps.has_room(name, piece.load):
            return False
        is_smaller = (self._counts[at] + 1) / board.capacities[at] < self._share(source)
        return is_smaller and (board.loads[at] + piece.load) / board.capacities[at] <= hottest

    def _has_hands(self, at: int) -> bool:
        return self._limit is None or self._in_flight[at] < self._limit

    def _move(self, source: int, target: int) -> Move:
        board = self._board
        piece = self._free[source].pop()
        before = (board.utilisation(source), board.utilisation(target))
        board.shift(source, target, piece.load)
        self._ramps.use(board.seats[target].executor, piece.load)
        for at, change in ((source, -1), (target, 1)):
            self._counts[at] += change
            self._in_flight[at] += 1
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
