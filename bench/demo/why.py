"""Whether every move is explained by what `shardctl shard inspect` shows of its shard.

Decides what counts as an explanation: for the move that brought a shard where it is, the answer to
"why here", which must name whom it came from; for those before, an event between the same two
executors that says what it was for. Pure: the moves are what executors noted
themselves, the views what the coordinator answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from bench.demo.ledger import Tenure, by_key
from client.views import EventView, ShardView


@dataclass(frozen=True, slots=True)
class Moved:
    """A shard that came from one executor to another."""

    key: str
    source: str
    target: str
    began_at: float
    epoch_first: int
    epoch_last: int


def moves_of(tenures: Iterable[Tenure], since: float, until: float) -> list[Moved]:
    """Every move to a start within this time."""
    return [
        Moved(
            key,
            earlier.executor,
            later.executor,
            later.began_at,
            later.epoch_first,
            later.epoch_last,
        )
        for key, of_key in by_key(tenures).items()
        for earlier, later in pairwise(of_key)
        if earlier.executor != later.executor and since <= later.began_at < until
    ]


def why(move: Moved, view: ShardView | None) -> str:
    """The sentence that explains a move; empty when nothing does."""
    if view is None:
        return ""
    is_last = view.executor == move.target and move.epoch_first <= view.epoch <= move.epoch_last
    if is_last and move.source in view.why_here:
        return view.why_here
    return next((_in_words(event) for event in view.history if _is_of(event, move)), "")


def _is_of(event: EventView, move: Moved) -> bool:
    is_between = (event.executor, event.target) == (move.source, move.target)
    return event.shard == move.key and is_between and bool(_in_words(event))


def _in_words(event: EventView) -> str:
    return event.reason or event.detail


def unexplained(moves: Iterable[Moved], told: Mapping[str, ShardView]) -> list[Moved]:
    """The moves for which there is no such sentence."""
    return [move for move in moves if not why(move, told.get(move.key))]
