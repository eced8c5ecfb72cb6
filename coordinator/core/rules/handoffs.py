"""How a shard gets an owner and changes hands.

`owned(A)` → `preparing(A, B)` (only with warm-up) → `releasing(A, B)` → `owned(B, new epoch)`.
Each arrow is one commit. An owner is never replaced before it acknowledged its stop, or before
the leader vouches (`FinishOverdue`, `CloseIncarnation`) that its lease has run out.
"""

from collections.abc import Sequence

from coordinator.core.commands import (
    AbortHandoffs,
    Acknowledge,
    Applied,
    AssignShards,
    FinishOverdue,
    MarkOverdue,
    MoveShard,
    Outcome,
    Reason,
    Refused,
    StartHandoffs,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.orders import Former
from coordinator.core.rules.poisoned import struck
from coordinator.core.shard import HANDOFF_STATES, Cause, Fate, Shard, ShardState
from coordinator.core.strikes import Strike, StrikeKind
from coordinator.core.types import Claim


def assign(draft: Draft, command: AssignShards) -> Outcome:
    """Give vacant shards to open executors; a placement that no longer fits is skipped."""
    given: list[tuple[Shard, str]] = []
    for placement in command.placements:
        shard = draft.shard(placement.key)
        if shard is None or shard.state is not ShardState.VACANT or shard.reserved is not None:
            continue
        if draft.is_open(placement.executor):
            draft.grant(shard, placement.executor, command.cause, command.at_ms)
            given.append((shard, placement.executor))
    if given:
        note_placed(draft, given, command.cause, command.at_ms)
    return Applied(count=len(given))


def note_placed(
    draft: Draft, given: Sequence[tuple[Shard, str]], cause: Cause, at_ms: int, by: str = ""
) -> None:
    """One event for all that one command places: there may be very many."""
    shard, target = given[0]
    is_one_target = all(one == target for _, one in given)
    draft.note(
        EventKind.SHARDS_PLACED,
        at_ms,
        shard=draft.shard(shard.key) if len(given) == 1 else None,
        target=target if is_one_target else None,
        cause=cause,
        by=by,
        count=len(given),
    )


def start(draft: Draft, command: StartHandoffs) -> Outcome:
    """Begin moves; one whose shard or target has changed meanwhile is skipped."""
    count = 0
    for move_ in command.moves:
        shard = draft.shard(move_.key)
        if shard is None or shard.state is not ShardState.OWNED or shard.epoch != move_.epoch:
            continue
        if move_.target == shard.executor or not draft.is_open(move_.target):
            continue
        if shard.pin is not None and shard.pin != move_.target and move_.cause is Cause.BALANCE:
            continue
        begin(draft, shard, move_.target, move_.cause, command.at_ms, note=move_.note)
        count += 1
    return Applied(count=count)


def begin(
    draft: Draft, shard: Shard, target: str, cause: Cause, at_ms: int, *, note: str = ""
) -> None:
    """Open one handoff."""
    draft.note(
        EventKind.HANDOFF_STARTED,
        at_ms,
        shard=shard,
        executor=shard.executor,
        target=target,
        cause=cause,
        detail=note,
    )
    warmup = draft.base.info.policy.handoff.warmup
    state = ShardState.PREPARING if warmup else ShardState.RELEASING
    draft.put(shard.replace(state=state, target=target, next_cause=cause))


def move(draft: Draft, command: MoveShard) -> Outcome:
    """An operator's move: the same handoff, with every obstacle named."""
    shard = draft.shard(command.key)
    if shard is None:
        return Refused(Reason.SHARD_NOT_FOUND, f"no shard {command.key!r}")
    if shard.fate is not None:
        return Refused(Reason.SHARD_PARKED, f"shard {command.key!r} is {shard.fate}")
    if draft.executor(command.target) is None:
        return Refused(Reason.EXECUTOR_NOT_FOUND, f"no executor {command.target!r}")
    if command.target in (shard.target, shard.executor) and (
        shard.state is ShardState.OWNED or shard.target == command.target
    ):
        return Applied(resource=command.key)
    if draft.base.info.window is not None:
        return Refused(
            Reason.RECOVERING, "nothing is moved while executors say what they hold from before"
        )
    if not draft.is_open(command.target):
        return Refused(
            Reason.CONFLICT,
            f"executor {command.target!r} takes no shards: it is closed to new ones",
        )
    if shard.pin is not None and shard.pin != command.target:
        return Refused(Reason.CONFLICT, f"shard {command.key!r} is pinned to {shard.pin!r}")
    if shard.state in HANDOFF_STATES:
        return Refused(Reason.CONFLICT, f"shard {command.key!r} is being moved already")
    draft.note(
        EventKind.MOVE_ORDERED,
        command.at_ms,
        shard=shard,
        executor=shard.executor,
        target=command.target,
        by=command.by,
        reason=command.reason,
        former=Former(),
    )
    if shard.state is ShardState.VACANT:
        draft.grant(shard, command.target, Cause.OPERATOR, command.at_ms)
        note_placed(draft, [(shard, command.target)], Cause.OPERATOR, command.at_ms)
    else:
        begin(draft, shard, command.target, Cause.OPERATOR, command.at_ms)
    return Applied(resource=command.key)


def abort(draft: Draft, command: AbortHandoffs) -> Outcome:
    """End handoffs in favour of the owner; only while they are the ones that are meant."""
    count = 0
    for claim in command.claims:
        shard = _in_handoff(draft, claim)
        if shard is not None and shard.fate is None:
            keep(draft, shard, command.at_ms, why="its time is over, or its target closed")
            count += 1
    return Applied(count=count)


def keep(draft: Draft, shard: Shard, at_ms: int, *, why: str) -> None:
    """Give a shard in handoff back to its owner: its epoch lives on only if it never stopped."""
    draft.note(
        EventKind.HANDOFF_ABORTED,
        at_ms,
        shard=shard,
        executor=shard.executor,
        target=shard.target,
        cause=shard.next_cause or "",
        detail=why,
    )
    if shard.state is ShardState.PREPARING:
        draft.put(shard.replace(state=ShardState.OWNED, target=None, next_cause=None))
    else:
        # A shard in handoff has an owner: `shard_faults` holds every rule to it.
        draft.grant(shard, shard.executor or "", shard.cause, at_ms)


def mark_overdue(draft: Draft, command: MarkOverdue) -> Outcome:
    """From now on the heartbeat answers of the owner do not renew these shards."""
    count = 0
    for claim in command.claims:
        shard = _in_handoff(draft, claim)
        if shard is not None and shard.state is ShardState.RELEASING and not shard.overdue:
            draft.put(shard.replace(overdue=True))
            draft.note(
                EventKind.HANDOFF_OVERDUE,
                command.at_ms,
                shard=shard,
                executor=shard.executor,
                target=shard.target,
                cause=shard.next_cause or "",
            )
            count += 1
    return Applied(count=count)


def finish_overdue(draft: Draft, command: FinishOverdue) -> Outcome:
    """The leader vouches that these shards' own leases have run out."""
    count = 0
    for claim in command.claims:
        shard = _in_handoff(draft, claim)
        if shard is not None and shard.overdue:
            complete(draft, shard, command.at_ms)
            count += 1
    return Applied(count=count)


def complete(draft: Draft, shard: Shard, at_ms: int) -> None:
    """The owner of a shard in handoff acts no more: hand it over, or set it free."""
    cause = shard.next_cause or Cause.OPERATOR
    if shard.fate is None and shard.target is not None and draft.is_open(shard.target):
        draft.grant(shard, shard.target, cause, at_ms)
    else:
        draft.free(shard, cause)
    after = draft.shard(shard.key)
    draft.note(
        EventKind.HANDOFF_FINISHED,
        at_ms,
        shard=after or shard,
        executor=shard.executor,
        target=None if after is None else after.executor,
        cause=cause,
        detail=Fate.RETIRED if after is None else after.state,
    )


def acknowledge(draft: Draft, command: Acknowledge) -> Outcome:
    """Take an executor's word for what it did; late and repeated words change nothing."""
    record = draft.executor(command.executor)
    if record is None or record.incarnation != command.incarnation or record.evicted:
        cause = draft.base.closed.get((command.executor, command.incarnation))
        return Refused(
            Reason.INCARNATION_CLOSED,
            f"incarnation {command.incarnation!r} of {command.executor!r} is over",
            cause=cause or "expired",
        )
    if record.predecessor is not None:
        # It has never held anything: its word says nothing about what its predecessor does.
        return Applied()
    count = 0
    for claim in command.released:
        shard = _in_handoff(draft, claim)
        if shard is None or shard.executor != command.executor:
            continue
        if shard.state is ShardState.RELEASING:
            complete(draft, shard, command.at_ms)
            count += 1
    for claim in command.prepared:
        shard = _in_handoff(draft, claim)
        if shard is None or shard.target != command.executor:
            continue
        if shard.state is ShardState.PREPARING:
            _prepared(draft, shard, command)
            count += 1
    for claim in command.failed:
        count += _fail(draft, claim, command)
    return Applied(count=count)


def _prepared(draft: Draft, shard: Shard, command: Acknowledge) -> None:
    """The target is warm: let the owner stop, unless the target may not have the shard any more."""
    if draft.is_open(command.executor):
        draft.put(shard.replace(state=ShardState.RELEASING, is_warm=True))
    else:
        keep(draft, shard, command.at_ms, why="the target takes no shards any more")


def _fail(draft: Draft, claim: Claim, command: Acknowledge) -> int:
    """A start or a warm-up failed: place the shard elsewhere, or leave it where it serves."""
    shard = draft.shard(claim.key)
    if shard is None or shard.epoch != claim.epoch:
        return 0
    is_target = shard.state is ShardState.PREPARING and shard.target == command.executor
    if is_target or shard.executor == command.executor:
        draft.note(
            EventKind.START_FAILED,
            command.at_ms,
            shard=shard,
            executor=command.executor,
        )
    if shard.executor == command.executor:
        if shard.state in HANDOFF_STATES:
            # An owner that could not start it has nothing to stop.
            complete(draft, shard, command.at_ms)
        else:
            strike = Strike(
                kind=StrikeKind.FAILED_START, executor=command.executor, at_ms=command.at_ms
            )
            draft.free(struck(shard, strike), Cause.FAILED)
        return 1
    if is_target:
        keep(draft, shard, command.at_ms, why="the target could not warm up")
        return 1
    return 0


def _in_handoff(draft: Draft, claim: Claim) -> Shard | None:
    shard = draft.shard(claim.key)
    if shard is None or shard.state not in HANDOFF_STATES or shard.epoch != claim.epoch:
        return None
    return shard


def release_for(draft: Draft, shard: Shard, fate: Fate) -> None:
    """Let the owner stop a shard that nobody shall run afterwards."""
    draft.put(
        shard.replace(
            state=ShardState.RELEASING,
            target=None,
            is_warm=False,
            fate=fate,
            next_cause=Cause.OPERATOR,
        )
    )
