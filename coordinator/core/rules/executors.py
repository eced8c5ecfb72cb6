"""How executors come, restart and go, and what becomes of their shards.

A name is stable, an incarnation is one process life. A newer incarnation closes the older one at
once (no more renewals) but owns nothing until the older one can act no more.
"""

from dataclasses import replace
from typing import Final

from coordinator.core.claims import epoch_ceiling, rank
from coordinator.core.commands import (
    Applied,
    CloseIncarnation,
    ContinueEnding,
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
from coordinator.core.rules.endings import carry_on, pass_over, vacate
from coordinator.core.shard import Cause
from coordinator.core.types import CloseCause, Ending, Executor, ExecutorStatus

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
    owned = len(draft.base.owned(record.id))
    is_gone = is_proven or record.ending is not None or not owned
    successor = Executor(
        id=record.id,
        incarnation=command.incarnation,
        profile=command.profile,
        joined_at_ms=command.at_ms,
        predecessor=None if is_gone else holder,
    )
    draft.executors[record.id] = successor
    draft.note(
        EventKind.EXECUTOR_RESTARTED,
        command.at_ms,
        executor=record.id,
        host=command.profile.host,
        detail=f"{command.incarnation} after {record.incarnation}",
        count=owned,
    )
    if is_gone and owned:
        _note_passing(draft, record.id, command.at_ms)
    if is_gone:
        pass_over(draft, successor, holder, record.ending or _ending(command))


def inherit(draft: Draft, command: InheritShards) -> Outcome:
    """The superseded incarnation can act no more: its successor gets its shards."""
    record = draft.executor(command.executor)
    if record is None or record.predecessor != command.predecessor:
        return Refused(Reason.CONFLICT, f"{command.executor!r} waits for no such predecessor")
    if record.ending is not None:
        carry_on(draft, record, record.ending, {})
    elif record.evicted:
        # It was closed before it owned anything, so now nobody is left who may act.
        _note_end(draft, record, CloseCause.EVICTED, command.at_ms)
        vacate(draft, record, _ending(command, CloseCause.EVICTED), {})
    else:
        _note_passing(draft, record.id, command.at_ms)
        pass_over(draft, record, command.predecessor, _ending(command))
    return Applied(resource=record.id, count=len(draft.shards))


def _ending(
    command: JoinExecutor | InheritShards | CloseIncarnation,
    cause: CloseCause = CloseCause.SUPERSEDED,
) -> Ending:
    """The end that a command tells of."""
    return Ending(
        cause=cause,
        at_ms=command.at_ms,
        is_crash=command.is_crash,
        withhold_at=command.withhold_at,
    )


def _note_passing(draft: Draft, executor: str, at_ms: int) -> None:
    """Told once, of all of them, also where they take several commands."""
    count = len(draft.base.owned(executor))
    draft.note(EventKind.SHARDS_INHERITED, at_ms, executor=executor, count=count)


def continue_ending(draft: Draft, command: ContinueEnding) -> Outcome:
    """The next shards of an end that was too large for one command."""
    record = draft.executor(command.executor)
    if record is None or record.incarnation != command.incarnation or record.ending is None:
        return Refused(Reason.CONFLICT, f"nothing is left of an end of {command.executor!r}")
    wanted = {placement.key: placement.executor for placement in command.placements}
    carry_on(draft, record, record.ending, wanted)
    return Applied(resource=record.id, count=len(draft.shards))


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
    kept = draft.base.reservations.get(command.executor)
    known = kept.incarnation if record is None and kept is not None else ""
    known = known if record is None else record.incarnation
    if known and command.incarnation not in ("", known):
        return Refused(
            Reason.CONFLICT,
            f"{command.incarnation!r} of {command.executor!r} was followed by {known!r}",
        )
    if record is None and kept is not None:
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
    wanted = {placement.key: placement.executor for placement in command.placements}
    if record.ending is not None:  # ordered meanwhile, and under way already
        carry_on(draft, record, record.ending, wanted)
        return Applied(resource=record.id, count=len(draft.shards))
    draft.closed.append((record.id, record.incarnation, command.cause))
    cause = Cause.LEAVING if command.cause is CloseCause.LEFT else Cause.LOST
    _note_end(draft, record, command.cause, command.at_ms)
    # What is kept is passed on by one command, so it is taken by one.
    is_kept = command.reserve_s > 0.0 and reservations.may_reserve(draft, record)
    ending = _ending(command, command.cause)
    homeless = vacate(draft, record, ending, wanted, is_whole=is_kept)
    if is_kept:
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


def closed(executor: str, incarnation: str, cause: CloseCause) -> Refused:
    """The refusal a closed incarnation hears."""
    return Refused(
        Reason.INCARNATION_CLOSED,
        f"incarnation {incarnation!r} of {executor!r} is over: {cause}",
        cause=cause,
    )
