"""The working state of one plan: loads, and who is hottest and coldest, kept in order.

Decides nothing; it is the one mutable thing in the planner and lives for one plan. Seats are
numbered zone by zone and by name, so that ties fall the same way whatever order they came in.
A seat's shards are sorted only when a plan first looks at them: most seats never are.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from math import fsum, inf

from coordinator.core.planner.records import Hold, Holdings, Seat, Stack, in_turn


@dataclass(slots=True)
class Shelf:
    """A seat's movable shards, lightest first, ties by key: loads, and the keys beside them."""

    loads: list[float] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def take(self, key: str, load: float) -> None:
        """Remove it: within one plan a shard moves once."""
        at = bisect_left(self.loads, load)
        while self.keys[at] != key:
            at += 1
        del self.loads[at], self.keys[at]


def is_free(hold: Hold | None) -> bool:
    """Whether the balancer may move it now: the usual rule for what stands on a shelf."""
    return hold is None


class Board:
    """Loads of all seats that take part, in heat order, and their shelves."""

    def __init__(self, seats: Iterable[Seat], holdings: Holdings) -> None:
        """What lies at an executor without a seat is left out; so are seats with no part in it.

        A seat takes part if it may receive, or if it may be relieved and holds something.
        """
        self.seats: list[Seat] = []
        self.stacks: list[Stack] = []
        for seat in in_turn(seats):
            stack = holdings.stacks.get(seat.executor, Stack())
            if seat.is_open or (seat.is_source and stack.keys):
                self.seats.append(seat)
                self.stacks.append(stack)
        self.holdings = holdings
        self.capacities = [seat.capacity for seat in self.seats]
        self.loads = [stack.total for stack in self.stacks]
        self.total = fsum(self.loads)
        self.open_count = sum(1 for seat in self.seats if seat.is_open)
        self.lightest = 0.0  # what is not above it is not worth listing on a shelf
        self.may_move: Callable[[Hold | None], bool] = is_free
        self.moved: set[str] = set()
        self.shelves: dict[int, Shelf] = {}
        self.work = 0
        """Shards looked at so far, or as much: what a plan cost, whatever the machine."""
        heat = self.heat()
        self.sources = [entry for entry in heat if self.seats[entry[1]].is_source]
        self.targets = [entry for entry in heat if self.seats[entry[1]].is_open]
        self.rankings = [self.sources, self.targets]
        """Lists that `shift` keeps in order; who looks for steps may add its own."""

    def twin(self) -> "Board":
        """A board of the same seats and present loads that shifts apart from this one."""
        twin = copy(self)
        twin.loads = list(self.loads)
        twin.sources, twin.targets = list(self.sources), list(self.targets)
        twin.rankings = [twin.sources, twin.targets]
        twin.moved, twin.shelves = set(), {}
        return twin

    def under(self, may_move: Callable[[Hold | None], bool], *, has_bans: bool = True) -> "Board":
        """A view of this board, not to be shifted, with other rules for what may move."""
        view = copy(self)
        view.may_move, view.shelves = may_move, {}
        if not has_bans:
            view.holdings = replace(self.holdings, bans={})
        return view

    def heat(self) -> list[tuple[float, int]]:
        """Utilisation and number of every seat, coldest first."""
        return sorted((self.utilisation(at), at) for at in range(len(self.seats)))

    def utilisation(self, at: int) -> float:
        """Load over capacity of seat number `at`."""
        return self.loads[at] / self.capacities[at]

    @property
    def load_mean(self) -> float:
        """Load of a mean open executor."""
        return self.total / self.open_count

    @property
    def unit(self) -> float:
        """The potential that counts as 1: the same share of it means the same in every fleet."""
        room = fsum(seat.capacity for seat in self.seats if seat.is_open)
        return self.load_mean**2 * self.open_count / room

    @property
    def apart(self) -> float:
        """Utilisation of the hottest source above that of the coldest target."""
        if not self.sources or not self.targets:
            return 0.0
        return max(0.0, self.sources[-1][0] - self.targets[0][0])

    def weightless(self, floor: float) -> float:
        """Shards up to this load can score no more than `floor`.

        A shard of load w gains less than 2 w apart, and nobody gets further apart in a descent.
        """
        apart = self.apart
        return floor / (2.0 * apart) if apart > 0.0 else inf

    def hottest_source(self) -> str:
        """Name of the hottest seat that may be relieved; empty if there is none."""
        return self.seats[self.sources[-1][1]].executor if self.sources else ""

    def shelf(self, at: int) -> Shelf:
        """The movable shards of a seat, sorted on first use."""
        shelf = self.shelves.get(at)
        if shelf is None:
            shelf = self.shelves[at] = self._shelf_of(at)
        return shelf

    def move(self, key: str, load: float, source: int) -> None:
        """Take a shard off its shelf for the rest of the plan: it moves once."""
        self.moved.add(key)
        self.shelf(source).take(key, load)

    def shift(self, source: int, target: int, load: float) -> None:
        """Carry `load` from one seat to the other and keep the order by heat."""
        for at, change in ((source, -load), (target, load)):
            before = (self.utilisation(at), at)
            self.loads[at] += change
            after = (self.utilisation(at), at)
            for ranking in self.rankings:
                place = bisect_left(ranking, before)
                if place < len(ranking) and ranking[place] == before:
                    del ranking[place]
                    insort(ranking, after)

    def loads_by_executor(self) -> dict[str, float]:
        """Present loads by executor name."""
        return {seat.executor: load for seat, load in zip(self.seats, self.loads, strict=True)}

    def capacities_by_executor(self) -> dict[str, float]:
        """Capacities by executor name."""
        return {seat.executor: seat.capacity for seat in self.seats}

    def _shelf_of(self, at: int) -> Shelf:
        stack, lightest = self.stacks[at], self.lightest
        listed = [
            (load, key)
            for load, key in zip(stack.loads, stack.keys, strict=True)
            if load > lightest
        ]
        if self.holdings.holds:
            hold_of, may_move = self.holdings.holds.get, self.may_move
            listed = [one for one in listed if may_move(hold_of(one[1]))]
        if self.moved:
            listed = [one for one in listed if one[1] not in self.moved]
        listed.sort()
        # To leave a light one out is quick, to list one is not.
        self.work += len(stack.keys) // 4 + 3 * len(listed)
        return Shelf([load for load, _ in listed], [key for _, key in listed])
