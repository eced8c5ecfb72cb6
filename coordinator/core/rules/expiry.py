"""How orders come to their end by themselves: a drain that is through, and times that are over.

The leader says when; what is meant is looked up again here, so that an order which was ended or
given anew in between is left alone.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

from coordinator.core.commands import Applied, ExpireOrders, FinishDrains, Outcome
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.namespace import NamespaceState, Target
from coordinator.core.orders import Cordon, Drain
from coordinator.core.rules.operators import owned_on
from coordinator.core.types import TargetKind

EXPIRED: Final = "expired"
"""The cause of what ended because its time was over."""

EXPIRED_MAX: Final = 1_000
"""Of each sort that one command ends, a few milliseconds of every node; the rest with the next."""

_Order = TypeVar("_Order", Drain, Cordon)


def conclude(draft: Draft, command: FinishDrains | ExpireOrders) -> Outcome:
    """Whichever of the two it is."""
    if isinstance(command, FinishDrains):
        return _finish(draft, command)
    return _expire(draft, command)


def _finish(draft: Draft, command: FinishDrains) -> Outcome:
    """Say once of each drain that nothing is left on its target."""
    count = 0
    for target in command.targets:
        drain = draft.base.drains.get(target)
        if drain is None or drain.finished_ms is not None or is_busy(draft.base, target):
            continue
        draft.drains[target] = replace(drain, finished_ms=command.at_ms)
        draft.note(
            EventKind.DRAIN_FINISHED,
            command.at_ms,
            executor=_executor(target),
            host=_host(target),
            reason=drain.reason,
            detail=drain.id,
            count=drain.moved,
        )
        count += 1
    return Applied(count=count)


def is_busy(namespace: NamespaceState, target: Target) -> bool:
    """Whether anybody on a target owns a shard, or is about to."""
    return any(
        namespace.owned(one.id) or namespace.incoming(one.id) for one in namespace.covered(target)
    )


def _expire(draft: Draft, command: ExpireOrders) -> Outcome:
    """End what was ordered until a time that has come."""
    now_ms = command.at_ms
    drains = _over(draft.base.drains.items(), now_ms)
    cordons = _over(draft.base.cordons.items(), now_ms)
    for target, drain in drains:
        draft.drains[target] = None
        _note_end(draft, EventKind.DRAIN_ENDED, target, drain, detail=drain.id)
    for target, cordon in cordons:
        draft.cordons[target] = None
        _note_end(draft, EventKind.CORDON_ENDED, target, cordon)
    pins = _end_pins(draft, now_ms)
    pause = draft.base.info.pause
    is_resumed = pause is not None and pause.until_ms is not None and pause.until_ms <= now_ms
    if pause is not None and is_resumed:
        draft.info = replace(draft.base.info, pause=None)
        draft.note(EventKind.BALANCER_RESUMED, now_ms, cause=EXPIRED, reason=pause.reason)
    return Applied(count=len(drains) + len(cordons) + pins + is_resumed)


def _over(orders: Iterable[tuple[Target, _Order]], now_ms: int) -> list[tuple[Target, _Order]]:
    over = (
        (target, order)
        for target, order in orders
        if order.until_ms is not None and order.until_ms <= now_ms
    )
    return list(islice(over, EXPIRED_MAX))


def _end_pins(draft: Draft, now_ms: int) -> int:
    shards = draft.base.shards
    over = (key for key in draft.base.expiring if (shards[key].pin_until_ms or 0) <= now_ms)
    keys = list(islice(over, EXPIRED_MAX))
    for key in keys:
        shard = shards[key]
        draft.put(shard.replace(pin=None, pin_note="", pin_until_ms=None))
        draft.note(
            EventKind.SHARD_UNPINNED,
            now_ms,
            shard=shard,
            executor=shard.executor,
            cause=EXPIRED,
            reason=shard.pin_note,
        )
    return len(keys)


def _note_end(
    draft: Draft, kind: EventKind, target: Target, order: Drain | Cordon, *, detail: str = ""
) -> None:
    draft.note(
        kind,
        draft.at_ms,
        executor=_executor(target),
        host=_host(target),
        cause=EXPIRED,
        reason=order.reason,
        detail=detail,
        count=owned_on(draft, target),
    )


def _executor(target: Target) -> str | None:
    return target[1] if target[0] is TargetKind.EXECUTOR else None


def _host(target: Target) -> str | None:
    return target[1] if target[0] is TargetKind.HOST else None
