"""A member whose others are lost for good goes on as another cluster: `force_new_cluster`.

Decides what must hold before, and in which order it comes true. It runs at a start, when there is
no link yet: in a cluster of one, by the rules that hold in any. So all that the log holds is
committed, then the one entry that makes it another cluster, then a snapshot of the outcome replaces
all that came before. Whoever joins later learns nothing of the former cluster. Must not know what
the entry means.

The members that come instead start empty, and their quarantine would wait for all others for ever.
They are told by the survivor (`sole`) that there is nobody else to wait for; see `quarantine`.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from coordinator.consensus.contract import (
    ConsensusConfig,
    ConsensusError,
    SlicedMachine,
    StateMachine,
)
from coordinator.consensus.cures.base import Cure
from coordinator.consensus.cures.durable import Durable
from coordinator.consensus.disk import Disk
from coordinator.consensus.journal_file import open_journal
from coordinator.consensus.library import SUCCESS, logger
from coordinator.consensus.node import CURES
from coordinator.consensus.replica import Replica

STEP_S: Final = 0.05
"""Nobody else is there to be in time with: each step is worth this much."""
READING_S: Final = 1e-4
"""A look at the clock takes a while, or loops that wait for time to pass would never end."""
STEPS_MAX: Final = 200_000
"""A million shards take 2,000 for their snapshot, the longest log some 20."""


def force_new_cluster(
    config: ConsensusConfig,
    machine: StateMachine | SlicedMachine,
    *,
    former_id: str,
    payload: bytes,
    named: Callable[[object], str],
    rng: random.Random,
    open_disk: Callable[[], Disk] | None = None,
) -> str | None:
    """The id under which this node's journal goes on; None if that was done before.

    `former_id` is the cluster that the journal must belong to, `payload` the entry that makes
    another one of it, and `named` says which its outcome made, or raises. The machine is used up.
    ConsensusError if the journal cannot be used so.
    """

    def disk_of() -> Disk:
        return open_journal(config.storage_dir or "", config.name)

    open_disk = open_disk or disk_of
    if not _is_ready(open_disk(), former_id):
        return None
    alone = replace(config, peers={config.name: config.peers[config.name]}, bootstrap=False)
    disk = open_disk()
    cures: list[Cure] = [cure(disk) if cure is Durable else cure() for cure in CURES]
    clock = _Clock()
    replica = Replica(alone, machine, cures, rng=rng, clock=clock)
    try:
        cluster_id = named(_commit_alone(replica, clock, payload))
        _compact(replica, clock)
        # In one transaction, and last: until then all of this can be done again.
        for name, value in (
            ("cluster_id", cluster_id),
            ("forced", former_id),
            ("sole", "1"),
            ("adopted", "{}"),
        ):
            replica.engine.log.note(name, value)
        _step(replica, clock)
    finally:
        replica.engine.log.close()
    logger.warning(
        "cluster_forced node=%s former=%s cluster_id=%s", config.name, former_id, cluster_id
    )
    return cluster_id


def _is_ready(disk: Disk, former_id: str) -> bool:
    """False if it was done; ConsensusError if it must not be."""
    try:
        notes = disk.load().notes
    finally:
        disk.close()
    if notes.get("forced") == former_id:
        return False
    cluster_id = notes.get("cluster_id")
    if cluster_id is None:
        raise ConsensusError(f"{disk.path}: belongs to no cluster yet, so nothing can go on")
    if cluster_id != former_id:
        raise ConsensusError(f"{disk.path}: belongs to cluster {cluster_id}, not {former_id}")
    if notes.get("admitted") != notes.get("nonce"):
        raise ConsensusError(
            f"{disk.path}: was never caught up, so it lacks what was decided; use another member's"
        )
    return True


class _Clock:
    """Time that goes by in steps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += READING_S
        return self.now_s


def _step(replica: Replica, clock: _Clock) -> None:
    clock.now_s += STEP_S
    replica.step()
    replica.take_outbox()
    if replica.fatal is not None or replica.disk_fault is not None:
        raise ConsensusError(f"it cannot be kept: {replica.fatal or replica.disk_fault}")


def _step_until(replica: Replica, clock: _Clock, condition: Callable[[], bool]) -> None:
    for _ in range(STEPS_MAX):
        if condition():
            return
        _step(replica, clock)
    raise ConsensusError(f"not done after {STEPS_MAX} steps")


def _commit_alone(replica: Replica, clock: _Clock, payload: bytes) -> object:
    """The outcome of the entry, after all that the log held before it."""
    answers: list[tuple[Any, int]] = []
    _step_until(replica, clock, lambda: replica.is_ready_leader)
    replica.propose(payload, lambda outcome, error: answers.append((outcome, error)), 0)
    _step_until(replica, clock, lambda: bool(answers))
    outcome, error = answers[0]
    if error != SUCCESS:
        raise ConsensusError(f"the library answered {error}")
    return outcome


def _compact(replica: Replica, clock: _Clock) -> None:
    """A snapshot of this moment in place of all that led to it."""
    snapshots, engine = replica.snapshots, replica.engine
    goal = engine.applied_index
    _step_until(replica, clock, lambda: not snapshots.is_making)
    if snapshots.index < goal:
        engine.forceLogCompaction()
        _step_until(replica, clock, lambda: snapshots.index >= goal and not snapshots.is_making)
    _step_until(replica, clock, lambda: not engine.log.is_behind)
