"""The mass-failure guard: whether a network is likelier to be broken than a fleet.

It is asked before the first action on a lease that ran out, and says who is withheld from it.
Orders are no losses: one that was evicted or said that it leaves is neither counted nor withheld.
An inheritance takes nothing away, since it moves nothing, and goes on.
"""

from dataclasses import dataclass

from coordinator.core.commands import (
    Command,
    EndMassFailure,
    ProceedMassFailure,
    RaiseMassFailure,
    Reason,
    Refused,
)
from coordinator.core.controller.mind import Mind
from coordinator.core.liveness import mass_failure
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import Executor, ExecutorStatus, Incarnation

SHOWN_MAX = 100
"""Names in an alarm: enough to see which rack or zone it is."""

GIVEN_UP_BYTES_MAX = 256 * 1024
"""Of the names in one order to proceed, a quarter of a log entry: three thousand executors with
long names. The alarm is raised anew for those beyond, and can be proceeded with again."""

_RECORD_BYTES = 32
"""What a name costs beside itself."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whom the namespace counts on, and who of them is silent."""

    silent: tuple[Executor, ...]
    total: int
    is_mass: bool


def plan_outage(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Raise the alarm before the first loss, end it once enough are heard.

    Who comes back does so within seconds, not at once: the others have a lease more to follow.
    """
    _follow_given_up(namespace, mind)
    info = namespace.info
    alarm = info.mass_failure
    if alarm is None or not _has_calmed(namespace, mind, now):
        mind.calm_since = None
    else:
        mind.calm_since = now if mind.calm_since is None else mind.calm_since
        ends_at = _calm_end(namespace, mind, now)
        if ends_at is None or ends_at <= now:
            return [EndMassFailure(namespace=info.name, at_ms=at_ms)]
    if (alarm is not None and alarm.is_holding) or not _has_run_out(namespace, mind, now):
        return []
    outlook = look_out(namespace, mind, now)
    if not outlook.is_mass:
        return []
    return [
        RaiseMassFailure(
            namespace=info.name,
            silent=len(outlook.silent),
            total=outlook.total,
            executors=tuple(record.id for record in outlook.silent[:SHOWN_MAX]),
            at_ms=at_ms,
        )
    ]


def look_out(
    namespace: NamespaceState, mind: Mind, now: float, *, are_unheard_silent: bool = False
) -> Outlook:
    """How many are silent of those that count, by name.

    With `are_unheard_silent` also who has said nothing to this leader yet: a new leader knows
    nothing of an outage that began before its term.
    """
    counted = [
        record
        for _, record in sorted(namespace.executors.items())
        if _counts(record) and not is_given_up(mind, record)
    ]
    unheard = mind.leases.silent(namespace.info.policy.lease_ttl_s, now)
    silent = tuple(
        record
        for record in counted
        if record.id in unheard
        or (are_unheard_silent and (record.id, record.incarnation) not in mind.sequences)
    )
    ratio = namespace.info.policy.mass_failure_ratio
    return Outlook(silent, len(counted), mass_failure(len(silent), len(counted), ratio))


def is_silent(namespace: NamespaceState, mind: Mind, record: Executor, now: float) -> bool:
    """Whether an executor was not heard for more than half of its lease."""
    return mind.leases.is_silent(record.id, namespace.info.policy.lease_ttl_s, now)


def is_given_up(mind: Mind, record: Executor) -> bool:
    """Whether an operator gave this one up and it has said nothing since."""
    name = (record.id, record.incarnation)
    return record.given_up and mind.given_up.get(name) == mind.sequences.get(name)


def is_withheld(namespace: NamespaceState, mind: Mind, record: Executor, now: float) -> bool:
    """Whether nothing may be taken away from this executor just now."""
    alarm = namespace.info.mass_failure
    return (
        alarm is not None
        and alarm.is_holding
        and _counts(record)
        and not is_given_up(mind, record)
        and is_silent(namespace, mind, record, now)
    )


def proceed_command(
    namespace: NamespaceState, mind: Mind, now: float, *, by: str, reason: str, at_ms: int
) -> ProceedMassFailure | Refused:
    """The order to give up whoever is silent now; refused before this leader can know who is."""
    info = namespace.info
    heard_s = now - mind.began_at
    if info.mass_failure is not None and heard_s <= info.policy.lease_ttl_s / 2:
        return Refused(
            Reason.RECOVERING,
            f"this leader has listened for {heard_s:.1f} s only and cannot tell who is silent:"
            " ask again after half a lease",
        )
    silent = look_out(namespace, mind, now).silent if info.mass_failure is not None else ()
    return ProceedMassFailure(
        namespace=info.name,
        given_up=_fitting(silent),
        by=by,
        reason=reason,
        at_ms=at_ms,
    )


def _counts(record: Executor) -> bool:
    """Whether the silence of an executor would be a surprise."""
    return not record.evicted and record.profile.status is not ExecutorStatus.LEAVING


def _has_run_out(namespace: NamespaceState, mind: Mind, now: float) -> bool:
    """Whether the lease of somebody who counts is over."""
    expired = mind.leases.expired(now)
    records = ((namespace.executors.get(name), incarnation) for name, incarnation in expired)
    return any(
        record is not None and record.incarnation == incarnation and _counts(record)
        for record, incarnation in records
    )


def _calm_end(namespace: NamespaceState, mind: Mind, now: float) -> float | None:
    """When an alarm that is still on ends although some are silent; None if nothing is awaited."""
    alarm = namespace.info.mass_failure
    if alarm is None or not alarm.is_holding or mind.calm_since is None:
        return None
    if not look_out(namespace, mind, now, are_unheard_silent=True).silent:
        return None
    return mind.leases.lease_end(mind.calm_since, namespace.info.lease_bound_s)


def _has_calmed(namespace: NamespaceState, mind: Mind, now: float) -> bool:
    """Whether enough are heard again, and whoever was given up has gone or come back."""
    if any(is_given_up(mind, record) for record in namespace.executors.values()):
        return False
    return not look_out(namespace, mind, now, are_unheard_silent=True).is_mass


def _follow_given_up(namespace: NamespaceState, mind: Mind) -> None:
    """Remember what was last heard of those given up: one more word, and they are back."""
    if namespace.info.mass_failure is None:
        mind.given_up.clear()
        return
    for record in namespace.executors.values():
        if record.given_up:
            name = (record.id, record.incarnation)
            mind.given_up.setdefault(name, mind.sequences.get(name))


def _fitting(silent: tuple[Executor, ...]) -> tuple[Incarnation, ...]:
    """As many as fit one command."""
    total = 0
    found: list[Incarnation] = []
    for record in silent:
        total += len(record.id) + len(record.incarnation) + _RECORD_BYTES
        if total > GIVEN_UP_BYTES_MAX:
            break
        found.append(Incarnation(record.id, record.incarnation))
    return tuple(found)
