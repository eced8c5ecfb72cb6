"""What the balancer decided and why, what it predicted, and what came of it.

Decides what is kept of a pass and for how long. All of it is the leader's own and ends with its
term; that a shard was moved, when and by which figures, is in the events. Must not know how plans
are made, only how one is made again from what it was made of.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from coordinator.core.planner import (
    Aims,
    FleetFigures,
    Holdings,
    Plan,
    Rejection,
    Seat,
    fleet_figures,
    plan_pass,
)

DECISIONS_MAX: Final = 128
"""With a pass every five seconds the moves of ten minutes, and of days where it is calm."""

HISTORY_MAX: Final = 256
"""Passes, those that came to the same in a row counted as one."""

INPUT_SHARDS_MAX: Final = 200_000
"""Of all inputs together: some 4 MB, as names are shared. Those of the oldest decisions go first,
and a namespace that is larger keeps none: its decisions cannot be made again."""

PENDING_MAX: Final = 64
"""Decisions whose effect is yet to be measured; each is looked at once a pass."""


class Effect(StrEnum):
    """How far a decision has come."""

    PENDING = "pending"
    """Its moves are under way, or loads have had no time to tell."""
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a plan is made of."""

    seats: tuple[Seat, ...]
    holdings: Holdings
    aims: Aims

    @property
    def shards(self) -> int:
        """How many there are."""
        return sum(len(stack.keys) for stack in self.holdings.stacks.values())


@dataclass(frozen=True, slots=True)
class Realised:
    """What was measured when the moves had been made, or would have been."""

    at_ms: int
    figures: FleetFigures
    moved_load: float
    """What the moved shards weigh by then."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A pass that planned moves."""

    id: str
    at_ms: int
    at: float
    """Monotonic seconds of this leader."""
    plan: Plan
    is_dry: bool
    """Nothing was moved: the mode was `dry_run`."""
    rejected: tuple[Rejection, ...] = ()
    left_out: tuple[str, ...] = ()
    """Shards of planned moves that had changed hands before the plan was ready."""
    inputs: Inputs | None = None
    repeats: int = 0
    """How often a dry run came to the same since."""
    realised: Realised | None = None

    @property
    def effect(self) -> Effect:
        """How far it has come."""
        return Effect.PENDING if self.realised is None else Effect.MEASURED


@dataclass(frozen=True, slots=True)
class PassEntry:
    """One pass, or several in a row that came to the same."""

    first_ms: int
    last_ms: int
    count: int
    outcome: str
    """Why it ended where it did, or why none was made."""
    moves: int = 0
    decision: str | None = None
    blocked: str = ""
    """Executor and reason."""


def again(inputs: Inputs) -> Plan:
    """The plan that these inputs give: the same whenever and wherever it is made."""
    return plan_pass(inputs.seats, inputs.holdings, inputs.aims)


@dataclass(slots=True)
class DecisionBook:
    """The newest decisions and passes of one namespace."""

    history: deque[PassEntry] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))
    _by_id: dict[str, Decision] = field(default_factory=dict)
    _of_shard: dict[str, str] = field(default_factory=dict)
    _pending: dict[str, None] = field(default_factory=dict)
    _input_shards: int = 0
    _last_id: int = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Decision]:
        """Those that are kept, newest first."""
        return list(reversed(self._by_id.values()))

    def find(self, decision: str) -> Decision | None:
        """One of them."""
        return self._by_id.get(decision)

    def of_shard(self, key: str) -> Decision | None:
        """The newest that planned to move a shard."""
        return self._by_id.get(self._of_shard.get(key, ""))

    def pending(self) -> list[Decision]:
        """Those whose effect is not measured yet, oldest first."""
        return [self._by_id[one] for one in self._pending]

    def new_id(self, at_ms: int) -> str:
        """A name for a decision of this moment: grows, also from one leader to the next."""
        self._last_id = max(self._last_id + 1, at_ms)
        return str(self._last_id)

    def add(self, decision: Decision) -> Decision:
        """Keep a decision; a dry run that comes to what the last one came to is that one again."""
        last = next(reversed(self._by_id.values()), None)
        if last is not None and decision.is_dry and _is_same(last, decision):
            kept = replace(last, repeats=last.repeats + 1)
            self._by_id[last.id] = kept
            return kept
        self._by_id[decision.id] = decision
        self._pending[decision.id] = None
        for move in decision.plan.moves:
            self._of_shard[move.key] = decision.id
        if decision.inputs is not None:
            self._input_shards += decision.inputs.shards
        while len(self._by_id) > DECISIONS_MAX:
            self._forget(next(iter(self._by_id)))
        while self._input_shards > INPUT_SHARDS_MAX:
            self._drop_inputs()
        while len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        return decision

    def passed(self, entry: PassEntry) -> None:
        """Keep a pass, or count it with the one before that came to the same."""
        last = self.history[-1] if self.history else None
        if last is not None and (last.outcome, last.moves, last.decision, last.blocked) == (
            entry.outcome,
            entry.moves,
            entry.decision,
            entry.blocked,
        ):
            self.history[-1] = replace(last, last_ms=entry.last_ms, count=last.count + 1)
        else:
            self.history.append(entry)

    def realise(self, decision: str, realised: Realised) -> None:
        """Its effect was measured."""
        self._pending.pop(decision, None)
        if decision in self._by_id:
            self._by_id[decision] = replace(self._by_id[decision], realised=realised)

    def _forget(self, decision: str) -> None:
        gone = self._by_id.pop(decision)
        self._pending.pop(decision, None)
        if gone.inputs is not None:
            self._input_shards -= gone.inputs.shards
        for move in gone.plan.moves:
            if self._of_shard.get(move.key) == decision:
                del self._of_shard[move.key]

    def _drop_inputs(self) -> None:
        """Of the oldest decision that has some."""
        oldest = next(one for one in self._by_id.values() if one.inputs is not None)
        self._input_shards -= 0 if oldest.inputs is None else oldest.inputs.shards
        self._by_id[oldest.id] = replace(oldest, inputs=None)


def _is_same(one: Decision, other: Decision) -> bool:
    def moves(decision: Decision) -> list[tuple[str, str, str]]:
        return [(move.key, move.source, move.target) for move in decision.plan.moves]

    return one.is_dry and moves(one) == moves(other)


def hypothetical(
    loads: dict[str, float], capacities: dict[str, float], plan: Plan, weights: dict[str, float]
) -> FleetFigures:
    """The figures that the fleet would have now if the plan had been carried out.

    `weights` has what the shards weigh now that still lie where the plan found them.
    """
    after = dict(loads)
    for move in plan.moves:
        weight = weights.get(move.key, 0.0)
        if move.source in after and move.target in after:
            after[move.source] -= weight
            after[move.target] += weight
    return fleet_figures(after, capacities)
