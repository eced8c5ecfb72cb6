"""What the leader does about executors that can act no more: lost, evicted, superseded.

A lease that ran out on the leader's side has run out earlier on the executor's. Closing the
incarnation and re-homing its heaviest shards is one command.
"""

from dataclasses import replace

from coordinator.core.commands import CloseIncarnation, Command, InheritShards
from coordinator.core.controller.crashes import weight_of
from coordinator.core.controller.fleet import Fleet, see
from coordinator.core.controller.homes import PLANNED_MAX, fitting, homes_for
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.outage import is_withheld
from coordinator.core.controller.returns import reserve_for_s
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import CloseCause, Executor


def plan_losses(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Commands for every incarnation whose lease has run out; marks them as closing.

    Whom the mass-failure guard withholds is passed over.
    """
    _adopt_unknown(namespace, mind, now)
    commands: list[Command] = []
    gone: list[tuple[Executor, CloseCause]] = []
    expired = [
        one for one in mind.leases.expired(now) if not _is_spared(namespace, mind, *one, now)
    ]
    for executor, incarnation in expired:
        # All of them before any is weighed for good: together they may be a storm.
        weight_of(namespace, mind, executor, incarnation, now)
    for executor, incarnation in expired:
        record = namespace.executors.get(executor)
        if record is not None and record.predecessor == incarnation:
            commands.append(
                InheritShards(
                    namespace=namespace.info.name,
                    executor=executor,
                    predecessor=incarnation,
                    at_ms=at_ms,
                    **weight_of(namespace, mind, executor, incarnation, now).fields(),
                )
            )
        elif record is not None and record.incarnation == incarnation:
            if record.predecessor is None:
                cause = CloseCause.EVICTED if record.evicted else CloseCause.EXPIRED
                gone.append((record, cause))
        else:
            mind.forget_executor(executor, incarnation)
    gone = _within_a_step(namespace, gone)
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


def _within_a_step(
    namespace: NamespaceState, gone: list[tuple[Executor, CloseCause]]
) -> list[tuple[Executor, CloseCause]]:
    """The first of them, as many as one step may find homes for; the others are still expired."""
    planned = 0
    for count, (record, _) in enumerate(gone):
        planned += len(namespace.owned(record.id))
        if planned > PLANNED_MAX:
            return gone[: max(count, 1)]
    return gone


def _adopt_unknown(namespace: NamespaceState, mind: Mind, now: float) -> None:
    """A full lease for an incarnation on record that was never heard by this leader.

    It joined, and its heartbeat's answer was lost before it could be renewed; and it may have been
    superseded since. Without a lease nothing would ever end it.
    """
    ttl_s = namespace.info.lease_bound_s
    for record in namespace.executors.values():
        for incarnation in (record.incarnation, record.predecessor):
            if incarnation is not None and mind.leases.deadline(record.id, incarnation) is None:
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

    Those on their way to an open executor arrive there, and those of one that will be back wait.
    """
    open_names = {seat.executor for seat in fleet.seats if seat.is_open}
    owned = [namespace.shards[key] for key in namespace.owned(record.id)]
    shards = [s for s in owned if s.fate is None and s.target not in open_names]
    reserve_s = reserve_for_s(namespace, mind, record, cause, now)
    if reserve_s > 0.0:
        shards = [s for s in shards if s.pin not in (None, record.id)]
    return CloseIncarnation(
        namespace=namespace.info.name,
        executor=record.id,
        incarnation=record.incarnation,
        cause=cause,
        placements=tuple(fitting(homes_for(mind, fleet, shards, record.id))),
        at_ms=at_ms,
        reserve_s=reserve_s,
    )
