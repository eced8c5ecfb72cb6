"""Why a shard is not moved to an executor: the rule that says no, with the figures it goes by.

Decides by the rules that the descent goes by, one move at a time; swaps are not gone through. Must
not know of time: what a shard rests for is told as its hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from coordinator.core.planner.board import Board
from coordinator.core.planner.records import Aims, Hold, Holdings, Move, Piece, Plan, Seat, Stack
from coordinator.core.planner.steps import Pricing, pair
from coordinator.core.planner.worth import floor_of

REJECTED_MAX: Final = 40
"""Candidates that are told of a plan: the heaviest shards of its hottest executor."""


class Rule(StrEnum):
    """What speaks against a move. The first that does is told."""

    SOURCE_WAITS = "source_waits"
    """Its executor is silent, evicted or about to be back: nothing is asked of it."""
    PINNED = "pinned"
    IN_FLIGHT = "in_flight"
    UNMEASURED = "unmeasured"
    COOLDOWN = "cooldown"
    QUIET = "quiet"
    """Its executor is at or under the quiet mark."""
    NOT_OPEN = "not_open"
    """The other may be given nothing: it is drained, cordoned, leaving or silent."""
    BANNED = "banned"
    """It failed to start there lately."""
    NOT_COLDER = "not_colder"
    """The other is at least as hot."""
    TOO_HEAVY = "too_heavy"
    """The two would only change places."""
    NOT_WORTH_IT = "not_worth_it"
    """It would gain less than a move costs."""
    LIMIT = "limit"
    """One of the two has as many handoffs under way as it may, or is filled by ramp."""
    OUTSCORED = "outscored"
    """Other moves gain more for what they cost; this one's turn may come."""


_OF_HOLD: Final = {
    Hold.PINNED: Rule.PINNED,
    Hold.IN_FLIGHT: Rule.IN_FLIGHT,
    Hold.UNMEASURED: Rule.UNMEASURED,
    Hold.COOLDOWN: Rule.COOLDOWN,
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A move that is not made, and why. Utilisations as they are, and as they would be."""

    key: str
    source: str
    target: str
    load: float
    rule: Rule
    worth: float
    """What it gains for its cost, in multiples of what a step must: above 1 it would pay."""
    source_before: float
    source_after: float
    target_before: float
    target_after: float


class Court:
    """Judges moves on a fleet as it stands."""

    def __init__(
        self, seats: Iterable[Seat], holdings: Holdings, aims: Aims, typical: float
    ) -> None:
        """`typical` is what a plan on this fleet found (`Plan.typical`)."""
        self._board = Board(seats, holdings)
        self._numbers = {seat.executor: at for at, seat in enumerate(self._board.seats)}
        self._aims = aims
        mean = self._board.load_mean if self._board.open_count else 0.0
        self._pricing = Pricing(mean, aims.load_cost, aims.cold)
        self._floor = floor_of(aims.stop_gap, typical) * self._board.unit if mean > 0.0 else 0.0

    @classmethod
    def of_totals(
        cls, seats: Iterable[Seat], loads: Mapping[str, float], aims: Aims, typical: float
    ) -> "Court":
        """The same where only totals are known: enough for moves of single shards."""
        stacks = {name: Stack(("",), (load,), load, load) for name, load in loads.items()}
        return cls(seats, Holdings(stacks), aims, typical)

    def coldest(self) -> list[str]:
        """Open executors, coldest first."""
        return [self._board.seats[at].executor for _, at in self._board.targets]

    def hottest(self) -> str:
        """The hottest executor that may be relieved; empty if there is none."""
        return self._board.hottest_source()

    def verdict(self, piece: Piece, source: str, target: str) -> Rejection | None:
        """The rule against a move; None where one of the two takes no part in balance."""
        there, here = self._numbers.get(target), self._numbers.get(source)
        if there is None or here is None or here == there:
            return None
        board = self._board
        one = pair(board, here, there)
        gain = one.gain(piece.load)
        score = self._pricing.score(gain, 1, piece.load) if self._pricing.load_mean > 0.0 else 0.0
        before, target_before = board.utilisation(here), board.utilisation(there)
        return Rejection(
            key=piece.key,
            source=source,
            target=target,
            load=piece.load,
            rule=self._rule(piece, here, there, score),
            worth=max(0.0, score / self._floor) if self._floor > 0.0 else 0.0,
            source_before=before,
            source_after=before - piece.load / board.capacities[here],
            target_before=target_before,
            target_after=target_before + piece.load / board.capacities[there],
        )

    def _rule(self, piece: Piece, here: int, there: int, score: float) -> Rule:
        board, quiet_mark = self._board, self._aims.quiet_mark
        one = pair(board, here, there)
        rules = (
            (not board.seats[here].is_source, Rule.SOURCE_WAITS),
            (piece.hold is not None, _OF_HOLD.get(piece.hold or Hold.PINNED, Rule.PINNED)),
            (quiet_mark is not None and board.utilisation(here) <= quiet_mark, Rule.QUIET),
            (not board.seats[there].is_open, Rule.NOT_OPEN),
            (board.seats[there].executor in piece.banned, Rule.BANNED),
            (one.apart <= 0.0, Rule.NOT_COLDER),
            (piece.load > 0.0 and not one.is_legal(piece.load), Rule.TOO_HEAVY),
            (score <= self._floor, Rule.NOT_WORTH_IT),
        )
        return next((rule for speaks, rule in rules if speaks), Rule.OUTSCORED)


def rejected(seats: Iterable[Seat], holdings: Holdings, aims: Aims, plan: Plan) -> list[Rejection]:
    """What a plan passed over: what it held back, and the heaviest shards of the hottest executor.

    Each of these is told for the executor that it would have helped most: the coldest.
    """
    court = Court(seats, holdings, aims, plan.typical)
    found = [_held_back(move) for move in plan.held_back[: REJECTED_MAX // 2]]
    source, targets = court.hottest(), court.coldest()
    if not source or not targets:
        return found
    told = {move.key for move in (*plan.moves, *plan.held_back)}
    stack = holdings.stacks.get(source, Stack())
    heaviest = sorted(zip(stack.loads, stack.keys, strict=True), key=lambda one: (-one[0], one[1]))
    for load, key in heaviest[:REJECTED_MAX]:
        target = next((one for one in targets if one != source), "")
        verdict = None if key in told else court.verdict(holdings.piece(key, load), source, target)
        if verdict is not None and len(found) < REJECTED_MAX:
            found.append(verdict)
    return found


def _held_back(move: Move) -> Rejection:
    return Rejection(
        key=move.key,
        source=move.source,
        target=move.target,
        load=move.load,
        rule=Rule.LIMIT,
        worth=1.0,
        source_before=move.source_before,
        source_after=move.source_after,
        target_before=move.target_before,
        target_after=move.target_after,
    )
