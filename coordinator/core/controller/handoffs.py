"""Deadlines of open handoffs: a warm-up or a stop that does not come to an end.

A stop that is not acknowledged is never taken for done: the shard is marked overdue, the answers
to its owner's heartbeats stop renewing it, and one lease later nobody may act on it.
"""

from coordinator.core.commands import AbortHandoffs, Command, FinishOverdue, MarkOverdue
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.outage import is_withheld
from coordinator.core.controller.tempo import HandoffId
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import ShardState
from coordinator.core.types import Claim

CLAIMS_MAX = 500
"""Per command: 500 keys of 256 bytes fit a quarter of a log entry, the rest follows at once."""


def plan_deadlines(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Commands for handoffs that are late."""
    mind.track_handoffs(namespace, now)
    timeout_s = namespace.info.policy.handoff.release_timeout_s
    late = {id_ for id_, (_, since) in mind.handoffs.items() if now - since >= timeout_s}
    stuck: list[HandoffId] = []
    hung: list[HandoffId] = []
    withheld = _withheld(namespace, mind, now)
    for id_, (state, _) in sorted(mind.handoffs.items()):
        if state is ShardState.PREPARING:
            if id_ in late:
                mind.failures.hung(id_[0], namespace.shards[id_[0]].target or "", now)
            if id_ in late or not _is_target_open(namespace, id_):
                stuck.append(id_)
        elif id_ in late and id_ not in mind.overdue and id_ not in withheld:
            hung.append(id_)
    over = sorted(
        id_
        for id_, since in mind.overdue.items()
        if mind.leases.lease_end(since, namespace.info.lease_bound_s) <= now and id_ not in withheld
    )
    name = namespace.info.name
    commands: list[Command] = []
    if stuck:
        commands.append(AbortHandoffs(namespace=name, claims=_claims(stuck), at_ms=at_ms))
    if hung:
        commands.append(MarkOverdue(namespace=name, claims=_claims(hung), at_ms=at_ms))
    if over:
        commands.append(FinishOverdue(namespace=name, claims=_claims(over), at_ms=at_ms))
    return commands


def next_deadline(namespace: NamespaceState, mind: Mind, now: float) -> float | None:
    """When `plan_deadlines` should be asked again."""
    withheld = _withheld(namespace, mind, now)
    times = [
        since + namespace.info.policy.handoff.release_timeout_s
        for id_, (_, since) in mind.handoffs.items()
        if id_ not in mind.overdue and id_ not in withheld
    ]
    bound_s = namespace.info.lease_bound_s
    times += [
        mind.leases.lease_end(since, bound_s)
        for id_, since in mind.overdue.items()
        if id_ not in withheld
    ]
    return min((max(at, now) for at in times), default=None)


def _withheld(namespace: NamespaceState, mind: Mind, now: float) -> frozenset[HandoffId]:
    """Stops that are owed by an executor from which a mass failure lets nothing be taken."""
    alarm = namespace.info.mass_failure
    if alarm is None or not alarm.is_holding:
        return frozenset()
    return frozenset(
        id_
        for id_, (state, _) in mind.handoffs.items()
        if state is ShardState.RELEASING
        and (shard := namespace.shards.get(id_[0])) is not None
        and (owner := namespace.executors.get(shard.executor or "")) is not None
        and is_withheld(namespace, mind, owner, now)
    )


def _is_target_open(namespace: NamespaceState, handoff: HandoffId) -> bool:
    """Whether the executor that warms up may still get the shard."""
    target = namespace.executors.get(namespace.shards[handoff[0]].target or "")
    return target is not None and namespace.accepts(target)


def _claims(ids: list[HandoffId]) -> tuple[Claim, ...]:
    return tuple(Claim(key, epoch) for key, epoch in ids[:CLAIMS_MAX])
