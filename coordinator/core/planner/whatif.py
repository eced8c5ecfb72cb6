"""The same planner on a fleet that is not there: fewer executors, more, other settings.

Decides what becomes of the shards of executors that are taken away, and what those are like that
are added. Pure and on its own copy, so it may run beside the leader's loop. Must not know who asks.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum
from typing import Final

from coordinator.core.planner.passes import plan_pass
from coordinator.core.planner.place import place
from coordinator.core.planner.records import (
    Aims,
    Hold,
    Holdings,
    Piece,
    Plan,
    Seat,
    Stack,
)
from coordinator.core.planner.yardstick import Yardstick, yardstick

NEW: Final = "+"
"""Names of added executors begin with it; no real one's does."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Executors and what lies on them."""

    seats: tuple[Seat, ...]
    holdings: Holdings
    unplaced: int = 0
    """Shards of executors that were taken away and that nobody is left for."""

    @property
    def shards(self) -> int:
        """How many shards lie on it."""
        return sum(len(stack.keys) for stack in self.holdings.stacks.values())

    @property
    def load(self) -> float:
        """Of all shards."""
        return fsum(stack.total for stack in self.holdings.stacks.values())

    @property
    def heaviest(self) -> float:
        """Load of the heaviest shard."""
        return max((stack.top for stack in self.holdings.stacks.values()), default=0.0)

    @property
    def open_seats(self) -> list[Seat]:
        """Who may be given shards."""
        return [seat for seat in self.seats if seat.is_open]


@dataclass(frozen=True, slots=True)
class Outlook:
    """How a number of executors would do with these shards."""

    executors: int
    plan: Plan
    owed: int
    """Shards that find a new executor because theirs is gone."""
    hashed: Yardstick


def at_rest(scene: Scene) -> Scene:
    """The same as if no handoff were under way and no shard had moved lately; pins stay."""
    holdings = scene.holdings
    pins = {key: hold for key, hold in holdings.holds.items() if hold is Hold.PINNED}
    return replace(
        scene,
        seats=tuple(replace(seat, in_flight=0) for seat in scene.seats),
        holdings=replace(holdings, holds=pins),
    )


def without(scene: Scene, gone: Collection[str]) -> Scene:
    """The executors that are gone give their shards to the others, as after a loss."""
    seats = tuple(seat for seat in scene.seats if seat.executor not in gone)
    old = scene.holdings
    left = {name: stack for name, stack in old.stacks.items() if name not in gone}
    pieces = [
        Piece(key, load, banned=old.bans.get(key, frozenset()))
        for name in sorted(old.stacks)
        if name in gone
        for key, load in zip(old.stacks[name].keys, old.stacks[name].loads, strict=True)
    ]
    found = place(
        pieces,
        seats,
        {name: stack.total for name, stack in left.items()},
        {name: len(stack.keys) for name, stack in left.items()},
    )
    arrived: dict[str, tuple[list[str], list[float]]] = {}
    for one in found.placed:
        keys, loads = arrived.setdefault(one.target, ([], []))
        keys.append(one.key)
        loads.append(one.load)
    stacks = dict(left)
    for name, (keys, loads) in arrived.items():
        before = left.get(name, Stack())
        stacks[name] = Stack.of([*before.keys, *keys], [*before.loads, *loads])
    homeless = {piece.key for piece in pieces}
    holds = {key: hold for key, hold in old.holds.items() if key not in homeless}
    holdings = Holdings(stacks, holds, old.bans)
    return Scene(seats, holdings, scene.unplaced + len(found.owed))


def resized(scene: Scene, executors: int) -> Scene:
    """So many executors: the least loaded go first; new ones are like the middle of the others.

    Executors that may be given nothing are gone in any case: they are on their way out.
    """
    scene = without(scene, {seat.executor for seat in scene.seats if not seat.is_open})
    stacks = scene.holdings.stacks
    by_load = sorted(
        scene.seats, key=lambda seat: (stacks.get(seat.executor, Stack()).total, seat.executor)
    )
    if executors <= len(by_load):
        gone = {seat.executor for seat in by_load[: len(by_load) - executors]}
        return without(scene, gone)
    capacity = _middle(seat.capacity for seat in by_load)
    added = tuple(
        Seat(f"{NEW}{number}", capacity) for number in range(1, executors - len(by_load) + 1)
    )
    return replace(scene, seats=(*scene.seats, *added))


def unlimited(aims: Aims, shards: int) -> Aims:
    """The same aims where time is no matter: what many passes come to."""
    return replace(
        aims,
        start_gap=aims.stop_gap,
        budget=2 * shards + 2,
        per_executor=None,
        ramps={},
    )


def outlooks(scene: Scene, counts: Iterable[int], aims: Aims) -> Iterator[Outlook]:
    """The outlook for each number of executors, one at a time."""
    scene = at_rest(scene)
    for executors in counts:
        changed = resized(scene, executors)
        yield outlook(changed, unlimited(aims, changed.shards), owed=_moved(scene, changed))


def outlook(scene: Scene, aims: Aims, *, owed: int = 0) -> Outlook:
    """How the scene would do once it was levelled."""
    rooms = {seat.executor: seat.capacity for seat in scene.open_seats}
    stacks = list(scene.holdings.stacks.values())
    plan = plan_pass(scene.seats, scene.holdings, aims)
    return Outlook(len(rooms), plan, owed, yardstick(stacks, rooms))


def _moved(before: Scene, after: Scene) -> int:
    """How many shards lie elsewhere because their executor is gone."""
    left = {seat.executor for seat in after.seats}
    stacks = before.holdings.stacks
    return sum(len(stack.keys) for name, stack in stacks.items() if name not in left)


def executors_needed(scene: Scene, high_mark: float) -> int | None:
    """The fewest executors with which nobody needs to be above the mark; None if none are enough.

    Nobody is hotter than the heaviest shard makes its own executor, and the mean is a bound.
    """
    rooms = [seat.capacity for seat in scene.open_seats]
    return needed(scene.load, scene.heaviest, rooms, high_mark)


def needed(load: float, heaviest: float, rooms: Sequence[float], high_mark: float) -> int | None:
    """The same of a load, its heaviest shard and the capacities there are."""
    most = high_mark * _middle(rooms)
    if heaviest > most:
        return None
    return max(1, ceil(load / most - 1e-9))


def _middle(rooms: Iterable[float]) -> float:
    """The capacity in the middle; 1 where there is none."""
    ordered = sorted(rooms)
    return ordered[len(ordered) // 2] if ordered else 1.0
