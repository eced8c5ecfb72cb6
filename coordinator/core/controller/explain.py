"""One shard explained: why it is here, why not there, why nothing moves it, what happened to it.

Decides which rules, decisions and events make up the answer. It only reads, and looks at totals of
executors and no other shard, so it may be asked often. Wording is in `words`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final

from coordinator.core.controller import words
from coordinator.core.controller.balance import aims_without_ramps, why_held_up
from coordinator.core.controller.decisions import Decision
from coordinator.core.controller.fleet import Fleet, see
from coordinator.core.controller.mind import Mind
from coordinator.core.events import Event, EventKind
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Court, Hold, Move, Piece, Rule
from coordinator.core.shard import Cause, Fate, Shard, ShardState
from coordinator.core.tenures import Tenure

TARGETS_MAX: Final = 8
"""Executors that a shard is told of why it is not there: as many as a plan tries."""

EVENTS_MAX: Final = 10
"""What last happened to a shard."""

_BLIND: Final = (Rule.NOT_WORTH_IT, Rule.OUTSCORED, Rule.TOO_HEAVY, Rule.NOT_COLDER)
"""What depends on the other executor; the other rules hold against all of them."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An executor that the shard is not on."""

    executor: str
    rule: Rule
    words: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A shard in sentences."""

    here: str
    """Why it is where it is, or why it is nowhere."""
    stays: str
    """Why it is not moved, or where to it is."""
    elsewhere: tuple[Elsewhere, ...]
    """Why it is on none of the coldest others."""
    events: tuple[Event, ...]
    """What last happened to it, newest first."""
    decision: str | None
    """The decision that moved it last, if this leader made it."""


def explain(
    namespace: NamespaceState, mind: Mind, shard: Shard, now: float, at_ms: int
) -> Explanation:
    """A shard as the leader sees it now."""
    events = _events_of(namespace, shard.key)
    decision = mind.decisions.of_shard(shard.key)
    move = None if decision is None else _move_of(decision, shard)
    elsewhere: tuple[Elsewhere, ...] = ()
    if shard.state is ShardState.OWNED and shard.executor is not None and shard.fate is None:
        elsewhere = _elsewhere(namespace, mind, shard, shard.executor, now)
    return Explanation(
        here=_here(namespace, shard, events, move),
        stays=_goes(namespace, shard)
        or _stays(why_held_up(namespace, mind, now, at_ms), elsewhere),
        elsewhere=elsewhere,
        events=events,
        decision=decision.id if decision is not None and move is not None else None,
    )


def _events_of(namespace: NamespaceState, key: str) -> tuple[Event, ...]:
    """Its own events, and the ends of executors that took it from them."""
    kept = list(namespace.events)
    found = [event for event in kept if event.shard == key]
    ends = [event for event in kept if event.kind in words.ENDS]
    found += _ends_of(namespace.tenures.of(key), ends)
    return tuple(nlargest(EVENTS_MAX, found, key=attrgetter("id")))


def _ends_of(tenures: list[Tenure], ends: list[Event]) -> Iterator[Event]:
    """Of a shard's owners that ended with it: the end, and whom it came to next.

    Such an event names no shard, as it is about all that the executor had.
    """
    for at, (had, then) in enumerate(pairwise(tenures), start=1):
        if then.executor == had.executor:
            continue
        for end in ends:
            if end.executor == had.executor and had.since_ms <= end.at_ms <= then.since_ms:
                heir = next((one for one in tenures[at:] if one.executor is not None), then)
                yield replace(
                    end,
                    shard=had.key,
                    epoch=heir.epoch or None,
                    target=heir.executor,
                    detail=words.ENDS[end.kind].format(executor=end.executor),
                )


def _move_of(decision: Decision, shard: Shard) -> Move | None:
    """The decision's move of a shard, if that is what brought it to its owner."""
    if decision.is_dry or shard.cause is not Cause.BALANCE:
        return None
    moves = (move for move in decision.plan.moves if move.key == shard.key)
    return next((move for move in moves if move.target == shard.executor), None)


def _here(
    namespace: NamespaceState, shard: Shard, events: tuple[Event, ...], move: Move | None
) -> str:
    """Why it is with its owner, or with nobody."""
    match shard.state:
        case ShardState.PARKED:
            return f"nobody runs it: it is parked{_because(shard.note)}"
        case ShardState.VACANT if shard.reserved is not None:
            return f"{shard.reserved} restarts and will be back: it is kept for it meanwhile"
        case ShardState.VACANT:
            return "it waits for an executor that may be given it"
        case _:
            pass
    told = words.why_here(shard, namespace.info.policy.initial_placement)
    if move is not None:
        return f"{told}: {words.moved(move)}"
    note = _note_of(shard, events)
    return f"{told}: {note}" if note else told


def _note_of(shard: Shard, events: tuple[Event, ...]) -> str:
    """What the event says that began its way to its owner, where this leader knows no more."""
    for event in events:
        if event.target != shard.executor:
            continue
        if event.kind is EventKind.MOVE_ORDERED and shard.cause is Cause.OPERATOR:
            return event.reason
        is_of = event.kind is EventKind.HANDOFF_STARTED and event.cause == shard.cause.value
        if is_of and event.detail:
            return event.detail
    return ""


def _because(note: str) -> str:
    return f" ({note})" if note else ""


def _goes(namespace: NamespaceState, shard: Shard) -> str:
    """Where it is on its way to, balance apart; empty where it is on no way."""
    if shard.fate is Fate.RETIRED:
        return "it is forgotten as soon as its owner has stopped it"
    if shard.fate is Fate.PARKED:
        return "it runs again when an operator undrains it"
    if shard.target is not None:
        cause = "" if shard.next_cause is None else f", for {shard.next_cause.value}"
        return f"it is on its way to {shard.target}{cause}"
    if shard.executor is None:
        return "it is placed as soon as an executor may be given it"
    record = namespace.executors.get(shard.executor)
    if record is not None and namespace.is_emptied(record):
        return f"{shard.executor} is being emptied: it will be moved"
    return ""


def _stays(skipped: str, elsewhere: tuple[Elsewhere, ...]) -> str:
    """Why the balancer does not move it now."""
    if skipped:
        return f"nothing is moved for balance now: {words.SKIPS[skipped]}"
    if not elsewhere:
        return "there is no other executor that it could go to"
    first = elsewhere[0]
    return first.words if first.rule not in _BLIND else f"the best it could do: {first.words}"


def _elsewhere(
    namespace: NamespaceState, mind: Mind, shard: Shard, owner: str, now: float
) -> tuple[Elsewhere, ...]:
    fleet = see(namespace, mind, now)
    plan = None if mind.last_pass is None else mind.last_pass.plan
    aims = aims_without_ramps(namespace, mind, now)
    court = Court.of_totals(fleet.seats, fleet.loads, aims, 0.0 if plan is None else plan.typical)
    piece = _piece(mind, shard, fleet, now)
    rest_s = mind.cooling_until.get(shard.key, now) - now
    found = (court.verdict(piece, owner, target) for target in court.coldest()[: TARGETS_MAX + 1])
    return tuple(
        Elsewhere(one.target, one.rule, words.why_not(one, rest_s=rest_s))
        for one in islice(filter(None, found), TARGETS_MAX)
    )


def _piece(mind: Mind, shard: Shard, fleet: Fleet, now: float) -> Piece:
    open_names = {seat.executor for seat in fleet.seats if seat.is_open}
    return Piece(
        shard.key,
        mind.load_of(shard, fleet.median),
        hold=_hold(mind, shard, now),
        banned=mind.failures.bans(shard.key, open_names),
    )


def _hold(mind: Mind, shard: Shard, now: float) -> Hold | None:
    """As the picture of a pass has it: what an order holds is held by nothing less."""
    if shard.pin is not None:
        return Hold.PINNED
    if mind.loads.smoothed(shard.key) is None:
        return Hold.UNMEASURED
    return Hold.COOLDOWN if mind.cooling_until.get(shard.key, now) > now else None
