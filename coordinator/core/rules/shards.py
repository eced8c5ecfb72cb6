"""What operators and look-ups do to single shards: declare, retire, park, pin."""

from coordinator.core.commands import (
    Applied,
    DeclareShards,
    NoteStrays,
    Outcome,
    ParkShard,
    PinShard,
    Reason,
    Refused,
    RetireShard,
    UnparkShard,
    UnpinShard,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.orders import Former
from coordinator.core.rules.handoffs import release_for
from coordinator.core.shard import Cause, Fate, Shard, ShardState
from coordinator.core.types import SHARDS_MAX, NamespaceKind


def declare(draft: Draft, command: DeclareShards) -> Outcome:
    """Make keys known; those already known are left alone."""
    info = draft.base.info
    fresh = [key for key in dict.fromkeys(command.keys) if draft.shard(key) is None]
    if not fresh:
        return Applied()
    if info.kind is NamespaceKind.FIXED:
        return Refused(
            Reason.SHARD_NOT_FOUND, f"namespace {info.name!r} is fixed: no shard {fresh[0]!r}"
        )
    room = min(info.policy.max_shards, SHARDS_MAX) - len(draft.base.shards)
    if len(fresh) > room:
        return Refused(
            Reason.QUOTA_EXCEEDED,
            f"{len(fresh)} new shards, but max_shards leaves room for {max(room, 0)}",
        )
    for key in fresh:
        draft.put(Shard(key=key))
    return Applied(count=len(fresh), created=True)


def retire(draft: Draft, command: RetireShard) -> Outcome:
    """Forget a shard of an open namespace, as soon as its owner has stopped it."""
    if draft.base.info.kind is NamespaceKind.FIXED:
        return Refused(Reason.CONFLICT, "shards of a fixed namespace cannot be retired; park them")
    shard = draft.shard(command.key)
    if shard is None:
        return _missing(command.key)
    if shard.fate is not Fate.RETIRED:
        draft.note(
            EventKind.SHARD_RETIRED,
            command.at_ms,
            shard=shard,
            executor=shard.executor,
            by=command.by,
        )
    if shard.executor is None:
        draft.shards[command.key] = None
    elif shard.fate is not Fate.RETIRED:
        release_for(draft, shard, Fate.RETIRED)
    return Applied(resource=command.key)


def park(draft: Draft, command: ParkShard) -> Outcome:
    """Nobody shall run the shard: its owner stops it, routers are told."""
    shard = draft.shard(command.key)
    if shard is None:
        return _missing(command.key)
    if shard.fate is Fate.RETIRED:
        return Refused(Reason.CONFLICT, f"shard {command.key!r} is being retired")
    if shard.fate is None:
        draft.note(
            EventKind.SHARD_PARKED,
            command.at_ms,
            shard=shard,
            executor=shard.executor,
            by=command.by,
            reason=command.note,
            former=Former(),
        )
        shard = shard.replace(note=command.note)
        if shard.executor is None:
            draft.free(shard.replace(fate=Fate.PARKED), Cause.OPERATOR)
        else:
            release_for(draft, shard, Fate.PARKED)
    return Applied(resource=command.key)


def unpark(draft: Draft, command: UnparkShard) -> Outcome:
    """Somebody shall run the shard again; a stop under way still ends first."""
    shard = draft.shard(command.key)
    if shard is None:
        return _missing(command.key)
    if shard.fate is Fate.PARKED:
        state = ShardState.VACANT if shard.executor is None else shard.state
        former = Former(note=shard.note)
        # Whoever lets it run again has looked: what it was parked for counts no more.
        draft.put(shard.replace(fate=None, state=state, note="", strikes=()))
        draft.note(
            EventKind.SHARD_UNPARKED,
            command.at_ms,
            shard=shard,
            by=command.by,
            reason=command.reason,
            former=former,
        )
        return Applied(resource=command.key, count=1)
    return Applied(resource=command.key)


def pin(draft: Draft, command: PinShard) -> Outcome:
    """Bind a shard to an executor; the leader brings it there by handoff."""
    shard = draft.shard(command.key)
    if shard is None:
        return _missing(command.key)
    is_away = command.executor in draft.base.reservations
    if draft.executor(command.executor) is None and not is_away:
        return Refused(Reason.EXECUTOR_NOT_FOUND, f"no executor {command.executor!r}")
    wanted = (command.executor, command.note, command.until_ms)
    if (shard.pin, shard.pin_note, shard.pin_until_ms) != wanted:
        pinned = shard.replace(
            pin=command.executor, pin_note=command.note, pin_until_ms=command.until_ms
        )
        if shard.reserved in (None, command.executor):
            draft.put(pinned)
        else:
            draft.free(pinned, shard.cause)
        draft.note(
            EventKind.SHARD_PINNED,
            command.at_ms,
            shard=shard,
            executor=shard.executor,
            target=command.executor,
            by=command.by,
            reason=command.note,
            former=_pin_of(shard),
        )
    return Applied(resource=command.key)


def unpin(draft: Draft, command: UnpinShard) -> Outcome:
    """Leave the shard to the balancer again."""
    shard = draft.shard(command.key)
    if shard is None:
        return _missing(command.key)
    if shard.pin is not None:
        draft.put(shard.replace(pin=None, pin_note="", pin_until_ms=None))
        draft.note(
            EventKind.SHARD_UNPINNED,
            command.at_ms,
            shard=shard,
            executor=shard.executor,
            by=command.by,
            reason=command.reason,
            former=_pin_of(shard),
        )
    return Applied(resource=command.key)


def note_strays(draft: Draft, command: NoteStrays) -> Outcome:
    """Tell of executors that hold what is not theirs."""
    for stray in command.strays:
        is_double = stray.other is not None
        draft.note(
            EventKind.SHARD_DOUBLE_OWNED if is_double else EventKind.SHARD_HELD_ASTRAY,
            command.at_ms,
            shard=draft.shard(stray.key) or Shard(key=stray.key),
            executor=stray.executor,
            target=stray.other,
            detail=f"held under epoch {stray.epoch}",
        )
    return Applied(count=len(command.strays))


def _pin_of(shard: Shard) -> Former:
    return Former(pin=shard.pin, note=shard.pin_note, until_ms=shard.pin_until_ms)


def _missing(key: str) -> Refused:
    return Refused(Reason.SHARD_NOT_FOUND, f"no shard {key!r}")
