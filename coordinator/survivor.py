"""`--force-new-cluster`: what is asked of a journal whose other members are lost for good.

Decides whether it may be asked, and which command makes another cluster of it. How that comes true
is consensus' business (`consensus/survivor.py`), what it means the state's.
"""

import random
from pathlib import Path
from typing import Final

from coordinator.clock import Clock
from coordinator.codec import Formats
from coordinator.consensus import ConsensusConfig, ConsensusError, force_new_cluster
from coordinator.core.commands import Applied, ForceNewCluster, Refused
from coordinator.core.types import EPOCH_SHIFT_BITS
from coordinator.replica import StateMachine

ID_BITS: Final = 128
"""As of the ids that a bootstrap mints."""


def go_on_alone(
    config: ConsensusConfig, formats: Formats, former_id: str, clock: Clock, rng: random.Random
) -> str | None:
    """The id of the cluster that this node's state is from now on; None if that was done before.

    ConsensusError if it cannot or must not be done; then nothing has changed.
    """
    if config.storage_dir is None:
        raise ConsensusError(
            "--force-new-cluster goes on from a journal, and this node keeps none: what a lost "
            "cluster held in memory comes back from its executors, when all members start empty "
            "(with --bootstrap, if one of them is missing)"
        )
    if not Path(config.storage_dir).is_dir():
        raise ConsensusError(f"--force-new-cluster: there is no journal in {config.storage_dir}")
    command = ForceNewCluster(
        cluster_id=f"{rng.getrandbits(ID_BITS):032x}",
        former_id=former_id,
        epoch_base=clock.wall_ms() // 1000 << EPOCH_SHIFT_BITS,
        at_ms=clock.wall_ms(),
    )
    return force_new_cluster(
        config,
        StateMachine(formats),
        former_id=former_id,
        payload=formats.encode(command, formats.newest),
        named=_name_of,
        rng=rng,
    )


def _name_of(outcome: object) -> str:
    if isinstance(outcome, Applied):
        return outcome.resource
    why = outcome.detail if isinstance(outcome, Refused) else repr(outcome)
    raise ConsensusError(f"--force-new-cluster: {why}")
