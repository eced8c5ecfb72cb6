"""Which steps of a descent may be acted upon now, and the moves that result.

Decides by counting handoffs per executor, and what newly joined ones are sent. Limits hold steps
back, they do not bend the descent: a plan that went round a busy executor would send shards to
second-best places and fetch them again later, so that a higher limit would cost more moves. A step
held back leaves its pair less level than the descent believed, so each later step is judged by the
loads that will really be. Must not know how steps are found.
"""

from collections.abc import Mapping

from coordinator.core.planner.board import Board
from coordinator.core.planner.records import Move, MoveReason, Ramp
from coordinator.core.planner.steps import Step, pair


class RampUse:
    """What newly joined executors were sent so far, against what they may be sent."""

    def __init__(self, ramps: Mapping[str, Ramp]) -> None:
        self._ramps = ramps
        self._sent = dict.fromkeys(ramps, (0.0, 0))

    def has_room(self, executor: str, load: float) -> bool:
        """Whether a shard of that load may follow what was sent."""
        ramp = self._ramps.get(executor)
        if ramp is None:
            return True
        sent_load, sent_count = self._sent[executor]
        if sent_count < ramp.at_least:
            return True
        if ramp.count is not None and sent_count >= ramp.count:
            return False
        return ramp.load is None or sent_load + load <= ramp.load

    def is_full(self, executor: str) -> bool:
        """Whether no shard may follow any more, however light it is."""
        ramp = self._ramps.get(executor)
        if ramp is None:
            return False
        sent_load, sent_count = self._sent[executor]
        if sent_count < ramp.at_least:
            return False
        is_counted_out = ramp.count is not None and sent_count >= ramp.count
        return is_counted_out or (ramp.load is not None and sent_load > ramp.load)

    def use(self, executor: str, load: float) -> None:
        """One shard of that load is sent."""
        if executor in self._sent:
            sent_load, sent_count = self._sent[executor]
            self._sent[executor] = (sent_load + load, sent_count + 1)


class Admission:
    """Turns steps into moves, or holds them back; keeps its own board of what really moves."""

    def __init__(
        self,
        actual: Board,
        per_executor: int | None,
        ramps: Mapping[str, Ramp],
        unit: float,
    ) -> None:
        """`unit` is the potential that counts as 1 in a move's gain."""
        self.actual = actual
        self.moves: list[Move] = []
        self.held_back: list[Move] = []
        self._per_executor = per_executor
        self._unit = unit
        self._in_flight = [seat.in_flight for seat in actual.seats]
        self._ramps = RampUse(ramps)

    def offer(self, step: Step) -> None:
        """Admit the step if both executors have a hand free and it still helps."""
        moves = self._as_moves(step)
        ends = (step.source, step.target)
        if not (
            pair(self.actual, *ends).is_legal(step.transfer)
            and all(self._has_room(at, step.moves) for at in ends)
            and all(self._ramps.has_room(move.target, move.load) for move in moves)
        ):
            self.held_back += moves
            return
        for at in ends:
            self._in_flight[at] += step.moves
        for move in moves:
            self._ramps.use(move.target, move.load)
        self.actual.shift(*ends, step.transfer)
        self.moves += moves

    def _has_room(self, at: int, moves: int) -> bool:
        limit = self._per_executor
        return limit is None or self._in_flight[at] + moves <= limit

    def _as_moves(self, step: Step) -> list[Move]:
        """The step as one move or two, judged by the loads that really are."""
        one = pair(self.actual, step.source, step.target)
        source, target = (self.actual.seats[at].executor for at in (step.source, step.target))
        source_before = self.actual.utilisation(step.source)
        target_before = self.actual.utilisation(step.target)
        source_after = source_before - step.transfer / self.actual.capacities[step.source]
        target_after = target_before + step.transfer / self.actual.capacities[step.target]
        there = Move(
            key=step.piece.key,
            source=source,
            target=target,
            load=step.piece.load,
            reason=MoveReason.RELIEVE if step.back is None else MoveReason.SWAP,
            gain=one.gain(step.transfer) / self._unit,
            source_before=source_before,
            source_after=source_after,
            target_before=target_before,
            target_after=target_after,
            swap_with=None if step.back is None else step.back.key,
        )
        if step.back is None:
            return [there]
        back = Move(
            key=step.back.key,
            source=target,
            target=source,
            load=step.back.load,
            reason=MoveReason.SWAP,
            gain=0.0,
            source_before=target_before,
            source_after=target_after,
            target_before=source_before,
            target_after=source_after,
            swap_with=step.piece.key,
        )
        return [there, back]
