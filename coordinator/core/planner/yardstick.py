"""What static hashing would give: the yardstick that balance is held against.

Decides two of its rules: the key's digest modulo the number of executors, and a ring on which each
executor has a hundred points. Must not know where shards lie now.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2s
from itertools import islice
from typing import Final

from coordinator.core.planner.figures import fleet_figures
from coordinator.core.planner.records import FleetFigures, Stack
from coordinator.core.planner.slices import Slices, finished

RING_POINTS: Final = 100
"""Of each executor: what is usual, and leaves shares a tenth apart."""

_DIGEST_WORK: Final = 12
"""To hash a name takes as long as to look at so many shards."""

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How even the same shards would lie on the same executors under static hashing."""

    modulo: FleetFigures
    ring: FleetFigures


def yardstick(stacks: Iterable[Stack], capacities: Mapping[str, float]) -> Yardstick:
    """All at once; see `measuring`."""
    return finished(measuring(stacks, capacities))


def measuring(stacks: Iterable[Stack], capacities: Mapping[str, float]) -> Slices[Yardstick]:
    """Both rules over the executors in `capacities`, in slices.

    The digest's 32 bytes are read as a big-endian integer, executors are sorted by name: the same
    rule as the routers' fallback.
    """
    names = sorted(capacities)
    points = sorted(
        (blake2s(f"{name}#{number}".encode()).digest(), at)
        for at, name in enumerate(names)
        for number in range(RING_POINTS)
    )
    yield len(points)
    marks = [mark for mark, _ in points]
    seats = [at for _, at in points]
    modulo, ring = [0.0] * len(names), [0.0] * len(names)
    for stack in stacks if names else ():
        pairs = zip(stack.keys, stack.loads, strict=True)
        while some := list(islice(pairs, _AT_ONCE)):
            for key, load in some:
                digest = blake2s(key.encode()).digest()
                modulo[int.from_bytes(digest, "big") % len(names)] += load
                ring[seats[bisect_right(marks, digest) % len(marks)]] += load
            yield _DIGEST_WORK * len(some)
    return Yardstick(
        fleet_figures(dict(zip(names, modulo, strict=True)), capacities),
        fleet_figures(dict(zip(names, ring, strict=True)), capacities),
    )
