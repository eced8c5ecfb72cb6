"""The states from which fleets are levelled: hashed, drifted, one executor more, one less.

Decides where every shard lies, and with which load, before any method is tried: the same for all.
"""

from collections.abc import Callable, Mapping
from math import exp
from random import Random
from typing import Final

from bench.balance.fleet import Fleet, executor_name, executor_number
from bench.balance.ours import LEVELS, Ours
from bench.balance.rules import run
from bench.balance.snapshots import Snapshot
from coordinator.core.planner import Piece, Seat, hash_place, place

DRIFT_SIGMA: Final = 0.5
"""Each load is multiplied by exp(N(0, this)): two thirds of all stay within a factor of 1.65."""


def hashed(snapshot: Snapshot, count: int) -> Fleet:
    """blake2s of the key modulo the number of executors: what there is without a coordinator."""
    names = [executor_name(at) for at in range(count)]
    placed = hash_place(snapshot.loads, names)
    where = {key: executor_number(name) for key, name in placed.items()}
    return Fleet(snapshot.loads, where, count)


def drifted(snapshot: Snapshot, count: int) -> Fleet:
    """Settled, and then every load changed by chance, by the same seed in each run."""
    settled = _settled(snapshot, count)
    chance = Random(f"{snapshot.name}/{count}")
    loads = {
        key: load * exp(chance.gauss(0.0, DRIFT_SIGMA))
        for key, load in sorted(settled.loads.items())
    }
    return Fleet(loads, settled.where, count)


def joined(snapshot: Snapshot, count: int) -> Fleet:
    """Settled on one executor fewer; an empty one has joined."""
    if count < 2:
        return hashed(snapshot, count)
    settled = _settled(snapshot, count - 1)
    return Fleet(settled.loads, settled.where, count)


def left(snapshot: Snapshot, count: int) -> Fleet:
    """Settled on one executor more; the last one is lost and its shards were placed anew."""
    settled = _settled(snapshot, count + 1)
    seats = [Seat(executor_name(at)) for at in range(count)]
    orphans = [Piece(key, load) for load, key in settled.shelves[count]]
    found = place(
        orphans,
        seats,
        {seat.executor: settled.totals[at] for at, seat in enumerate(seats)},
        {seat.executor: len(settled.shelves[at]) for at, seat in enumerate(seats)},
    )
    where = dict(settled.where)
    where.update((one.key, executor_number(one.target)) for one in found.placed)
    return Fleet(settled.loads, where, count)


STARTS: Final[Mapping[str, Callable[[Snapshot, int], Fleet]]] = {
    "hash": hashed,
    "drift": drifted,
    "join": joined,
    "leave": left,
}


def _settled(snapshot: Snapshot, count: int) -> Fleet:
    fleet = hashed(snapshot, count)
    run(Ours(*LEVELS["tight"]), fleet)
    return fleet
