"""An executor for each shard that needs one: of lost and leaving executors, or vacant.

Decides by load, after the pins: the version that is rolled out first, newcomers no faster than
their ramp, unless nobody else could take a shard. Must not know why a shard needs an executor.
"""

from collections.abc import Iterator
from math import fsum

from coordinator.core.controller.fleet import Fleet, owed_pieces
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.newcomers import FairShare, Filling
from coordinator.core.planner import Piece, Ramp, Seat, place
from coordinator.core.shard import Shard
from coordinator.core.types import Placement

COMMAND_BYTES_MAX = 64 * 1024
"""Of one command's shard names: some 1,500 with short names, which are placed in 30 ms. Shards that
a closing command does not name turn vacant with it, and are placed by the next ones."""

PLANNED_MAX = 250
"""Shards that get a home in one step, in 7 ms, and as long again on every node: without a bound
the loss of a tenth of a million held the leader for longer than its followers wait. More get theirs
in the steps behind, which see what was placed before."""

_RECORD_BYTES = 16
"""What a record costs beside its names."""

_FULL = 2.0
"""Times its fair share: an ordinary deploy stays well below, since each executor that restarts
leaves room for what the next one gives up."""


def homes_for(mind: Mind, fleet: Fleet, shards: list[Shard], without: str = "") -> list[Placement]:
    """An open executor for each shard, heaviest first; a pin to an open executor decides.

    While the executor of a pin is away its shard serves elsewhere; it is owed back later.
    """
    open_seats = [seat for seat in fleet.seats if seat.is_open and seat.executor != without]
    names = {seat.executor for seat in open_seats}
    free = [shard for shard in shards if shard.pin not in names]
    homes: list[Placement] = []
    for shard in shards:
        if shard.pin is not None and shard.pin in names:
            homes.append(Placement(shard.key, shard.pin))
            fleet.place(shard, shard.pin, mind.load_of(shard, fleet.median))
    pieces = owed_pieces(fleet, mind, free)
    by_key = {shard.key: shard for shard in free}
    ownerless = [piece.load for piece in pieces if by_key[piece.key].executor is None]
    fair = FairShare.of(
        fsum([*fleet.loads.values(), *ownerless]),
        sum(fleet.counts.values()) + len(ownerless),
        open_seats,
    )
    for seats, ramps in _rounds(fleet, open_seats, fair, pieces):
        found = place(pieces, seats, fleet.loads, fleet.counts, ramps)
        for one in found.placed:
            homes.append(Placement(one.key, one.target))
            fleet.place(by_key[one.key], one.target, one.load)
        owed = frozenset(found.owed)
        pieces = [piece for piece in pieces if piece.key in owed]
    return homes


def _rounds(
    fleet: Fleet, seats: list[Seat], fair: FairShare, pieces: list[Piece]
) -> Iterator[tuple[list[Seat], dict[str, Ramp]]]:
    """Who is asked, and how much each may be sent; what is left over goes to the next round.

    Whoever is asked before others, or instead of newcomers, is filled to twice its fair share at
    most: a single executor of a new version must not get all that a lost rack had.
    """
    # Whoever holds no more than its fair share has room for the heaviest shard, which goes first.
    heaviest = max((piece.load for piece in pieces), default=0.0)
    smallest = fair.load * min((seat.capacity for seat in seats), default=0.0)
    full = Filling(max(_FULL, 1.0 + heaviest / smallest) if smallest > 0.0 else _FULL)

    def up_to(filling: Filling, seat: Seat) -> Ramp:
        return fair.ramp(seat, filling, fleet.loads[seat.executor], fleet.counts[seat.executor])

    newest = [seat for seat in seats if seat.executor in fleet.newest]
    if newest:
        # What went elsewhere would be moved again when that is restarted: the ramp can wait.
        yield newest, {seat.executor: up_to(full, seat) for seat in newest}
    if any(seat.executor in fleet.ramping for seat in seats):
        fillings = {seat.executor: full for seat in seats} | fleet.ramping
        yield seats, {seat.executor: up_to(fillings[seat.executor], seat) for seat in seats}
    yield seats, {}


def fitting(placements: list[Placement]) -> list[Placement]:
    """The first placements that fit one command."""
    total = 0
    for count, placement in enumerate(placements):
        total += len(placement.key) * 4 + len(placement.executor) + _RECORD_BYTES
        if total > COMMAND_BYTES_MAX:
            return placements[:count]
    return placements


def chunks(placements: list[Placement]) -> Iterator[list[Placement]]:
    """All placements, in commands of bounded size."""
    while placements:
        head = fitting(placements)
        yield head
        placements = placements[len(head) :]
