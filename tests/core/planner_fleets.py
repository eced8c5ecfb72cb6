"""Builders and strategies for planner tests: fleets written short, and any fleet at all."""

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from coordinator.core import planner
from coordinator.core.planner import Aims, Hold, Holdings, Move, Piece, Plan, Seat, hash_place

SNAPSHOTS = Path(__file__).parents[2] / "bench" / "data"

Pieces = dict[str, list[Piece]]


@dataclass(frozen=True)
class Fleet:
    """Seats and what lies on them, as `settle` takes them."""

    seats: tuple[Seat, ...]
    pieces: Pieces

    @property
    def loads(self) -> dict[str, float]:
        return {seat.executor: load_of(self.pieces, seat.executor) for seat in self.seats}


def settle(seats: Sequence[Seat], pieces: Mapping[str, Sequence[Piece]], **aims: Any) -> Plan:
    """A plan for shards given one by one."""
    return planner.settle(seats, Holdings.of(pieces), Aims(**aims))


def level_idle(
    seats: Sequence[Seat], pieces: Mapping[str, Sequence[Piece]], **aims: Any
) -> tuple[Move, ...]:
    """The same of idle shards; there is no gate for them."""
    return planner.level_idle(seats, Holdings.of(pieces), Aims(start_gap=0.0, **aims))


def load_of(pieces: Mapping[str, Sequence[Piece]], executor: str) -> float:
    return fsum(piece.load for piece in pieces.get(executor, ()))


def fleet(**loads: Sequence[float]) -> Fleet:
    """`fleet(a=[3, 2], b=[])`: shard keys are `a0`, `a1`; all open, capacity 1."""
    return Fleet(
        tuple(Seat(executor) for executor in loads),
        {
            executor: [Piece(f"{executor}{at}", float(load)) for at, load in enumerate(shards)]
            for executor, shards in loads.items()
        },
    )


def carried_out(pieces: Pieces, moves: Sequence[Move], *, are_resting: bool = False) -> Pieces:
    """The pieces after the moves; with `are_resting` the moved shards cool down."""
    after = {executor: list(listed) for executor, listed in pieces.items()}
    for move in moves:
        piece = next(one for one in after[move.source] if one.key == move.key)
        after[move.source].remove(piece)
        hold = Hold.COOLDOWN if are_resting else piece.hold
        after.setdefault(move.target, []).append(replace(piece, hold=hold))
    return after


def potential(pieces: Pieces, seats: Sequence[Seat]) -> float:
    """The sum over executors of squared distance from the fair load, by capacity."""
    level = fsum(load_of(pieces, one.executor) for one in seats) / fsum(s.capacity for s in seats)
    return fsum(
        (load_of(pieces, one.executor) - level * one.capacity) ** 2 / one.capacity for one in seats
    )


def utilisations(pieces: Pieces, seats: Sequence[Seat]) -> list[float]:
    return [load_of(pieces, one.executor) / one.capacity for one in seats]


def steps_of(moves: Sequence[Move]) -> list[list[Move]]:
    """Moves in steps: a swap is one step of two."""
    steps: list[list[Move]] = []
    for move in moves:
        last = steps[-1] if steps else []
        if move.swap_with is not None and len(last) == 1 and last[0].key == move.swap_with:
            last.append(move)
        else:
            steps.append([move])
    return steps


def snapshot(name: str) -> dict[str, float]:
    """Loads by key of a file in bench/data."""
    path = SNAPSHOTS / name
    with gzip.open(path, "rt") if name.endswith(".gz") else path.open() as lines:
        return {row["key"]: float(row["load"]) for row in csv.DictReader(lines)}


def hashed(loads: Mapping[str, float], executors: int) -> Fleet:
    """A fleet under static hashing."""
    names = [f"e{at:02d}" for at in range(executors)]
    pieces: Pieces = {name: [] for name in names}
    for key, executor in hash_place(loads, names).items():
        pieces[executor].append(Piece(key, loads[key]))
    return Fleet(tuple(Seat(name) for name in names), pieces)


_LOADS = st.one_of(
    st.just(0.0),
    st.integers(1, 9).map(float),  # many ties
    st.floats(1e-3, 1e3),
)


_NAMES = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6, unique=True)
_SEAT = st.tuples(
    st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0, 3.7]),
    st.sampled_from([True] * 5 + [False]),
    st.sampled_from([True] * 7 + [False]),
    st.sampled_from([0, 0, 0, 1, 3]),
)
_PIECE = st.tuples(
    _LOADS,
    st.sampled_from([None] * 6 + list(Hold)),
    st.sampled_from([frozenset(), frozenset(), frozenset("a"), frozenset("bc")]),
)
_SEATS_AND_PIECES = st.lists(st.tuples(_SEAT, st.lists(_PIECE, max_size=9)), min_size=6, max_size=6)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Any fleet: capacities, closed seats, bans, holds, ties, empty and idle ones."""
    names = draw(_NAMES)
    seats: list[Seat] = []
    pieces: Pieces = {}
    for name, (seat, shards) in zip(names, draw(_SEATS_AND_PIECES), strict=False):
        seats.append(Seat(name, *seat))
        pieces[name] = [Piece(f"{name}{at}", *shard) for at, shard in enumerate(shards)]
    return Fleet(tuple(seats), pieces)
