"""How executors come, restart and go, and what becomes of their shards.

A name is stable, an incarnation is one process life. A newer incarnation closes the older one at
once (no more renewals) but owns nothing until the older one can act no more.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from coordinator.core.claims import epoch_ceiling, rank
from coordinator.core.commands import (
    Applied,
    CloseIncarnation,
    EvictExecutor,
    InheritShards,
    JoinExecutor,
    Outcome,
    Reason,
    Refused,
    UpdateExecutor,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.rules import reservations
from coordinator.core.rules.handoffs import complete, keep
from coordinator.core.rules.poisoned import Crash
from coordinator.core.types import (
    Cause,
    CloseCause,
    Executor,
    ExecutorStatus,
    Shard,
    ShardState,
)

EXECUTORS_MAX = 10_000
"""Per namespace: ten times the size the planner is measured at; a runaway of made-up names ends
here."""


def join(draft: Draft, command: JoinExecutor) -> Outcome:
    """Let an incarnation in, closing the one before it."""
    over = draft.base.closed.get((command.executor, command.incarnation))
    if over is not None:
        return closed(command.executor, command.incarnation, over)
    record = draft.executor(command.executor)
    if record is not None and record.predecessor == command.incarnation:
        # The table of closed incarnations is bounded; who is waited for stays known all the same.
        return closed(command.executor, command.incarnation, CloseCause.SUPERSEDED)
    if command.claimed is not None and not _may_claim(draft, record, command):
        is_open = draft.base.info.window is not None
        cause = CloseCause.SUPERSEDED if is_open else CloseCause.EXPIRED
        return closed(command.executor, command.incarnation, cause)
    if record is None:
        if len(draft.base.executors) >= EXECUTORS_MAX:
            return Refused(
                Reason.QUOTA_EXCEEDED, f"the namespace holds {EXECUTORS_MAX} executors already"
            )
        record = Executor(
            id=command.executor,
            incarnation=command.incarnation,
            profile=command.profile,
            joined_at_ms=command.at_ms,
        )
        draft.executors[record.id] = record
        draft.note(
            EventKind.EXECUTOR_JOINED,
            command.at_ms,
            executor=command.executor,
            host=command.profile.host,
            detail=command.incarnation,
        )
        kept = draft.base.reservations.get(record.id)
        _note_version(draft, "" if kept is None else kept.version, record.profile.version)
        reservations.use(draft, record, command.at_ms)
        return Applied(resource=command.executor, created=True)
    if record.incarnation == command.incarnation:
        if record.evicted:
            return closed(command.executor, command.incarnation, CloseCause.EVICTED)
        _take_profile(draft, record, command)
        return Applied(resource=command.executor)
    _note_version(draft, record.profile.version, command.profile.version)
    _supersede(draft, record, command)
    return Applied(resource=command.executor, created=True)


def _note_version(draft: Draft, former: str, version: str) -> None:
    """The version that came last is the one that is being rolled out, or back to.

    A crash and restart of what ran before says nothing of that.
    """
    info = draft.base.info
    if version not in ("", former, info.newest_version):
        draft.info = replace(info, newest_version=version)


def _may_claim(draft: Draft, record: Executor | None, command: JoinExecutor) -> bool:
    """Whether an incarnation that lived on from another cluster may come in under its name.

    A name that is taken stays so, unless all that the other owns was given before what this one
    brings: then it was let in later, and the other was over by then.
    """
    window = draft.base.info.window
    if window is None:
        return record is not None and record.incarnation == command.incarnation
    if record is None or record.incarnation == command.incarnation:
        return True
    owned = draft.base.owned(record.id)
    claimed = command.claimed or 0
    return (
        record.predecessor is None
        and bool(owned)
        and claimed <= epoch_ceiling(command.at_ms)
        and all(rank(window, draft.base.shards[key]) < claimed for key in owned)
    )


def _supersede(draft: Draft, record: Executor, command: JoinExecutor) -> None:
    """Close the incarnation on record; what it may still run waits for it or passes at once.

    An incarnation that itself waits for a predecessor never owned anything, so that predecessor
    stays the one to wait for.
    """
    if not record.evicted:
        draft.closed.append((record.id, record.incarnation, CloseCause.SUPERSEDED))
    holder = record.predecessor or record.incarnation
    is_proven = command.predecessor_dead == holder or command.claimed is not None
    is_gone = is_proven or not draft.base.owned(record.id)
    draft.executors[record.id] = Executor(
        id=record.id,
        incarnation=command.incarnation,
        profile=command.profile,
        joined_at_ms=command.at_ms,
        predecessor=None if is_gone else holder,
    )
    draft.note(
        EventKind.EXECUTOR_RESTARTED,
        command.at_ms,
        executor=record.id,
        host=command.profile.host,
        detail=f"{command.incarnation} after {record.incarnation}",
        count=len(draft.base.owned(record.id)),
    )
    if is_gone:
        _pass_over(draft, command)


def inherit(draft: Draft, command: InheritShards) -> Outcome:
    """The superseded incarnation can act no more: its successor gets its shards."""
    record = draft.executor(command.executor)
    if record is None or record.predecessor != command.predecessor:
        return Refused(Reason.CONFLICT, f"{command.executor!r} waits for no such predecessor")
    if record.evicted:
        # It was closed before it owned anything, so now nobody is left who may act.
        _note_end(draft, record, CloseCause.EVICTED, command.at_ms)
        _vacate(draft, record, {}, Cause.LOST, command)
    else:
        draft.executors[record.id] = replace(record, predecessor=None)
        _pass_over(draft, command)
    return Applied(resource=record.id, count=len(draft.shards))


def _pass_over(draft: Draft, command: JoinExecutor | InheritShards) -> None:
    """New epochs for all that a dead incarnation owned; its open handoffs away go through."""
    executor, at_ms, crash = command.executor, command.at_ms, Crash.told(command)
    owned = sorted(draft.base.owned(executor))
    if owned or isinstance(command, InheritShards):  # the end of a wait is told in any case
        draft.note(EventKind.SHARDS_INHERITED, at_ms, executor=executor, count=len(owned))
    for key in owned:
        shard = draft.base.shards[key]
        if crash is not None:
            shard = crash.struck(shard)
        if crash is not None and crash.withholds(shard):
            draft.free(shard, Cause.LOST)
        elif shard.state is ShardState.RELEASING:
            complete(draft, shard, at_ms)
        else:
            draft.grant(shard, executor, Cause.RESTART, at_ms)


def update(draft: Draft, command: UpdateExecutor) -> Outcome:
    """A live incarnation tells something new of itself."""
    record = draft.executor(command.executor)
    if record is None or record.incarnation != command.incarnation or record.evicted:
        over = draft.base.closed.get((command.executor, command.incarnation), CloseCause.EXPIRED)
        return closed(command.executor, command.incarnation, over)
    _take_profile(draft, record, command)
    return Applied(resource=record.id)


def _take_profile(draft: Draft, record: Executor, command: JoinExecutor | UpdateExecutor) -> None:
    """What an incarnation says of itself; that it leaves, or stays after all, is told."""
    if record.profile == command.profile:
        return
    draft.executors[record.id] = replace(record, profile=command.profile)
    if record.profile.status is not command.profile.status:
        is_leaving = command.profile.status is ExecutorStatus.LEAVING
        draft.note(
            EventKind.EXECUTOR_LEAVING if is_leaving else EventKind.EXECUTOR_STAYING,
            command.at_ms,
            executor=record.id,
            host=command.profile.host,
            count=len(draft.base.owned(record.id)),
        )


def evict(draft: Draft, command: EvictExecutor) -> Outcome:
    """Close an incarnation by order; the leader moves its shards when its lease has run out."""
    record = draft.executor(command.executor)
    if record is None and command.executor in draft.base.reservations:
        count = reservations.cancel(
            draft, command.executor, command.at_ms, by=command.by, reason=command.reason
        )
        return Applied(resource=command.executor, count=count)
    if record is None:
        return Refused(Reason.EXECUTOR_NOT_FOUND, f"no executor {command.executor!r}")
    if not record.evicted:
        draft.closed.append((record.id, record.incarnation, CloseCause.EVICTED))
        draft.executors[record.id] = replace(record, evicted=True)
        draft.note(
            EventKind.EXECUTOR_EVICTED,
            command.at_ms,
            executor=record.id,
            host=record.profile.host,
            by=command.by,
            reason=command.reason,
            count=len(draft.base.owned(record.id)),
        )
    return Applied(resource=record.id)


def close(draft: Draft, command: CloseIncarnation) -> Outcome:
    """An incarnation is over for good: re-home its shards in the same breath."""
    record = draft.executor(command.executor)
    if record is None or record.incarnation != command.incarnation:
        return Refused(
            Reason.CONFLICT, f"{command.incarnation!r} of {command.executor!r} is not on record"
        )
    if record.predecessor is not None:
        return Refused(
            Reason.CONFLICT, f"{record.predecessor!r} may still act for {command.executor!r}"
        )
    draft.closed.append((record.id, record.incarnation, command.cause))
    cause = Cause.LEAVING if command.cause is CloseCause.LEFT else Cause.LOST
    _note_end(draft, record, command.cause, command.at_ms)
    wanted = {placement.key: placement.executor for placement in command.placements}
    homeless = _vacate(draft, record, wanted, cause, command)
    if command.reserve_s > 0.0 and reservations.may_reserve(draft, record):
        kept = [one for one in homeless if one.fate is None and one.pin in (None, record.id)]
        reservations.reserve(draft, record, kept, command, cause)
    return Applied(resource=record.id, count=len(draft.shards))


_ENDS: Final = {
    CloseCause.EXPIRED: EventKind.EXECUTOR_LOST,
    CloseCause.LEFT: EventKind.EXECUTOR_LEFT,
    CloseCause.EVICTED: EventKind.EXECUTOR_CLOSED,
    CloseCause.SUPERSEDED: EventKind.EXECUTOR_CLOSED,
}


def _note_end(draft: Draft, record: Executor, cause: CloseCause, at_ms: int) -> None:
    draft.note(
        _ENDS[cause],
        at_ms,
        executor=record.id,
        host=record.profile.host,
        cause=cause,
        detail=record.incarnation,
        count=len(draft.base.owned(record.id)),
    )


def _vacate(
    draft: Draft,
    record: Executor,
    wanted: Mapping[str, str],
    cause: Cause,
    command: CloseIncarnation | InheritShards,
) -> list[Shard]:
    """Take an executor off the record: what leads to it stays, what it owned goes on.

    Each shard goes where it is wanted, else where its open handoff leads, else it turns vacant: of
    these the records as they were are given back.
    """
    homeless: list[Shard] = []
    at_ms, crash = command.at_ms, Crash.told(command)
    draft.executors[record.id] = None
    for key in sorted(draft.base.incoming(record.id)):
        keep(draft, draft.base.shards[key], at_ms, why="the target is gone")
    for key in sorted(draft.base.owned(record.id)):
        shard = draft.base.shards[key]
        if crash is not None:
            shard = crash.struck(shard)
        is_withheld = crash is not None and crash.withholds(shard)
        may_go_on = shard.fate is None and not is_withheld
        homes = (wanted.get(key), shard.target) if may_go_on else ()
        home = next((one for one in homes if one is not None and draft.is_open(one)), None)
        if home is None:
            draft.free(shard, cause)
            homeless.append(shard)
        else:
            draft.grant(shard, home, cause, at_ms)
    return homeless


def closed(executor: str, incarnation: str, cause: CloseCause) -> Refused:
    """The refusal a closed incarnation hears."""
    return Refused(
        Reason.INCARNATION_CLOSED,
        f"incarnation {incarnation!r} of {executor!r} is over: {cause}",
        cause=cause,
    )
