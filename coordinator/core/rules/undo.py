"""How an operator's order is taken back: the order that stands against it, given in its place.

An order's event keeps what the order replaced. From that the opposite is made and carried out by
its own rule, so an undo is refused whenever that order would be, is told like it, and can itself
be taken back. Nothing is taken back over the head of a later order about the same thing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coordinator.core.commands import (
    Applied,
    EndCordon,
    EndDrain,
    MoveShard,
    Outcome,
    ParkShard,
    PauseBalancer,
    PinShard,
    Reason,
    Refused,
    ResumeBalancer,
    SetPolicy,
    StartCordon,
    StartDrain,
    UndoOrder,
    UnparkShard,
    UnpinShard,
)
from coordinator.core.draft import Draft
from coordinator.core.events import Event, EventKind
from coordinator.core.orders import Former
from coordinator.core.rules import handoffs, operators, shards
from coordinator.core.shard import HANDOFF_STATES, Shard
from coordinator.core.types import TargetKind

_SUBJECTS: Final = {
    EventKind.DRAIN_STARTED: "drain",
    EventKind.DRAIN_ENDED: "drain",
    EventKind.CORDON_STARTED: "cordon",
    EventKind.CORDON_ENDED: "cordon",
    EventKind.SHARD_PARKED: "park",
    EventKind.SHARD_UNPARKED: "park",
    EventKind.SHARD_PINNED: "pin",
    EventKind.SHARD_UNPINNED: "pin",
    EventKind.MOVE_ORDERED: "move",
    EventKind.BALANCER_PAUSED: "pause",
    EventKind.BALANCER_RESUMED: "pause",
    EventKind.POLICY_CHANGED: "policy",
}
"""What each order is about: a later one about the same stands against taking this one back."""


@dataclass(frozen=True, slots=True)
class _Order:
    """An order to be taken back."""

    draft: Draft
    command: UndoOrder
    event: Event
    former: Former


def undo(draft: Draft, command: UndoOrder) -> Outcome:
    """Take back the order that an event tells of, if nothing came in between."""
    event = draft.base.events.find(command.event)
    if event is None:
        return Refused(
            Reason.EVENT_NOT_FOUND, f"no event {command.event}: it never was, or is not kept"
        )
    if event.former is None:
        return Refused(
            Reason.CONFLICT, f"event {event.id} ({event.kind}) is no order that can be taken back"
        )
    later = next((one for one in draft.base.events.after(event.id) if _same(one, event)), None)
    if later is not None:
        return Refused(
            Reason.CONFLICT,
            f"event {later.id} ({later.kind}) came after it, about the same: look at that first",
        )
    draft.undoes = event.id
    outcome = _OPPOSITES[event.kind](_Order(draft, command, event, event.former))
    if isinstance(outcome, Applied) and not draft.events:
        return Refused(Reason.CONFLICT, f"what event {event.id} ({event.kind}) ordered is over")
    return outcome


def _same(one: Event, other: Event) -> bool:
    subject = _SUBJECTS.get(one.kind)
    if subject is None or subject != _SUBJECTS.get(other.kind) or one.shard != other.shard:
        return False
    # An event of a shard names its owner of that moment, one of a target the target itself.
    return other.shard is not None or (one.executor, one.host) == (other.executor, other.host)


def _end_drain(order: _Order) -> Outcome:
    kind, target = _target(order.event)
    return operators.end_drain(
        order.draft,
        EndDrain(
            namespace=order.command.namespace,
            kind=kind,
            target=target,
            reason=order.command.reason,
            by=order.command.by,
            at_ms=order.command.at_ms,
        ),
    )


def _start_drain(order: _Order) -> Outcome:
    drain = order.former.drain
    if drain is None or _is_over(drain.until_ms, order.command):
        return _its_time_is_over(order.event)
    return operators.start_drain(
        order.draft,
        StartDrain(
            namespace=order.command.namespace,
            id=drain.id,
            kind=drain.kind,
            target=drain.target,
            reason=order.command.reason or drain.reason,
            by=order.command.by,
            at_ms=order.command.at_ms,
            until_ms=drain.until_ms,
        ),
    )


def _end_cordon(order: _Order) -> Outcome:
    kind, target = _target(order.event)
    return operators.end_cordon(
        order.draft,
        EndCordon(
            namespace=order.command.namespace,
            kind=kind,
            target=target,
            reason=order.command.reason,
            by=order.command.by,
            at_ms=order.command.at_ms,
        ),
    )


def _start_cordon(order: _Order) -> Outcome:
    cordon = order.former.cordon
    if cordon is None or _is_over(cordon.until_ms, order.command):
        return _its_time_is_over(order.event)
    return operators.start_cordon(
        order.draft,
        StartCordon(
            namespace=order.command.namespace,
            kind=cordon.kind,
            target=cordon.target,
            reason=order.command.reason or cordon.reason,
            by=order.command.by,
            at_ms=order.command.at_ms,
            until_ms=cordon.until_ms,
        ),
    )


def _unpark(order: _Order) -> Outcome:
    return shards.unpark(
        order.draft,
        UnparkShard(
            namespace=order.command.namespace,
            key=order.event.shard or "",
            reason=order.command.reason,
            by=order.command.by,
            at_ms=order.command.at_ms,
        ),
    )


def _park(order: _Order) -> Outcome:
    return shards.park(
        order.draft,
        ParkShard(
            namespace=order.command.namespace,
            key=order.event.shard or "",
            note=order.command.reason or order.former.note,
            by=order.command.by,
            at_ms=order.command.at_ms,
        ),
    )


def _pin_as_before(order: _Order) -> Outcome:
    """The pin that was there before, or none."""
    if order.former.pin is None:
        return shards.unpin(
            order.draft,
            UnpinShard(
                namespace=order.command.namespace,
                key=order.event.shard or "",
                reason=order.command.reason,
                by=order.command.by,
                at_ms=order.command.at_ms,
            ),
        )
    if _is_over(order.former.until_ms, order.command):
        return _its_time_is_over(order.event)
    return shards.pin(
        order.draft,
        PinShard(
            namespace=order.command.namespace,
            key=order.event.shard or "",
            executor=order.former.pin,
            note=order.former.note,
            by=order.command.by,
            at_ms=order.command.at_ms,
            until_ms=order.former.until_ms,
        ),
    )


def _move_back(order: _Order) -> Outcome:
    """Back to the owner that the shard was taken from, also while it is on its way."""
    shard = order.draft.shard(order.event.shard or "")
    if order.event.executor is None:
        return Refused(Reason.CONFLICT, f"nobody owned {order.event.shard!r} before it was moved")
    if shard is not None and _is_on_its_way(shard, order.event):
        order.draft.note(
            EventKind.MOVE_ORDERED,
            order.command.at_ms,
            shard=shard,
            executor=shard.target,
            target=shard.executor,
            by=order.command.by,
            reason=order.command.reason,
            former=order.former,
        )
        handoffs.keep(order.draft, shard, order.command.at_ms, why="the move was taken back")
        return Applied(resource=shard.key)
    if shard is not None and shard.executor != order.event.target:
        where = f"on {shard.executor!r}" if shard.executor else shard.state
        return Refused(
            Reason.CONFLICT, f"{shard.key!r} is {where} by now, not on {order.event.target!r}"
        )
    return handoffs.move(
        order.draft,
        MoveShard(
            namespace=order.command.namespace,
            key=order.event.shard or "",
            target=order.event.executor,
            at_ms=order.command.at_ms,
            reason=order.command.reason,
            by=order.command.by,
        ),
    )


def _pause_as_before(order: _Order) -> Outcome:
    """The pause that was there before, or none."""
    pause = order.former.pause
    if pause is not None and not _is_over(pause.until_ms, order.command):
        return operators.pause(
            order.draft,
            PauseBalancer(
                namespace=order.command.namespace,
                reason=order.command.reason or pause.reason,
                by=order.command.by,
                at_ms=order.command.at_ms,
                until_ms=pause.until_ms,
            ),
        )
    if order.event.kind is EventKind.BALANCER_RESUMED:
        return _its_time_is_over(order.event)
    return operators.resume(
        order.draft,
        ResumeBalancer(
            namespace=order.command.namespace,
            reason=order.command.reason,
            by=order.command.by,
            at_ms=order.command.at_ms,
        ),
    )


def _policy_as_before(order: _Order) -> Outcome:
    return operators.set_policy(
        order.draft,
        SetPolicy(
            namespace=order.command.namespace,
            policy=order.former.policy or order.draft.base.info.policy,
            expected_version=order.former.policy_version + 1,
            by=order.command.by,
            at_ms=order.command.at_ms,
            reason=order.command.reason,
        ),
    )


def _is_on_its_way(shard: Shard, event: Event) -> bool:
    return (
        shard.state in HANDOFF_STATES
        and shard.fate is None
        and (shard.executor, shard.target) == (event.executor, event.target)
    )


_OPPOSITES: Final[dict[EventKind, Callable[[_Order], Outcome]]] = {
    EventKind.DRAIN_STARTED: _end_drain,
    EventKind.DRAIN_ENDED: _start_drain,
    EventKind.CORDON_STARTED: _end_cordon,
    EventKind.CORDON_ENDED: _start_cordon,
    EventKind.SHARD_PARKED: _unpark,
    EventKind.SHARD_UNPARKED: _park,
    EventKind.SHARD_PINNED: _pin_as_before,
    EventKind.SHARD_UNPINNED: _pin_as_before,
    EventKind.MOVE_ORDERED: _move_back,
    EventKind.BALANCER_PAUSED: _pause_as_before,
    EventKind.BALANCER_RESUMED: _pause_as_before,
    EventKind.POLICY_CHANGED: _policy_as_before,
}


def _target(event: Event) -> tuple[TargetKind, str]:
    if event.host is not None:
        return TargetKind.HOST, event.host
    return TargetKind.EXECUTOR, event.executor or ""


def _is_over(until_ms: int | None, command: UndoOrder) -> bool:
    return until_ms is not None and until_ms <= command.at_ms


def _its_time_is_over(event: Event) -> Refused:
    return Refused(
        Reason.CONFLICT, f"what event {event.id} ({event.kind}) ended would be over by now"
    )
