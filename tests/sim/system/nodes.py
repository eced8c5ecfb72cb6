"""Coordinator nodes as processes: the real `Node`, on simulated machines, wires and disks.

Decides what a life of a node starts with and what outlives it. Must not know which faults are
injected, nor what clients ask.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from coordinator.api.app import DESK
from coordinator.api.port import Port
from coordinator.consensus import ConsensusConfig, ConsensusNode
from coordinator.consensus.cures.durable import Durable
from coordinator.consensus.node import CURES
from coordinator.node import Node
from coordinator.settings import Settings, parse_settings
from tests.sim.cluster import SmallParts
from tests.sim.disk import SimDisk
from tests.sim.system.loop import Machine, Process
from tests.sim.system.wires import Wires
from tests.sim.world import World

API_PORT = 7070
RAFT_PORT = 7071
TICK_S = 0.05
PING_S = 0.12
"""As rare as the time-outs allow: idle turns are a third of the work of a run."""
POWER_BACK_S = 0.3
"""A machine that lost its power starts again after this."""


class NodeClock:
    """A node's clock: reading it costs a little, as loops that wait for time must end."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def monotonic(self) -> float:
        self._machine.world.read()
        return self._machine.monotonic()

    def wall_ms(self) -> int:
        return self._machine.wall_ms()


class SimPort(Port):
    """Of a simulated machine."""

    _server: asyncio.AbstractServer | None = None

    async def open(self, host: str, port: int, received_bytes: int | None = None) -> None:
        _ = received_bytes  # these wires keep whatever comes
        loop: Any = asyncio.get_running_loop()
        self._server = loop.listen(
            host, port, lambda end: self._came(end, end.get_extra_info("peername"))
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def consensus_of(
    disk: SimDisk | None, compaction_entries: int, batch_bytes: int, chunk_bytes: int
) -> type[ConsensusNode]:
    """The product's composition on a simulated disk, with parts so small that there are many."""
    durable: Any = partial(Durable, disk)
    small: Any = partial(SmallParts, batch_bytes, chunk_bytes)
    composed = [durable if disk and cure is Durable else cure for cure in CURES]

    class OnSimDisk(ConsensusNode):
        cures = (*composed, small)

        def __init__(
            self,
            config: ConsensusConfig,
            machine: Any,
            *,
            rng: random.Random,
            monotonic: Callable[[], float],
        ) -> None:
            eased = replace(
                config,
                compaction_min_entries=compaction_entries,
                tick_interval_s=TICK_S,
                ping_interval_s=PING_S,
            )
            super().__init__(eased, machine, rng=rng, monotonic=monotonic)

    return OnSimDisk


class NodePlace:
    """One member of the cluster: its machine, its disk, and whichever life it is in."""

    def __init__(
        self,
        world: World,
        wires: Wires,
        machine: Machine,
        settings: Settings,
        *,
        seed: str,
        disk: SimDisk | None,
        make: Callable[[SimDisk | None], type[Node]],
        failed: Callable[[str], None],
    ) -> None:
        self.world = world
        self.machine = machine
        self.name = machine.name
        self.disk = disk
        self.node: Node | None = None
        self.process: Process | None = None
        self.has_broken_disk = False
        self.lives = 0
        self.past: list[tuple[Process, Node]] = []
        """Every life, with what it was made of."""
        self._wires = wires
        self._settings = settings
        self._seed = seed
        self._make = make
        self._failed = failed
        self.is_leaving = False
        """It was asked to stop."""

    @property
    def is_up(self) -> bool:
        """Its process exists; it may be paused."""
        return self.process is not None

    @property
    def is_admitted(self) -> bool:
        """It is up, and takes part in elections."""
        return self.node is not None and not self.node.consensus._replica.is_quarantined

    @property
    def remembers(self) -> bool:
        """Admitted, and it knows of an election: with it gone nobody might."""
        return self.is_admitted and self.node is not None and self.node.consensus.status().term > 0

    def boot(self) -> None:
        """A process with empty memory, and its disk if it has one."""
        if self.process is not None:
            return
        if self.disk is not None:
            self.disk.fault = None
        self.has_broken_disk = False
        self.is_leaving = False
        self.lives += 1
        self.process = process = Process(self.machine, f"{self.name}.{self.lives}", self._wires)
        process.lost_power = self._lose_power
        process.broke = lambda what: self._failed(f"{process.name}: {what}")
        process.gone.append(self._is_gone)
        process.receive(lambda: process.start(self._live(process), "life"))

    async def _live(self, process: Process) -> None:
        node = self._make(self.disk)(
            self._settings,
            clock=NodeClock(self.machine),
            rng=random.Random(f"{self._seed} {process.name}"),
        )
        self.node = node
        self.past.append((process, node))
        await node.start()
        assert node.fatal is not None
        what = await node.fatal
        if not self.has_broken_disk:
            self._failed(f"{process.name} ends itself: {what}")
        self._lose_power()

    def _is_gone(self) -> None:
        self.process = self.node = None

    def kill(self) -> None:
        """The process is gone, and its memory."""
        if self.process is not None:
            self.process.kill()

    def _lose_power(self) -> None:
        self.kill()
        self.world.after(POWER_BACK_S, self.boot)

    def stop(self) -> None:
        """Ends it as a deploy does: it hands the lead over and closes what is open."""
        process, node = self.process, self.node
        if process is None or node is None or self.is_leaving:
            return
        self.is_leaving = True

        async def leave() -> None:
            await node.hand_over()
            await node.stop()
            process.kill()

        process.receive(lambda: process.start(leave(), "leave"))

    def pause(self) -> None:
        """The process stands still."""
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        """The process goes on."""
        if self.process is not None:
            self.process.resume()

    def clean_up(self) -> None:
        """At the end of the world: sockets that nobody closed are closed."""
        for process, node in self.past:
            process.loop.close_all([node.app[DESK].forwarder.close()])

    def order(self, what: Callable[[Node], Any]) -> None:
        """Asks something of the node that runs now, if it does."""
        node, process = self.node, self.process
        if node is not None and process is not None and node.fatal is not None:
            process.receive(lambda: what(node))


def settings_of(names: Sequence[str], addresses: Sequence[str], namespaces: str) -> list[Settings]:
    """The settings of each member."""
    peers = ", ".join(
        f'{name} = "{address}:{RAFT_PORT}"' for name, address in zip(names, addresses, strict=True)
    )
    return [
        parse_settings(
            f"""
            [node]
            name = "{name}"
            peers = {{ {peers} }}
            [api]
            bind = "{address}:{API_PORT}"
            {namespaces}
            """,
            {},
        )
        for name, address in zip(names, addresses, strict=True)
    ]


def transfer(node: Node, to: str) -> None:
    """Hands the lead over, if it is held and there is somebody to take it."""

    async def hand_over() -> None:
        try:
            await node.consensus.transfer_leadership(to)
        except Exception:  # noqa: BLE001 - not the leader, or nobody is level: then not
            return

    asyncio.get_running_loop().create_task(hand_over())
