"""How even a fleet could be: what no placement can beat.

Decides the lower bounds for spread and for the hottest executor. Must not know where shards lie,
only their loads and the capacities; stacks are but the form in which loads come. Sums are exact
(`math.fsum`) of sums of stacks, so no figure depends on the order of input.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappush, heapreplace
from math import fsum, sqrt

from coordinator.core.planner.records import Bound, Dominant, Stack
from coordinator.core.planner.slices import Slices, finished

# A shard counts as heavier than the level only by more than rounding: n equal shards on n
# executors must not look like n dominant ones.
_ROUNDING = 1e-12

_NOTHING = Bound(spread=0.0, max=0.0, level=0.0, dominant=())


def waterfill(loads: Mapping[str, float], executors: int) -> Bound:
    """Lower bounds for spread and maximum on `executors` of equal capacity 1.

    Each dominant shard has an executor to itself and the rest is spread like water. The loads of
    any placement majorise that vector, so neither figure can be beaten.
    """
    return best_possible(loads, [1.0] * executors)


def best_possible(loads: Mapping[str, float], capacities: Iterable[float]) -> Bound:
    """Lower bounds for the capacity-weighted spread and the highest utilisation.

    Equal capacities: the water-fill bound, which is sharp. Otherwise a weaker one: the k heaviest
    shards lie on at most k executors, whose capacity is at most that of the k largest. That much
    excess over the mean is somewhere, on so little capacity, for every k; the worst k is the bound.
    """
    return finished(bound_slices([Stack.of(list(loads), list(loads.values()))], capacities))


def bound_slices(stacks: Sequence[Stack], capacities: Iterable[float]) -> Slices[Bound]:
    """The same of shards in stacks, some thousands of them at a time."""
    rooms = sorted(capacities, reverse=True)
    if not rooms or not any(stack.keys for stack in stacks):
        return _NOTHING
    heaviest = yield from _heaviest(stacks, len(rooms))
    even = rooms[0] == rooms[-1]
    return _even_bound(stacks, heaviest, rooms) if even else _uneven_bound(stacks, heaviest, rooms)


_Heavy = tuple[float, int]
"""A shard's load and the number of its stack."""


def _heaviest(stacks: Sequence[Stack], count: int) -> Slices[list[_Heavy]]:
    """The heaviest shards of all, heaviest first: no more can be dominant than executors there are.

    Only what is heavier than the lightest of those found so far is looked at twice.
    """
    found: list[_Heavy] = []
    for number, stack in enumerate(stacks):
        is_full = len(found) == count
        if is_full and stack.top <= found[0][0]:
            continue
        edge = found[0][0] if is_full else -1.0
        for load in [load for load in stack.loads if load > edge]:
            if len(found) < count:
                heappush(found, (load, number))
            elif load > found[0][0]:
                heapreplace(found, (load, number))
        yield len(stack.loads)
    return sorted(found, reverse=True)


def _even_bound(stacks: Sequence[Stack], heaviest: Sequence[_Heavy], rooms: list[float]) -> Bound:
    executors = len(rooms)
    total = fsum(stack.total for stack in stacks)
    left = total
    alone = 0
    for load, _ in heaviest[:-1] if len(heaviest) == executors else heaviest:
        if load <= left / (executors - alone) * (1.0 + _ROUNDING):
            break
        left -= load
        alone += 1
    heavy = [load for load, _ in heaviest[:alone]]
    level = _rest(stacks, heaviest[:alone]) / (executors - alone)
    mean = total / executors
    square = fsum((load - mean) ** 2 for load in heavy)
    square += (executors - alone) * (level - mean) ** 2
    return Bound(
        spread=sqrt(square / executors) / mean if heavy else 0.0,
        max=max(heavy, default=level) / rooms[0],
        level=level / rooms[0],
        dominant=_named(stacks, heaviest[:alone]),
    )


def _rest(stacks: Sequence[Stack], taken: Sequence[_Heavy]) -> float:
    """What is left under the water, without a rounded difference of two large sums."""
    from_stack: dict[int, list[float]] = {}
    for load, number in taken:
        from_stack.setdefault(number, []).append(-load)
    return max(
        0.0,
        fsum(
            fsum([*stack.loads, *from_stack[number]]) if number in from_stack else stack.total
            for number, stack in enumerate(stacks)
        ),
    )


def _uneven_bound(stacks: Sequence[Stack], heaviest: Sequence[_Heavy], rooms: list[float]) -> Bound:
    total, room_total = fsum(stack.total for stack in stacks), fsum(rooms)
    mean = total / room_total
    top, square, load, room = mean, 0.0, 0.0, 0.0
    for (shard, _), seat in zip(heaviest, rooms[:-1], strict=False):
        load, room = load + shard, room + seat
        excess = load - mean * room
        if excess > _ROUNDING * total:
            top = max(top, load / room)
            square = max(square, excess**2 * (1.0 / room + 1.0 / (room_total - room)))
    level, alone = _uneven_level(heaviest, rooms, total)
    return Bound(
        spread=sqrt(square / room_total) / mean if mean > 0.0 else 0.0,
        max=top,
        level=level,
        dominant=_named(stacks, heaviest[:alone]),
    )


def _uneven_level(
    heaviest: Sequence[_Heavy], rooms: Sequence[float], total: float
) -> tuple[float, int]:
    """Utilisation left for the rest, and how many shards need the largest executors alone."""
    load, room = total, fsum(rooms)
    for alone, ((shard, _), seat) in enumerate(zip(heaviest, rooms[:-1], strict=False)):
        if shard * room <= (load + _ROUNDING * total) * seat:
            return load / room, alone
        load, room = max(0.0, load - shard), room - seat
    return load / room, min(len(heaviest), len(rooms) - 1)


def _named(stacks: Sequence[Stack], taken: Sequence[_Heavy]) -> tuple[Dominant, ...]:
    """Those shards with their names, heaviest first, ties by key."""
    if not taken:
        return ()
    lightest = taken[-1][0]
    named = [
        Dominant(key, load)
        for stack in stacks
        if stack.top >= lightest
        for key, load in zip(stack.keys, stack.loads, strict=True)
        if load >= lightest
    ]
    return tuple(sorted(named, key=lambda one: (-one.load, one.key)))
