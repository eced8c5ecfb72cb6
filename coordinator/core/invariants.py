"""What must hold of a namespace's tables after every command, whatever the commands were."""

from coordinator.core.events import revision_of
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import HANDOFF_STATES, Fate, Shard, ShardState
from coordinator.core.types import Executor

_INDICES = (
    *("_owned", "_incoming", "_reserved"),
    *("vacant", "in_flight", "pinned", "expiring", "struck"),
)


def namespace_faults(namespace: NamespaceState) -> list[str]:
    """What is wrong with these tables; empty when nothing is."""
    fresh = NamespaceState.from_image(namespace.image())
    wrong = [
        f"index {name} disagrees with the tables"
        for name in _INDICES
        if getattr(fresh, name) != getattr(namespace, name)
    ]
    info = namespace.info
    if info.window is not None and namespace.reservations:
        wrong.append("shards are kept for somebody while claims to them are taken")
    if info.lease_bound_s < info.policy.lease_ttl_s:
        wrong.append(f"leases of {info.policy.lease_ttl_s} s beyond the bound {info.lease_bound_s}")
    wrong.extend(
        f"executor {record.id!r}: {what}"
        for record in namespace.executors.values()
        for what in executor_faults(namespace, record)
    )
    ids = [event.id for event in namespace.events]
    if ids != sorted(set(ids)):
        wrong.append("events share ids or are out of order")
    if ids and revision_of(ids[-1]) > namespace.revision:
        wrong.append(f"event {ids[-1]} of a revision that is yet to come")
    epochs: dict[int, str] = {}
    for key, shard in namespace.shards.items():
        wrong.extend(f"shard {key!r}: {what}" for what in shard_faults(namespace, shard))
        if shard.executor is not None and epochs.setdefault(shard.epoch, key) != key:
            wrong.append(f"shards {epochs[shard.epoch]!r} and {key!r} share an epoch")
    return wrong


def executor_faults(namespace: NamespaceState, record: Executor) -> list[str]:
    """What is wrong with one executor's record."""
    over = namespace.closed.get((record.id, record.incarnation))
    rules = (
        (record.predecessor != record.incarnation, "waits for itself"),
        (record.evicted or over is None, f"on record although {over}"),
        (record.id not in namespace.reservations, "is back, and shards are still kept for it"),
    )
    return [what for holds, what in rules if not holds]


def shard_faults(namespace: NamespaceState, shard: Shard) -> list[str]:
    """What is wrong with one shard's record."""
    is_held = shard.state is ShardState.OWNED or shard.state in HANDOFF_STATES
    is_moving = shard.target is not None
    rules = (
        (is_held == (shard.executor is not None), f"{shard.state} with owner {shard.executor}"),
        (
            shard.executor is None or shard.executor in namespace.executors,
            f"owned by the unknown {shard.executor}",
        ),
        (shard.executor is None or shard.epoch > 0, "owned without an epoch"),
        (
            not is_moving or shard.target in namespace.executors,
            f"moving to the unknown {shard.target}",
        ),
        (
            not is_moving or (shard.state in HANDOFF_STATES and shard.target != shard.executor),
            f"{shard.state} of {shard.executor} with target {shard.target}",
        ),
        (shard.state is not ShardState.PREPARING or is_moving, "preparing without a target"),
        (
            not shard.is_warm or (shard.state is ShardState.RELEASING and is_moving),
            f"warm while {shard.state} with target {shard.target}",
        ),
        (
            not shard.overdue or shard.state is ShardState.RELEASING,
            f"overdue while {shard.state}",
        ),
        (
            (shard.state is ShardState.PARKED)
            == (shard.fate is Fate.PARKED and shard.executor is None),
            f"{shard.state} with fate {shard.fate}",
        ),
        (shard.pin is not None or shard.pin_until_ms is None, "the end of no pin"),
        (
            shard.reserved is None
            or (shard.state is ShardState.VACANT and shard.reserved in namespace.reservations),
            f"{shard.state} and kept for {shard.reserved}",
        ),
        (
            shard.claimed_epoch < shard.epoch or shard.claimed_epoch == 0,
            f"epoch {shard.epoch} although {shard.claimed_epoch} was claimed",
        ),
        (
            shard.fate is not Fate.RETIRED or shard.state is ShardState.RELEASING,
            f"{shard.state} while being retired",
        ),
    )
    return [what for holds, what in rules if not holds]
