"""How shards come to the executors that held them in a cluster that is no more.

While a namespace's window is open nobody is placed; who lives on is believed. Which of several
claims counts is decided in `core.claims`.
"""

from dataclasses import replace

from coordinator.core.claims import Standing, epoch_ceiling, standing
from coordinator.core.commands import (
    AdoptClaims,
    Applied,
    CloseWindow,
    Outcome,
    Reason,
    Refused,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.rules.executors import closed
from coordinator.core.rules.handoffs import release_for
from coordinator.core.rules.reservations import cancel
from coordinator.core.shard import Cause, Shard
from coordinator.core.types import SHARDS_MAX, Claim, CloseCause, Executor
from coordinator.core.window import ClaimWindow


def adopt(draft: Draft, command: AdoptClaims) -> Outcome:
    """Let an executor go on with what it claims, as far as nobody was given it later.

    `count` says how many shards it got by this.
    """
    record = draft.executor(command.executor)
    if record is None or record.incarnation != command.incarnation or record.evicted:
        over = draft.base.closed.get((command.executor, command.incarnation), CloseCause.EXPIRED)
        return closed(command.executor, command.incarnation, over)
    window = draft.base.info.window
    if window is None:
        return Refused(Reason.CONFLICT, f"namespace {command.namespace!r} takes claims no more")
    if record.predecessor is not None:  # it has held nothing itself
        return Applied(resource=record.id)
    if command.lease_s > window.lease_s:
        draft.info = replace(draft.base.info, window=replace(window, lease_s=command.lease_s))
    # What ran once goes only to whoever may be given shards; what runs stays where it runs, and
    # what is its own stays its own: they leave by handoff if they must.
    may_get = command.is_held or draft.base.is_eligible(record)
    room = min(draft.base.info.policy.max_shards, SHARDS_MAX) - len(draft.base.shards)
    counts = dict.fromkeys(Standing, 0)
    for claim in command.claims:
        shard = draft.shard(claim.key)
        if not may_get and (shard is None or shard.executor != record.id):
            continue
        is_new = shard is None
        found = Standing.REFUSED
        if room > 0 or not is_new:
            found = _take(draft, record, claim, command)
        counts[found] += 1
        room -= is_new and found is Standing.ADOPTED
    for kind, count in (
        (EventKind.CLAIMS_ADOPTED, counts[Standing.ADOPTED]),
        (EventKind.CLAIMS_REFUSED, counts[Standing.REFUSED]),
    ):
        if count:
            draft.note(
                kind,
                command.at_ms,
                executor=record.id,
                host=record.profile.host,
                detail="held" if command.is_held else "held no more",
                count=count,
            )
    return Applied(resource=record.id, count=counts[Standing.ADOPTED])


def _take(draft: Draft, record: Executor, claim: Claim, command: AdoptClaims) -> Standing:
    """Give one shard to its claimant, if the claim counts."""
    if claim.epoch > epoch_ceiling(command.at_ms):
        return Standing.REFUSED
    shard = draft.shard(claim.key)
    found = standing(
        draft.base.info, shard, record.id, claim.key, claim.epoch, is_held=command.is_held
    )
    if found in (Standing.ADOPTED, Standing.LIFTED):
        shard = shard or Shard(key=claim.key)
        owner = record.id if found is Standing.ADOPTED else shard.executor or ""
        _grant_above(draft, shard, owner, claim.epoch, command.at_ms)
    if shard is not None and shard.executor not in (None, record.id):
        is_won = found is Standing.ADOPTED
        draft.note(
            EventKind.CLAIM_CONFLICT,
            command.at_ms,
            shard=draft.shard(claim.key),
            executor=shard.executor if is_won else record.id,
            target=record.id if is_won else shard.executor,
            detail=f"{record.id} claims epoch {claim.epoch}",
        )
    return found


def _grant_above(draft: Draft, shard: Shard, owner: str, claimed: int, at_ms: int) -> None:
    """A new epoch above the claimed one; an operator's order to stop the shard stays in force."""
    draft.grant(shard, owner, Cause.CLAIM, at_ms, claimed=claimed)
    granted = draft.shard(shard.key)
    if granted is not None and granted.fate is not None:
        release_for(draft, granted, granted.fate)


def open_window(draft: Draft, lost_id: str, at_ms: int) -> None:
    """What the lost members decided last is known to executors alone: they say what they hold."""
    info = draft.base.info
    before_s = 0.0 if info.window is None else info.window.lease_s
    window = ClaimWindow(lease_s=max(info.lease_bound_s, before_s), epoch_floor=draft.next_epoch)
    draft.info = replace(info, window=window)
    for executor in sorted(draft.base.reservations):
        # The lost members may have given its shards away, and it must not get them unasked.
        cancel(draft, executor, at_ms)
    draft.note(EventKind.CLAIMS_OPENED, at_ms, detail=f"cluster {lost_id} is lost")


def close_window(draft: Draft, command: CloseWindow) -> Outcome:
    """No lease of before is out any more: from now on shards are placed and moved."""
    info = draft.base.info
    if command.created_revision != info.created_revision:
        return Refused(Reason.CONFLICT, f"namespace {info.name!r} was made anew")
    if info.window is not None:
        draft.info = replace(info, window=None)
        held = len(draft.base.shards) - len(draft.base.vacant)
        if held:  # of a namespace that is really new there is nothing to tell
            draft.note(EventKind.CLAIMS_CLOSED, command.at_ms, count=held)
    return Applied(resource=info.name)
