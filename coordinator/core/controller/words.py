"""Rules, reasons and moves in sentences, for people who have to live with what they decide.

Decides wording only. Must not know how anything comes about; every figure is handed in.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.events import EventKind
from coordinator.core.planner import BlockedReason, Move, MoveReason, Rejection, Rule, Stop
from coordinator.core.shard import Cause, Shard
from coordinator.core.types import InitialPlacement

STOPS: Final[Mapping[str, str]] = {
    Stop.NO_EXECUTORS: "no executor may be given shards",
    Stop.LEVEL: "the hottest and the coldest executor are closer than the gap",
    Stop.QUIET: "every executor is at or under the quiet mark",
    Stop.BELOW_START_GAP: "no step is worth starting for, though some would be to go on",
    Stop.NOTHING_WORTH_IT: "executors are apart by more than the gap, and no step pays",
    Stop.BUDGET: "more is to be done, and the moves that the budget allows are used up",
}

SKIPS: Final[Mapping[str, str]] = {
    "recovering": "executors are still heard for what they hold from before",
    "off": "the balancer is off",
    "paused": "an operator paused the balancer",
    "no_executors": "there is no executor",
    "mass_failure": "many executors are silent at once",
    "suspect_executor": "an executor has been silent for half a lease",
    "mixed_versions": "a deploy is under way: executors differ in version",
    "stale_data": "too many shards have no fresh load",
    "listening": "this leader began a moment ago and hears the loads first",
}

BLOCKS: Final[Mapping[str, str]] = {
    BlockedReason.FLOOR: "its load is in shards too heavy to help anywhere: only more or larger"
    " executors would",
    BlockedReason.PINNED: "its shards are pinned",
    BlockedReason.COOLDOWN: "its shards were moved lately and rest",
    BlockedReason.BUDGET: "no moves are left for it now, or too many handoffs are under way",
    BlockedReason.NO_TARGET: "no colder executor may be given its shards",
    BlockedReason.STALE_DATA: "its shards are not measured yet",
}

_NOT: Final[Mapping[Rule, str]] = {
    Rule.SOURCE_WAITS: "{source} is silent, evicted or about to be back, so nothing is asked of it",
    Rule.PINNED: "an operator pinned the shard",
    Rule.IN_FLIGHT: "the shard is being moved already",
    Rule.UNMEASURED: "its load was never reported",
    Rule.COOLDOWN: "it was moved a short while ago and rests{rest}",
    Rule.QUIET: "{source} is at {source_before} times its capacity, at or under the quiet mark",
    Rule.NOT_OPEN: "{target} may be given nothing: it is drained, cordoned, leaving or silent",
    Rule.BANNED: "it failed to start on {target} lately",
    Rule.NOT_COLDER: "{target} is no colder: it is at {target_before} times its capacity, {source}"
    " at {source_before}",
    Rule.TOO_HEAVY: "it is too heavy: {target} would be at {target_after}, hotter than {source} is"
    " left at, {source_after}; the two would only change places",
    Rule.NOT_WORTH_IT: "it would gain {worth} of what a move has to gain: {source} is at"
    " {source_before} and {target} at {target_before} times its capacity",
    Rule.LIMIT: "{source} or {target} has as many handoffs under way as it may, or {target} is new"
    " and filled step by step",
    Rule.OUTSCORED: "it would pay, but other moves pay better and come first",
}

_HERE: Final[Mapping[Cause, str]] = {
    Cause.PLACED: "it had no owner, and {executor} was the least loaded that could be given it",
    Cause.BALANCE: "it was moved from {previous} to level the load",
    Cause.DRAIN: "it was moved here because {previous} was drained",
    Cause.LEAVING: "it was moved here because {previous} left",
    Cause.LOST: "it was placed here when {previous} was lost: its lease had run out",
    Cause.PIN: "it was brought to the executor that it is pinned to",
    Cause.OPERATOR: "an operator moved it here from {previous}",
    Cause.RESTART: "{executor} restarted and was given back what it had",
    Cause.FAILED: "it was placed here because it could not be started on {previous}",
    Cause.CLAIM: "it ran here when the cluster had lost its memory, and goes on here",
}

ENDS: Final[Mapping[EventKind, str]] = {
    EventKind.EXECUTOR_LOST: "{executor} was lost: its lease had run out",
    EventKind.EXECUTOR_LEFT: "{executor} left",
    EventKind.EXECUTOR_CLOSED: "{executor} was evicted",
}
"""What took all shards from an executor at once, told of one of them."""

REASON_CHARS_MAX: Final = 120
"""Of an operator's reason, where it is told again with each shard that it moves."""


def share(figure: float) -> str:
    """Load by capacity; not in percent, as many services count in units of their own."""
    return f"{figure:.3g}"


def moved(move: Move) -> str:
    """What a move does, and what it is for."""
    effect = (
        f"it takes {move.source} from {share(move.source_before)} to {share(move.source_after)}"
        f" times its capacity and {move.target} from {share(move.target_before)} to"
        f" {share(move.target_after)}"
    )
    match move.reason:
        case MoveReason.SWAP:
            return f"in exchange for {move.swap_with} {effect}"
        case MoveReason.LEVEL_IDLE:
            return (
                f"idle shards had piled up on {move.source}: this one weighs next to nothing and"
                f" goes to {move.target}, which has fewer"
            )
        case _:
            return effect


def owed(cause: Cause, source: str, target: str, reason: str) -> str:
    """What speaks for a move that is made whatever the balance; `reason` is an operator's."""
    if cause is Cause.PIN:
        return f"it was on {source}"
    chosen = f"{target} was the least loaded that could be given it"
    return f"{reason[:REASON_CHARS_MAX]}; {chosen}" if reason else chosen


def why_not(verdict: Rejection, *, rest_s: float = 0.0) -> str:
    """Why a move is not made."""
    return _NOT[verdict.rule].format(
        source=verdict.source,
        target=verdict.target,
        source_before=share(verdict.source_before),
        source_after=share(verdict.source_after),
        target_before=share(verdict.target_before),
        target_after=share(verdict.target_after),
        worth=f"{verdict.worth:.0%}",
        rest=f" for {rest_s:.0f} s more" if rest_s > 0.0 else "",
    )


def why_here(shard: Shard, first: InitialPlacement = InitialPlacement.LOAD) -> str:
    """Why a shard is with its owner, by the cause of its last assignment alone.

    `first` is how shards that never had an owner get one.
    """
    if shard.cause is Cause.PLACED and shard.previous is not None:
        return (
            f"it was left without an owner by {shard.previous}, and {shard.executor} was the least"
            " loaded that could be given it"
        )
    if shard.cause is Cause.PLACED and first is InitialPlacement.HASH:
        return f"it had no owner, and by its name's hash it was {shard.executor}'s"
    return _HERE[shard.cause].format(
        executor=shard.executor, previous=shard.previous or "an executor that is gone"
    )
