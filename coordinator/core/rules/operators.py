"""What operators order for a whole namespace or for an executor or host in it."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Final

from coordinator.core.commands import (
    Applied,
    EndCordon,
    EndDrain,
    Outcome,
    PauseBalancer,
    Reason,
    Refused,
    ResumeBalancer,
    SetPolicy,
    SettleLease,
    StartCordon,
    StartDrain,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.namespace import Target
from coordinator.core.orders import Cordon, Drain, Former
from coordinator.core.rules import reservations
from coordinator.core.types import Pause, TargetKind

ORDERS_MAX: Final = 10_000
"""Drains, and cordons, per namespace: as many as there may be executors."""


def set_policy(draft: Draft, command: SetPolicy) -> Outcome:
    """Replace the policy, if the one it was made from is still current."""
    info = draft.base.info
    if command.expected_version not in (None, info.policy_version):
        return Refused(
            Reason.PRECONDITION_FAILED,
            f"the policy is at version {info.policy_version}, not {command.expected_version}",
        )
    if command.policy != info.policy:
        draft.info = replace(
            info,
            policy=command.policy,
            policy_version=info.policy_version + 1,
            lease_bound_s=max(info.lease_bound_s, command.policy.lease_ttl_s),
        )
        draft.note(
            EventKind.POLICY_CHANGED,
            command.at_ms,
            by=command.by,
            reason=command.reason,
            detail=", ".join(_differences(info.policy, command.policy)),
            former=Former(policy=info.policy, policy_version=info.policy_version),
        )
    return Applied(resource=info.name)


def settle_lease(draft: Draft, command: SettleLease) -> Outcome:
    """The leader vouches that no lease longer than the policy's is out any more."""
    info = draft.base.info
    if command.policy_version != info.policy_version:
        return Refused(
            Reason.PRECONDITION_FAILED,
            f"the policy is at version {info.policy_version}, not {command.policy_version}",
        )
    if info.lease_bound_s != info.policy.lease_ttl_s:
        draft.info = replace(info, lease_bound_s=info.policy.lease_ttl_s)
    return Applied(resource=info.name)


def start_drain(draft: Draft, command: StartDrain) -> Outcome:
    """Owe every shard of the target elsewhere; draining twice is draining once."""
    target = (command.kind, command.target)
    existing = draft.base.drains.get(target)
    if existing is not None:
        return Applied(resource=existing.id)
    refusal = _unknown_executor(draft, command.kind, command.target)
    if refusal is not None:
        return refusal
    if len(draft.base.drains) >= ORDERS_MAX:
        return Refused(Reason.QUOTA_EXCEEDED, f"{ORDERS_MAX} drains are in force already")
    draft.drains[target] = Drain(
        id=command.id,
        kind=command.kind,
        target=command.target,
        reason=command.reason,
        by=command.by,
        since_ms=command.at_ms,
        until_ms=command.until_ms,
    )
    _note_order(draft, EventKind.DRAIN_STARTED, command, Former(), detail=command.id)
    for name, kept in sorted(draft.base.reservations.items()):
        if command.target == (name if command.kind is TargetKind.EXECUTOR else kept.host):
            reservations.cancel(draft, name, command.at_ms, by=command.by, reason=command.reason)
    return Applied(resource=command.id, created=True)


def end_drain(draft: Draft, command: EndDrain) -> Outcome:
    """Let the target be used again; `count` is 0 when no drain was in force."""
    target = (command.kind, command.target)
    existing = draft.base.drains.get(target)
    if existing is None:
        return Applied(resource=command.target)
    draft.drains[target] = None
    _note_order(draft, EventKind.DRAIN_ENDED, command, Former(drain=existing), detail=existing.id)
    return Applied(resource=existing.id, count=1)


def start_cordon(draft: Draft, command: StartCordon) -> Outcome:
    """Place nothing on the target; what is there stays."""
    target = (command.kind, command.target)
    if target in draft.base.cordons:
        return Applied(resource=command.target)
    refusal = _unknown_executor(draft, command.kind, command.target)
    if refusal is not None:
        return refusal
    if len(draft.base.cordons) >= ORDERS_MAX:
        return Refused(Reason.QUOTA_EXCEEDED, f"{ORDERS_MAX} cordons are in force already")
    draft.cordons[target] = Cordon(
        kind=command.kind,
        target=command.target,
        reason=command.reason,
        by=command.by,
        since_ms=command.at_ms,
        until_ms=command.until_ms,
    )
    _note_order(draft, EventKind.CORDON_STARTED, command, Former())
    return Applied(resource=command.target, created=True)


def end_cordon(draft: Draft, command: EndCordon) -> Outcome:
    """Place on the target again; `count` is 0 when no cordon was in force."""
    target = (command.kind, command.target)
    existing = draft.base.cordons.get(target)
    if existing is None:
        return Applied(resource=command.target)
    draft.cordons[target] = None
    _note_order(draft, EventKind.CORDON_ENDED, command, Former(cordon=existing))
    return Applied(resource=command.target, count=1)


def pause(draft: Draft, command: PauseBalancer) -> Outcome:
    """No voluntary moves; a second pause replaces the first."""
    info = draft.base.info
    wanted = Pause(
        reason=command.reason,
        by=command.by,
        since_ms=command.at_ms,
        until_ms=command.until_ms,
    )
    if info.pause != wanted:
        draft.info = replace(info, pause=wanted)
        draft.note(
            EventKind.BALANCER_PAUSED,
            command.at_ms,
            by=command.by,
            reason=command.reason,
            former=Former(pause=info.pause),
        )
    return Applied(resource=info.name)


def resume(draft: Draft, command: ResumeBalancer) -> Outcome:
    """Voluntary moves again; `count` is 0 when nothing was paused."""
    existing = draft.base.info.pause
    if existing is None:
        return Applied(resource=command.namespace)
    draft.info = replace(draft.base.info, pause=None)
    draft.note(
        EventKind.BALANCER_RESUMED,
        command.at_ms,
        by=command.by,
        reason=command.reason,
        former=Former(pause=existing),
    )
    return Applied(resource=command.namespace, count=1)


def _note_order(
    draft: Draft,
    kind: EventKind,
    command: StartDrain | EndDrain | StartCordon | EndCordon,
    former: Former,
    *,
    detail: str = "",
) -> None:
    is_host = command.kind is TargetKind.HOST
    draft.note(
        kind,
        command.at_ms,
        executor=None if is_host else command.target,
        host=command.target if is_host else None,
        by=command.by,
        reason=command.reason,
        detail=detail,
        count=owned_on(draft, (command.kind, command.target)),
        former=former,
    )


def owned_on(draft: Draft, target: Target) -> int:
    """How many shards a target owns now."""
    return sum(len(draft.base.owned(one.id)) for one in draft.base.covered(target))


def _differences(before: object, after: object, at: str = "") -> Iterator[str]:
    """What changed from one record to the other, field by field."""
    for name in (one.name for one in fields(before)):  # type: ignore[arg-type]
        was, now = getattr(before, name), getattr(after, name)
        if is_dataclass(was):
            yield from _differences(was, now, f"{at}{name}.")
        elif was != now:
            yield f"{at}{name} {was} -> {now}"


def _unknown_executor(draft: Draft, kind: TargetKind, target: str) -> Refused | None:
    """A host may be named before its executors come; an executor must be there, or be expected."""
    is_known = draft.executor(target) is not None or target in draft.base.reservations
    if kind is TargetKind.EXECUTOR and not is_known:
        return Refused(Reason.EXECUTOR_NOT_FOUND, f"no executor {target!r}")
    return None
