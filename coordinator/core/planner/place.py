"""Executors for shards that have none: new ones, and those of lost or draining executors.

Decides by load: heaviest first, each to the open and allowed executor that would be least utilised
with it. Must not know why a shard is owed. What fits nowhere (no open executor, all banned, ramp
limits used up) stays owed.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2s
from heapq import heapify, heappop, heappush
from math import fsum

from coordinator.core.planner.limits import RampUse
from coordinator.core.planner.records import Piece, Placement, Placements, Ramp, Seat, in_turn

# Shards lighter than this share of a mean executor's load are spread by count: by load they would
# all go to whoever is least loaded, and each one costs memory and handoffs even while idle.
IDLE_RATIO = 1e-4

# Load, count and number of an executor; count before load where idle shards are placed.
_Entry = tuple[float, float, int]


def place(
    owed: Iterable[Piece],
    seats: Iterable[Seat],
    loads: Mapping[str, float],
    counts: Mapping[str, int],
    ramps: Mapping[str, Ramp] | None = None,
) -> Placements:
    """Where the owed shards go; `loads` and `counts` are what each executor has already.

    Ties go to the executor with fewer shards, then to each zone in turn, then by name. An executor
    in `ramps` is sent no more than that; holds of the owed shards do not matter, their bans do.
    """
    queue = sorted(owed, key=lambda piece: (-piece.load, piece.key))
    fleet = _Fleet(seats, loads, counts, ramps or {})
    mean = fsum([*fleet.loads, *(piece.load for piece in queue)]) / max(1, len(fleet.seats))
    idle_below = mean * IDLE_RATIO
    placed: list[Placement] = []
    left: list[str] = []
    heavy = [piece for piece in queue if piece.load > idle_below]
    for is_idle, pieces in ((False, heavy), (True, queue[len(heavy) :])):
        if pieces:
            fleet.rank(by_count=is_idle)
        for piece in pieces:
            target = fleet.seat_for(piece, by_count=is_idle)
            if target is None:
                left.append(piece.key)
            else:
                placed.append(Placement(piece.key, target, piece.load))
    return Placements(tuple(placed), tuple(left))


def hash_place(keys: Iterable[str], executors: Iterable[str]) -> dict[str, str]:
    """The executor of each key under static hashing: blake2s of the key modulo the count.

    The digest's 32 bytes are read as a big-endian integer, executors are sorted by name: the same
    rule as the routers' fallback and the yardstick that balance is compared with.
    """
    fleet = sorted(set(executors))
    if not fleet:
        return {}
    return {
        key: fleet[int.from_bytes(blake2s(key.encode()).digest(), "big") % len(fleet)]
        for key in keys
    }


class _Fleet:
    """Open executors in heaps by preference, one heap for each capacity.

    Among executors of one capacity the least loaded is the best for every shard, so only the
    heads of the heaps need to be compared.
    """

    def __init__(
        self,
        seats: Iterable[Seat],
        loads: Mapping[str, float],
        counts: Mapping[str, int],
        ramps: Mapping[str, Ramp],
    ) -> None:
        self.seats = in_turn(seat for seat in seats if seat.is_open)
        self.loads = [loads.get(seat.executor, 0.0) for seat in self.seats]
        self._counts = [counts.get(seat.executor, 0) for seat in self.seats]
        self._ramps = RampUse(ramps)
        self._heaps: dict[float, list[_Entry]] = {}

    def rank(self, *, by_count: bool) -> None:
        """Order the heaps by load, or by count for idle shards."""
        self._heaps = {}
        for at, seat in enumerate(self.seats):
            self._heaps.setdefault(seat.capacity, []).append(self._entry(at, by_count=by_count))
        for heap in self._heaps.values():
            heapify(heap)

    def seat_for(self, piece: Piece, *, by_count: bool) -> str | None:
        """The best executor for the shard, which is then counted as its; None if it fits none."""
        added = 1.0 if by_count else piece.load
        passed_over: list[tuple[list[_Entry], _Entry]] = []
        best: tuple[float, float, int] | None = None
        for capacity, heap in self._heaps.items():
            while heap:
                entry = heappop(heap)
                if self._ramps.is_full(self.seats[entry[2]].executor):
                    continue  # out of it for good: a thousand of them at each shard is a standstill
                passed_over.append((heap, entry))
                if self._is_allowed(entry[2], piece):
                    merit = ((entry[0] + added) / capacity, entry[1], entry[2])
                    best = merit if best is None else min(best, merit)
                    break
        chosen = -1 if best is None else best[2]
        if best is not None:
            self._count_in(chosen, piece)
        for heap, entry in passed_over:
            at = entry[2]
            heappush(heap, self._entry(at, by_count=by_count) if at == chosen else entry)
        return None if best is None else self.seats[chosen].executor

    def _entry(self, at: int, *, by_count: bool) -> _Entry:
        load, count = self.loads[at], float(self._counts[at])
        return (count, load, at) if by_count else (load, count, at)

    def _is_allowed(self, at: int, piece: Piece) -> bool:
        executor = self.seats[at].executor
        return executor not in piece.banned and self._ramps.has_room(executor, piece.load)

    def _count_in(self, at: int, piece: Piece) -> None:
        self.loads[at] += piece.load
        self._counts[at] += 1
        self._ramps.use(self.seats[at].executor, piece.load)
