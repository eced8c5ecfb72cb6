"""The best next step between two executors: one shard over, or two exchanged.

Decides how a step is scored. The potential is the sum over executors of
`(load - fair load)^2 / capacity`; a step scores what it takes off that, divided by what it costs:
the moves it needs and, weighed by `load_cost`, the load they carry. Must not know of budgets,
gates or limits. Only steps after which source and target have not changed places are legal, so no
step can make a new hottest executor or a new coldest one.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.core.planner.board import Board, Shelf
from coordinator.core.planner.records import Piece

# How many neighbours of the ideal load are tried when the nearest are banned: bans are rare and
# few, and the further from the ideal the less a shard helps.
_REACH = 16

# Swaps are sought with the most promising targets only: on 37 measured snapshots more of them
# found cheaper steps but no better end.
_SWAP_TARGETS = 3

# How many shards of the source are tried for a swap. Shards heavier than the ideal are few unless
# the gap is tiny, and the lightest of them, tried first, are the cheapest to move.
_SWAP_REACH = 512


# A shard above this share of a mean executor's load is heavy: it may be moved away from its lighter
# neighbours rather than they from it. For lighter ones it saved no moves and carried more load.
_HEAVY = 0.5

# Lighter shards that gain nearly as much as the heavy one, for less, are as good.
_NEARLY = 0.9

# How many lighter shards are added up to see whether they would do instead of a heavy one.
_WAY_REACH = 64

# How many shards might be looked at in the time that a search takes, and that a heavy one tried
# for a swap takes: for a plan in slices, which have to end in time.
_STEP_WORK = 200
_SWAP_WORK = 10


@dataclass(frozen=True, slots=True)
class Step:
    """A move of `piece`, against `back` if it is a swap, and what it is worth."""

    source: int
    target: int
    piece: Piece
    back: Piece | None
    gain: float
    score: float

    @property
    def transfer(self) -> float:
        """Net load that leaves the source."""
        return self.piece.load - (0.0 if self.back is None else self.back.load)

    @property
    def moves(self) -> int:
        """How many moves it takes."""
        return 1 if self.back is None else 2


@dataclass(frozen=True, slots=True)
class Pricing:
    """What makes a step dear; `load_mean` is the load of a mean open executor."""

    load_mean: float
    load_cost: float
    cold: int

    def score(self, gain: float, moves: int, load: float) -> float:
        """Gain over cost: a heavy shard must gain more than a light one."""
        return gain / (moves + self.load_cost * load / self.load_mean)


@dataclass(slots=True)  # not frozen: built thousands of times a plan, and freezing triples that
class Pair:
    """A source, a colder target and the arithmetic of a transfer between them."""

    source: int
    target: int
    apart: float  # utilisation of the source minus that of the target, > 0
    inverse: float  # 1/c + 1/c
    most: float  # from this transfer on the two have changed places
    ideal: float  # the transfer that levels the two and gains most

    def gain(self, transfer: float) -> float:
        """What a transfer takes off the potential."""
        return transfer * (2.0 * self.apart - transfer * self.inverse)

    def is_legal(self, transfer: float) -> bool:
        """Whether it goes the right way and not too far."""
        return 0.0 < transfer < self.most


def pair(board: Board, source: int, target: int) -> Pair:
    """The pair as the board stands now."""
    return _pair(board, source, target, board.utilisation(source) - board.utilisation(target))


def _pair(board: Board, source: int, target: int, apart: float) -> Pair:
    from_room, to_room = board.capacities[source], board.capacities[target]
    inverse = 1.0 / from_room + 1.0 / to_room
    return Pair(source, target, apart, inverse, apart * min(from_room, to_room), apart / inverse)


def best_step(
    board: Board, source: int, shelf: Shelf, pricing: Pricing, *, has_swaps: bool
) -> Step | None:
    """The best-scoring step that relieves `source` of something on `shelf`."""
    heat = board.utilisation(source)
    board.work += _STEP_WORK
    pairs = [
        _pair(board, source, target, heat - at)
        for at, target in board.targets[: pricing.cold]
        if at < heat and target != source
    ]
    best = _best_single(pairs, shelf, board, pricing)
    if not has_swaps or not board.seats[source].is_open:
        return best
    # A swap is two moves: it can only win where the whole gain to be had, halved, is more.
    single_gain = 0.0 if best is None else best.gain
    promising = sorted(pairs, key=lambda one: -one.gain(one.ideal))[:_SWAP_TARGETS]
    for one in promising:
        if one.gain(one.ideal) / 2.0 > single_gain and board.seats[one.target].is_source:
            best = _best_swap(one, shelf, board, pricing, best)
    return best


def _best_single(pairs: list[Pair], shelf: Shelf, board: Board, pricing: Pricing) -> Step | None:
    """The best of moving an allowed shard nearest to a pair's ideal on either side.

    The arithmetic of `Pair` and `Pricing` stands here once more: it is done 16 times a step.
    """
    loads, keys, bans = shelf.loads, shelf.keys, board.holdings.bans
    load_cost, load_mean = pricing.load_cost, pricing.load_mean
    found: _Found | None = None
    largest: _Found | None = None
    for one in pairs:
        middle = bisect_left(loads, one.ideal)
        for at in _allowed(keys, bans, middle, board, one.target) if bans else (middle - 1, middle):
            if not 0 <= at < len(loads):
                continue
            load = loads[at]
            if 0.0 < load < one.most:
                gain = load * (2.0 * one.apart - load * one.inverse)
                score = gain / (1 + load_cost * load / load_mean)
                if found is None or score > found[0]:
                    found = (score, gain, one, at)
                if largest is None or gain > largest[1]:
                    largest = (score, gain, one, at)
    if found is None or largest is None:
        return None
    if (
        largest[1] > found[1]
        and loads[largest[3]] > _HEAVY * load_mean
        and _is_long_way(largest, found, shelf, board, pricing)
    ):
        found = largest
    score, gain, one, at = found
    piece = board.holdings.piece(keys[at], loads[at])
    return Step(one.source, one.target, piece, None, gain, score)


_Found = tuple[float, float, Pair, int]
"""Score, gain, pair and place on the shelf of a single move."""


def _is_long_way(
    largest: _Found, found: _Found, shelf: Shelf, board: Board, pricing: Pricing
) -> bool:
    """Whether lighter shards would have to cost more than the heavy one to gain nearly as much.

    By itself each of them scores better, the first ones at least. Beside a dominant shard they are
    many, and to move that one away from them is a single move.
    """
    goal, one, at = _NEARLY * largest[1], found[2], found[3]
    gained = cost = 0.0
    apart = one.apart
    for load in reversed(shelf.loads[max(0, at + 1 - _WAY_REACH) : at + 1]):
        board.work += 1
        gained += load * (2.0 * apart - load * one.inverse)
        cost += 1.0 + pricing.load_cost * load / pricing.load_mean
        apart -= load / board.capacities[one.source]
        if gained >= goal:
            return gained / cost < largest[0]
    return True  # however many: they do not get there


def _allowed(
    keys: list[str], bans: Mapping[str, frozenset[str]], middle: int, board: Board, target: int
) -> list[int]:
    """The nearest places on either side of the middle whose shard may go to that target."""
    name = board.seats[target].executor
    below = range(middle - 1, max(-1, middle - 1 - _REACH), -1)
    above = range(middle, min(len(keys), middle + _REACH))
    sides = (
        next((at for at in side if name not in bans.get(keys[at], ())), -1)
        for side in (below, above)
    )
    return list(sides)


def _best_swap(
    one: Pair, ours: Shelf, board: Board, pricing: Pricing, best: Step | None
) -> Step | None:
    """The better of `best` and exchanging a shard heavier than the ideal for its counterweight."""
    theirs, bans = board.shelf(one.target), board.holdings.bans
    source_name, target_name = board.seats[one.source].executor, board.seats[one.target].executor
    first = bisect_left(ours.loads, one.ideal)
    most_gain, found = one.gain(one.ideal), None
    best_score = 0.0 if best is None else best.score
    for heavy in range(first, min(len(ours.loads), first + _SWAP_REACH)):
        key, load = ours.keys[heavy], ours.loads[heavy]
        if pricing.score(most_gain, 2, load) <= best_score:
            break  # nor can a heavier one, which is dearer
        board.work += _SWAP_WORK
        if bans and target_name in bans.get(key, ()):
            continue
        near = bisect_left(theirs.loads, load - one.ideal)
        for light in range(max(0, near - 1), min(len(theirs.loads), near + 1)):
            weight = theirs.loads[light]
            transfer = load - weight
            if not one.is_legal(transfer) or source_name in bans.get(theirs.keys[light], ()):
                continue
            score = pricing.score(one.gain(transfer), 2, load + weight)
            if score > best_score:
                best_score, found = score, (key, load, theirs.keys[light], weight)
    if found is None:
        return best
    key, load, counter, weight = found
    there, back = board.holdings.piece(key, load), board.holdings.piece(counter, weight)
    return Step(one.source, one.target, there, back, one.gain(load - weight), best_score)
