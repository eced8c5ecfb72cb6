"""The command that lets an incarnation in, with what the end of the one before it is worth."""

from coordinator.core.commands import JoinExecutor
from coordinator.core.controller.beats import Beat
from coordinator.core.controller.claim_book import highest_claim
from coordinator.core.controller.crashes import NO_CRASH, weight_of
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState


def join_command(namespace: NamespaceState, mind: Mind, beat: Beat, at_ms: int) -> JoinExecutor:
    """Let in who asks with this heartbeat.

    If it proves that whom it follows is dead, the shards pass over at once and its end is weighed
    now; else that follows when the lease has run out.
    """
    record = namespace.executors.get(beat.executor)
    holder = "" if record is None else record.predecessor or record.incarnation
    weight = NO_CRASH
    if holder and beat.predecessor_dead == holder:
        weight = weight_of(namespace, mind, beat.executor, holder, beat.received_at)
    return JoinExecutor(
        namespace=namespace.info.name,
        executor=beat.executor,
        incarnation=beat.incarnation,
        profile=beat.profile,
        at_ms=at_ms,
        predecessor_dead=beat.predecessor_dead,
        claimed=highest_claim(beat),
        **weight.fields(),
    )
