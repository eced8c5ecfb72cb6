"""What static hashing would give: the yardstick that balance is held against.

Decides two of its rules: the key's digest modulo the number of executors, and a ring on which each
executor has a hundred points. Must not know where shards lie now.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from itertools import islice
from typing import Final

from coordinator.core.planner.figures import fleet_figures
from coordinator.core.planner.records import FleetFigures, Stack
from coordinator.core.planner.slices import SEAT_WORK, Slices, finished

RING_POINTS: Final = 100
"""Of each executor: what is usual, and leaves shares a tenth apart."""

_DIGEST_WORK: Final = 20
"""To hash a name and find its point takes as long as to look at so many shards."""

_LET_GO_WORK: Final = 1
"""A digest is let go of as fast as a shard is looked at."""

_AT_ONCE: Final = 100
"""Shards hashed between two looks at how much was done: a third of a millisecond."""

_PARTS: Final = 256


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How even the same shards would lie on the same executors under static hashing."""

    modulo: FleetFigures
    ring: FleetFigures


def yardstick(stacks: Iterable[Stack], capacities: Mapping[str, float]) -> Yardstick:
    """All at once; see `measuring`."""
    return finished(measuring(stacks, capacities))


def measuring(stacks: Iterable[Stack], capacities: Mapping[str, float]) -> Slices[Yardstick]:
    """Both rules over the executors in `capacities`, in slices; stacks may be made as they come.

    The digest's 32 bytes are read as a big-endian integer, executors are sorted by name: the same
    rule as the routers' fallback.
    """
    names = sorted(capacities)
    marks, seats = yield from _ring(names)
    modulo, ring = [0.0] * len(names), [0.0] * len(names)
    for stack in stacks if names else ():
        pairs = zip(stack.keys, stack.loads, strict=True)
        while some := list(islice(pairs, _AT_ONCE)):
            for key, load in some:
                digest = blake2s(key.encode()).digest()
                modulo[int.from_bytes(digest, "big") % len(names)] += load
                first = digest[0]
                ring[seats[first][bisect_right(marks[first], digest)]] += load
            yield _DIGEST_WORK * len(some)
    by_modulo = fleet_figures(dict(zip(names, modulo, strict=True)), capacities)
    yield SEAT_WORK * len(names)
    by_ring = fleet_figures(dict(zip(names, ring, strict=True)), capacities)
    while marks:  # a hundred thousand digests take 5 ms to let go of
        yield _LET_GO_WORK * len(marks.pop())
    return Yardstick(by_modulo, by_ring)


_Ring = tuple[list[list[bytes]], list[list[int]]]
"""By a digest's first byte: the points there, and the executor of each and of whatever lies behind
the last one."""


def _ring(names: Sequence[str]) -> Slices[_Ring]:
    """Every executor's points in order, in 256 parts: to sort all of a thousand takes 60 ms."""
    parts: list[list[tuple[bytes, int]]] = [[] for _ in range(_PARTS)]
    for at, name in enumerate(names):
        for number in range(RING_POINTS):
            digest = blake2s(f"{name}#{number}".encode()).digest()
            parts[digest[0]].append((digest, at))
        yield _DIGEST_WORK * RING_POINTS
    marks: list[list[bytes]] = []
    seats: list[list[int]] = []
    for part in parts:
        part.sort()
        marks.append([mark for mark, _ in part])
        seats.append([at for _, at in part])
        work = 4 * len(part)
        part.clear()  # all of them at once, at the end, took 10 ms
        yield work
    # A ring: behind the last point of a part comes the first of the next that has any.
    behind = next((owners[0] for owners in seats if owners), 0)
    for owners in reversed(seats):
        first = owners[0] if owners else behind
        owners.append(behind)
        behind = first
    return marks, seats
