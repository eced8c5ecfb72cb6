"""A simulated cluster: its nodes, their clocks and disks, their network and their ledger.

Decides what a life starts with and what outlives it. Must not know which faults are injected.
"""

from collections.abc import Callable, Mapping, Sequence

from coordinator.consensus import ConsensusConfig
from coordinator.consensus.cures.base import Blueprint, Cure
from coordinator.consensus.cures.durable import Durable
from tests.sim.disk import SimDisk
from tests.sim.ledger import Ledger
from tests.sim.network import Network
from tests.sim.node import SimNode
from tests.sim.world import World

POWER_BACK_S = 0.3
"""A machine that lost its power starts again after this, unless somebody says otherwise."""


class SmallParts(Cure):
    """Not a cure: makes batches and chunks small, so that a short run has many of them."""

    def __init__(self, batch_bytes: int, chunk_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._chunk_bytes = chunk_bytes

    def prepare(self, blueprint: Blueprint) -> None:
        """Sets both sizes."""
        blueprint.settings["appendEntriesBatchSizeBytes"] = self._batch_bytes
        blueprint.snapshots.chunk_bytes = self._chunk_bytes


class SimCluster:
    """Nodes by name. With `has_disks` they keep a journal, or else every end loses a memory."""

    def __init__(
        self,
        seed: str,
        *,
        cures: Sequence[type[Cure]],
        delay_s: tuple[float, float],
        batch_bytes: int,
        chunk_bytes: int,
        compaction_entries: int,
        size: int = 3,
        has_disks: bool = False,
        skew: float = 0.0,
        stray_ratio: float = 0.0,
    ) -> None:
        self.seed = seed
        self.world = World(seed)
        self.network = Network(self.world, delay_s, stray_ratio)
        self.ledger = Ledger()
        self.names = [f"n{number + 1}" for number in range(size)]
        self.nodes: dict[str, SimNode] = {}
        self.disks = {name: SimDisk(name) for name in self.names} if has_disks else {}
        rng = self.world.rng
        self.rates: Mapping[str, float] = {
            name: 1.0 + rng.uniform(-skew, skew) for name in self.names
        }
        self._offsets_s = {name: rng.uniform(0.0, 1e5) for name in self.names}
        self._broken: set[str] = set()
        self._cures = cures
        self._parts = (batch_bytes, chunk_bytes)
        self._compaction_entries = compaction_entries
        self._lives = dict.fromkeys(self.names, 0)

    def config(self, name: str) -> ConsensusConfig:
        """The settings of one node; addresses are never used."""
        return ConsensusConfig(
            name=name,
            peers={peer: f"{peer}:1" for peer in self.names},
            api_url=f"http://{name}",
            compaction_min_entries=self._compaction_entries,
        )

    def clock(self, name: str) -> Callable[[], float]:
        """The clock of one machine; it outlives processes."""
        return self.world.clock(self.rates[name], self._offsets_s[name])

    def compose(self, name: str) -> list[Cure]:
        """The cures of this run, on this node's disk, and small parts."""
        disk = self.disks.get(name)
        cures = [cure(disk) if disk and cure is Durable else cure() for cure in self._cures]
        return [*cures, SmallParts(*self._parts)]

    def boot(self, name: str) -> None:
        """A process with empty memory, and its disk if it has one."""
        if name not in self.nodes:
            self._broken.discard(name)
            if name in self.disks:
                self.disks[name].fault = None
            self._lives[name] += 1
            node = SimNode(self, name, self._lives[name])
            self.nodes[name] = self.network.stations[name] = node

    def kill(self, name: str) -> None:
        """The process is gone, and its memory."""
        node = self.nodes.pop(name)
        node.is_alive = False
        self.network.forget(name)
        del self.network.stations[name]

    def lose_power(self, name: str) -> None:
        """The process is gone in the middle of a step, and comes back a little later."""
        self.kill(name)
        self.world.after(POWER_BACK_S, self.boot, name)

    def breaks_disk(self, name: str) -> None:
        """The next commit there is expected to end the process."""
        self._broken.add(name)

    def has_broken_disk(self, name: str) -> bool:
        """A fatal end of this node is the disk's, not the node's."""
        return name in self._broken

    def pause(self, name: str) -> None:
        """The process stands still."""
        self.nodes[name].is_paused = True

    def resume(self, name: str) -> None:
        """The process goes on, with what waited in its sockets."""
        node = self.nodes.get(name)
        if node is not None and node.is_paused:
            node.is_paused = False
            self.network.resumed(name)
            node.kick()

    def is_settled(self) -> bool:
        """Everyone is admitted, follows one leader, and has applied the same."""
        nodes = list(self.nodes.values())
        if len(nodes) < len(self.names) or not all(node.is_admitted for node in nodes):
            return False
        engines = [node.replica.engine for node in nodes]
        return (
            sum(node.replica.is_ready_leader for node in nodes) == 1
            and len({engine.applied_index for engine in engines}) == 1
            and len({engine.last_index for engine in engines}) == 1
        )
