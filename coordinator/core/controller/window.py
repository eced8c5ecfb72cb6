"""When a claim window ends, and what is committed with its end.

All leases of before have run out one lease after this leader's term began, or after the namespace
came to be if that was later. Until then a shard that nobody claims may still be run by somebody.
"""

from coordinator.core.claims import epoch_ceiling
from coordinator.core.commands import AdoptClaims, CloseWindow, Command
from coordinator.core.controller.claim_book import chunks
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import ShardState
from coordinator.core.types import Claim


def plan_window(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Once the wait is over: what was last held goes back to its executors, then the window closes.

    Two steps, so that what the first one leaves is known when the second one is due.
    """
    ends_at = window_ends_at(namespace, mind, now)
    if ends_at is None or now < ends_at:
        return []
    info = namespace.info
    claims = [
        AdoptClaims(
            namespace=info.name,
            executor=executor,
            incarnation=namespace.executors[executor].incarnation,
            claims=chunk,
            is_held=False,
            at_ms=at_ms,
        )
        for waiting in (mind.claims.waiting(namespace), _given_up(namespace, mind, at_ms))
        for executor, some in waiting.items()
        for chunk in chunks(some)
    ]
    close = CloseWindow(namespace=info.name, created_revision=info.created_revision, at_ms=at_ms)
    return [*claims] or [close]


def _given_up(namespace: NamespaceState, mind: Mind, at_ms: int) -> dict[str, list[Claim]]:
    """What is an executor's own by a survivor's table, and what it does not say it holds.

    It may have released that to members that are lost. Whoever was not heard at all says nothing.
    """
    window = namespace.info.window
    newest = 0 if window is None else min(window.epoch_floor - 1, epoch_ceiling(at_ms))
    found: dict[str, list[Claim]] = {}
    for name, record in sorted(namespace.executors.items()):
        held = frozenset(mind.reported.get(name, ()))
        shards = (namespace.shards[key] for key in sorted(namespace.owned(name)) if key not in held)
        own = [
            Claim(shard.key, shard.epoch)
            for shard in shards
            if shard.epoch <= newest and shard.state is not ShardState.RELEASING
        ]
        if own and record.predecessor is None:
            found[name] = own
    return found


def window_ends_at(namespace: NamespaceState, mind: Mind, now: float) -> float | None:
    """When nobody can act any more who has not said so; None while the window is closed."""
    window = namespace.info.window
    if window is None:
        mind.claims.close()
        return None
    return mind.leases.lease_end(mind.claims.open_since(now), window.lease_s)
