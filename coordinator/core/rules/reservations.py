"""Shards kept for an executor that restarts: how a reservation is made, used and ended.

An executor that leaves and says when it will be back gets its shards again with its next
incarnation. Orders come first: whatever else is wanted of such a shard or executor ends it.
Must not know how long a reservation has lasted; the leader counts that.
"""

from coordinator.core.commands import (
    Applied,
    CloseIncarnation,
    EndReservation,
    Outcome,
    Reason,
    Refused,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.shard import Cause, Shard
from coordinator.core.types import Executor, Reservation

RESERVATIONS_MAX = 10_000
"""Per namespace: as many as there may be executors. What comes beyond is placed elsewhere."""


def may_reserve(draft: Draft, record: Executor) -> bool:
    """Whether this executor's shards may be kept for it when its incarnation ends.

    Not while claims are taken: somebody else may run what this table says it owned.
    """
    return (
        draft.base.info.window is None
        and not record.evicted
        and draft.base.return_window_s(record) > 0.0
        and len(draft.base.reservations) < RESERVATIONS_MAX
    )


def reserve(
    draft: Draft, record: Executor, shards: list[Shard], command: CloseIncarnation, cause: Cause
) -> None:
    """Keep these shards, which nobody runs any more, for the executor that owned them."""
    if not shards:
        return
    draft.reservations[record.id] = Reservation(
        executor=record.id,
        incarnation=record.incarnation,
        host=record.profile.host,
        version=record.profile.version,
        window_s=command.reserve_s,
        since_ms=command.at_ms,
    )
    for shard in shards:
        draft.reserve(shard, cause)
    draft.note(
        EventKind.SHARDS_RESERVED,
        command.at_ms,
        executor=record.id,
        host=record.profile.host,
        cause=cause,
        detail=f"kept for {command.reserve_s:g} s",
        count=len(shards),
    )


def use(draft: Draft, record: Executor, at_ms: int) -> None:
    """The executor is back: its shards are its again, at once and under new epochs.

    A cordon leaves what is there, so it does not matter; a drain does.
    """
    if record.id not in draft.base.reservations:
        return
    if draft.base.is_emptied(record):
        cancel(draft, record.id, at_ms)
        return
    draft.reservations[record.id] = None
    keys = sorted(draft.base.reserved(record.id))
    for key in keys:
        draft.grant(draft.base.shards[key], record.id, Cause.RESTART, at_ms)
    draft.note(
        EventKind.RESERVATION_USED,
        at_ms,
        executor=record.id,
        host=record.profile.host,
        cause=Cause.RESTART,
        count=len(keys),
    )


def end(draft: Draft, command: EndReservation) -> Outcome:
    """The leader vouches that the window is over."""
    reservation = draft.base.reservations.get(command.executor)
    if reservation is None or reservation.incarnation != command.incarnation:
        return Refused(
            Reason.CONFLICT,
            f"nothing is kept for {command.executor!r} after {command.incarnation!r}",
        )
    return Applied(resource=command.executor, count=cancel(draft, command.executor, command.at_ms))


def cancel(draft: Draft, executor: str, at_ms: int, *, by: str = "", reason: str = "") -> int:
    """Anyone may get the shards that were kept for an executor; how many there are."""
    draft.reservations[executor] = None
    keys = sorted(draft.base.reserved(executor))
    for key in keys:
        shard = draft.base.shards[key]
        draft.free(shard, shard.cause)
    draft.note(
        EventKind.RESERVATION_ENDED,
        at_ms,
        executor=executor,
        host=draft.base.reservations[executor].host,
        by=by,
        reason=reason,
        count=len(keys),
    )
    return len(keys)
