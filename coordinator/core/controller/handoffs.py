"""Deadlines of open handoffs: a warm-up or a stop that does not come to an end.

A stop that is not acknowledged is never taken for done: the shard is marked overdue, the answers
to its owner's heartbeats stop renewing it, and one lease later nobody may act on it.
"""

from coordinator.core.commands import AbortHandoffs, Command, FinishOverdue, MarkOverdue
from coordinator.core.controller.mind import HandoffId, Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import Claim, ShardState

CLAIMS_MAX = 500
"""Per command: 500 keys of 256 bytes fit a quarter of a log entry, the rest follows at once."""


def plan_deadlines(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Commands for handoffs that are late."""
    mind.track_handoffs(namespace, now)
    policy = namespace.info.policy
    timeout_s = policy.handoff.release_timeout_s
    late = sorted(id_ for id_, since in mind.handoffs.items() if now - since >= timeout_s)
    states = {id_: namespace.shards[id_[0]] for id_ in late}
    stuck = [i for i in late if states[i].state is ShardState.PREPARING]
    hung = [i for i in late if states[i].state is ShardState.RELEASING and not states[i].overdue]
    over = sorted(
        id_
        for id_, since in mind.overdue.items()
        if mind.leases.lease_end(since, policy.lease_ttl_s) <= now
    )
    name = namespace.info.name
    commands: list[Command] = []
    if stuck:
        commands.append(AbortHandoffs(namespace=name, claims=_claims(stuck), at_ms=at_ms))
    if hung:
        commands.append(MarkOverdue(namespace=name, claims=_claims(hung)))
    if over:
        commands.append(FinishOverdue(namespace=name, claims=_claims(over), at_ms=at_ms))
    return commands


def next_deadline(namespace: NamespaceState, mind: Mind, now: float) -> float | None:
    """When `plan_deadlines` should be asked again."""
    policy = namespace.info.policy
    times = [
        since + policy.handoff.release_timeout_s
        for id_, since in mind.handoffs.items()
        if id_ not in mind.overdue
    ]
    times += [mind.leases.lease_end(since, policy.lease_ttl_s) for since in mind.overdue.values()]
    return min((max(at, now) for at in times), default=None)


def _claims(ids: list[HandoffId]) -> tuple[Claim, ...]:
    return tuple(Claim(key, epoch) for key, epoch in ids[:CLAIMS_MAX])
