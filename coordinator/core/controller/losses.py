"""What the leader does about executors that can act no more: lost, evicted, superseded.

A lease that ran out on the leader's side has run out earlier on the executor's. Closing the
incarnation and re-homing its heaviest shards is one command.
"""

from dataclasses import replace

from coordinator.core.commands import CloseIncarnation, Command, ContinueEnding, InheritShards
from coordinator.core.controller.crashes import weight_of
from coordinator.core.controller.fleet import Fleet, see
from coordinator.core.controller.homes import PLANNED_MAX, fitting, homes_for
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.outage import is_withheld
from coordinator.core.controller.returns import reserve_for_s
from coordinator.core.namespace import NamespaceState
from coordinator.core.rules import endings
from coordinator.core.types import CloseCause, Executor, Placement


def plan_losses(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Commands for every incarnation whose lease has run out; marks them as closing.

    Whom the mass-failure guard withholds is passed over.
    """
    _adopt_unknown(namespace, mind, now)
    commands = _ended(namespace, mind, now, at_ms)
    if commands:
        return commands  # an end after the other: a step takes no longer for it
    gone: list[tuple[Executor, CloseCause]] = []
    expired = [
        one for one in mind.leases.expired(now) if not _is_spared(namespace, mind, *one, now)
    ]
    for executor, incarnation in expired:
        # All of them before any is weighed for good: together they may be a storm.
        if not mind.crashes.knows(executor, incarnation):
            weight_of(namespace, mind, executor, incarnation, now)
    room = PLANNED_MAX
    for executor, incarnation in expired:
        record = namespace.executors.get(executor)
        if record is None or incarnation not in (record.incarnation, record.predecessor):
            mind.forget_executor(executor, incarnation)
            continue
        if incarnation == record.incarnation and record.predecessor is not None:
            continue
        # The first of them, as many as one step may find homes for; the others are still expired.
        planned = min(len(namespace.owned(executor)), endings.AT_ONCE)
        if planned > room and room < PLANNED_MAX:
            break
        room -= planned
        if record.predecessor is None:
            cause = CloseCause.EVICTED if record.evicted else CloseCause.EXPIRED
            gone.append((record, cause))
            continue
        commands.append(
            InheritShards(
                namespace=namespace.info.name,
                executor=executor,
                predecessor=incarnation,
                at_ms=at_ms,
                **weight_of(namespace, mind, executor, incarnation, now).fields(),
            )
        )
    for record, _ in gone:
        mind.leases.close(record.id, record.incarnation)
    if gone:
        fleet = see(namespace, mind, now)
        commands += [
            replace(
                close_command(namespace, mind, fleet, record, cause=cause, now=now, at_ms=at_ms),
                **weight_of(namespace, mind, record.id, record.incarnation, now).fields(),
            )
            for record, cause in gone
        ]
    return commands


def _ended(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Go on with an end that was too large for one command, one of them at a time."""
    record = next(
        (one for _, one in sorted(namespace.executors.items()) if one.ending is not None), None
    )
    if record is None:
        return []
    placements: tuple[Placement, ...] = ()
    if record.predecessor is None:
        placements = _homes(namespace, mind, see(namespace, mind, now), record)
    return [
        ContinueEnding(
            namespace=namespace.info.name,
            executor=record.id,
            incarnation=record.incarnation,
            placements=placements,
            at_ms=at_ms,
        )
    ]


def _is_spared(
    namespace: NamespaceState, mind: Mind, executor: str, incarnation: str, now: float
) -> bool:
    """Whether the guard lets it keep its shards: then nothing has ended, and it did not crash.

    One whose end was proposed before the alarm is not renewed until its outcome is known.
    """
    record = namespace.executors.get(executor)
    return (
        record is not None
        and record.incarnation == incarnation
        and is_withheld(namespace, mind, record, now)
        and not mind.leases.is_closing(executor, incarnation)
    )


def _adopt_unknown(namespace: NamespaceState, mind: Mind, now: float) -> None:
    """A full lease for an incarnation on record that was never heard by this leader.

    It joined, and its heartbeat's answer was lost before it could be renewed; and it may have been
    superseded since. Without a lease nothing would ever end it.
    """
    ttl_s, known = namespace.info.lease_bound_s, mind.leases.names()
    for record in namespace.executors.values():
        if record.predecessor is None and (record.id, record.incarnation) in known:
            continue  # nearly all
        if record.ending is not None:
            continue  # nobody is waited for any more
        for incarnation in (record.incarnation, record.predecessor):
            if incarnation is not None and (record.id, incarnation) not in known:
                mind.leases.renew(record.id, incarnation, ttl_s, now)


def close_command(
    namespace: NamespaceState,
    mind: Mind,
    fleet: Fleet,
    record: Executor,
    *,
    cause: CloseCause,
    now: float,
    at_ms: int,
) -> CloseIncarnation:
    """Close one incarnation; its heaviest shards get their new owners with it.

    Of very many only those that are passed on with it, and of one that will be back none.
    """
    reserve_s = reserve_for_s(namespace, mind, record, cause, now)
    return CloseIncarnation(
        namespace=namespace.info.name,
        executor=record.id,
        incarnation=record.incarnation,
        cause=cause,
        placements=_homes(namespace, mind, fleet, record, is_kept=reserve_s > 0.0),
        at_ms=at_ms,
        reserve_s=reserve_s,
    )


def _homes(
    namespace: NamespaceState, mind: Mind, fleet: Fleet, record: Executor, *, is_kept: bool = False
) -> tuple[Placement, ...]:
    """Homes for the shards of an ended executor whose turn it is.

    Those on their way to an open executor arrive there, and those that are kept wait.
    """
    open_names = {seat.executor for seat in fleet.seats if seat.is_open}
    owned = [namespace.shards[key] for key in endings.next_keys(namespace, record.id)[0]]
    shards = [s for s in owned if s.fate is None and s.target not in open_names]
    if is_kept:
        shards = [s for s in shards if s.pin not in (None, record.id)]
    return tuple(fitting(homes_for(mind, fleet, shards, record.id)))
