"""One seed against consensus: its network, its workload and its faults, then a calm.

Decides what a run is made of and when it has failed. In the calm everyone must catch up, nothing
acknowledged may be missing, and the history of the clients must have an explanation.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from coordinator.consensus.cures.base import Cure
from coordinator.consensus.node import CURES
from tests.sim.clients import Clients
from tests.sim.cluster import SimCluster
from tests.sim.faults import Event, Injector, draw
from tests.sim.ledger import Violation

FAULTS_S = 14.0
CALM_S = 12.0
REST_S = 1.0
BOOT_S = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed came to."""

    seed: int
    what: str | None
    """None when every invariant held."""
    crashes: int
    partitions: int
    terms: int
    committed: int
    confirmed: int
    losses: int
    """Lives whose memory was lost, disk included."""
    operations: int
    """In the clients' history."""


@dataclass(frozen=True, slots=True)
class Mix:
    """One seed's drawing."""

    delay_s: tuple[float, float]
    batch_bytes: int
    chunk_bytes: int
    compaction_entries: int
    size: int
    fault_every_s: tuple[float, float]
    burst: int
    """Most commands a client sends at once."""
    has_crashes: bool
    is_reckless: bool
    """Memory is lost at any moment: nobody must catch up then, but nothing may be contradicted."""
    has_disks: bool
    skew: float
    """How far a node's clock may be from the true rate."""
    stray_ratio: float
    """Messages that come late on another connection, or twice: no TCP does that."""


def draw_mix(seed: int) -> Mix:
    """The drawing has its own randomness, so that leaving a cure out changes nothing else."""
    rng = random.Random(f"mix {seed}")
    # Of five nodes a false majority needs fewer than all the others: there strays tell more.
    strays = {3: (0.0, 0.0, 0.02), 5: (0.0, 0.15, 0.15)}
    return Mix(
        delay_s=rng.choice([(0.0002, 0.002), (0.001, 0.02), (0.001, 0.02), (0.001, 0.15)]),
        batch_bytes=rng.choice([800, 800, 1600, 65_536]),  # above the largest entry: `bounded`
        chunk_bytes=rng.choice([64, 256, 2048]),
        compaction_entries=rng.choice([10, 40, 40, 150, 100_000]),
        size=(size := rng.choice([3] * 9 + [5])),
        fault_every_s=rng.choice([(0.1, 0.6), (0.3, 1.5), (0.3, 1.5)]),
        burst=rng.choice([3, 20, 40]),
        has_crashes=rng.random() < 0.7,
        is_reckless=rng.random() < 0.1,
        has_disks=rng.random() < 0.4,
        skew=rng.choice([0.0, 0.01, 0.01, 0.1]),
        stray_ratio=rng.choice(strays[size]),
    )


class Scenario:
    """One run of one seed, with all lines of its script or only those of some numbers."""

    def __init__(
        self, seed: int, cures: Sequence[type[Cure]], only: Collection[int] | None = None
    ) -> None:
        self.seed = seed
        self.mix = mix = draw_mix(seed)
        self.cluster = SimCluster(
            f"consensus {seed}",
            cures=cures,
            delay_s=mix.delay_s,
            batch_bytes=mix.batch_bytes,
            chunk_bytes=mix.chunk_bytes,
            compaction_entries=mix.compaction_entries,
            size=mix.size,
            has_disks=mix.has_disks,
            skew=mix.skew,
            stray_ratio=mix.stray_ratio,
        )
        self.world, self.network = self.cluster.world, self.cluster.network
        self.injector = Injector(
            self.cluster, is_reckless=mix.is_reckless, has_crashes=mix.has_crashes
        )
        self.clients = Clients(self.cluster, seed)
        self.script = [e for e in self._draw_script() if only is None or e.number in only]
        self.command = 0
        self.is_calm = False

    def _draw_script(self) -> tuple[Event, ...]:
        return draw(
            self.seed,
            self.cluster.names,
            has_disks=self.mix.has_disks,
            every_s=self.mix.fault_every_s,
            end_s=BOOT_S + FAULTS_S,
        )

    def run(self) -> Outcome:
        """Faults, then calm; the first violation ends it."""
        what = None
        try:
            self._run()
        except Violation as violation:
            what = str(violation)
        ledger = self.cluster.ledger
        return Outcome(
            seed=self.seed,
            what=what,
            crashes=self.injector.crashes,
            partitions=self.injector.partitions,
            terms=max(ledger.leaders, default=0),
            committed=max(ledger.entries),
            confirmed=ledger.confirmed_terms,
            losses=self.injector.losses,
            operations=self.clients.operations,
        )

    def _run(self) -> None:
        world, cluster = self.world, self.cluster
        for name in cluster.names:
            world.at(world.rng.uniform(0, BOOT_S), cluster.boot, name)
        self.network.start(cluster.names)
        for event in self.script:
            world.at(event.at_s, self.injector.carry_out, event)
        world.at(BOOT_S, self._bursts)
        world.at(BOOT_S, self.clients.start)
        world.run_until(BOOT_S + FAULTS_S)
        self.is_calm = True
        self.injector.end()
        world.run_until(world.now + REST_S)  # a leader that was cut off has noticed by then
        self.clients.close()
        world.run_until(world.now + CALM_S, cluster.is_settled)
        if cluster.is_settled():
            self._last_command()
        elif not self.mix.is_reckless:
            raise Violation(f"not caught up after {CALM_S} s of calm: {self._positions()}")
        self._judge()

    def _judge(self) -> None:
        if not self.cluster.is_settled():
            self.clients.judge(None)
            return
        nodes = list(self.cluster.nodes.values())
        for node in nodes:
            self.cluster.ledger.settles(node.life, set(node.machine.commands))
        if len({node.machine.registry.digest() for node in nodes}) != 1:
            raise Violation(f"the states differ at one index: {self._positions()}")
        self.clients.judge(nodes[0].machine)

    def _positions(self) -> str:
        return ", ".join(node.position() for node in self.cluster.nodes.values())

    def _last_command(self) -> None:
        leader = next(n for n in self.cluster.nodes.values() if n.replica.is_ready_leader)
        self.command += 1
        leader.propose(self.command)
        acknowledged = self.cluster.ledger.acknowledged
        self.world.run_until(self.world.now + 1.0, lambda: self.command in acknowledged)
        if self.command not in acknowledged:
            raise Violation("a command in calm is not applied within a second")
        self.world.run_until(self.world.now + 1.0, self.cluster.is_settled)

    def _bursts(self) -> None:
        """Numbered commands, many at once, to whoever believes that it leads."""
        if self.is_calm:
            return
        rng = self.world.rng
        self.world.after(rng.uniform(0.02, 0.4), self._bursts)
        for node in list(self.cluster.nodes.values()):
            if node.is_listening and node.replica.engine.is_leader and rng.random() < 0.7:
                for _ in range(rng.randint(1, self.mix.burst)):
                    self.command += 1
                    node.propose(self.command)


def run_seed(
    seed: int, without: Sequence[str] = (), only: Collection[int] | None = None
) -> Outcome:
    """One seed against all cures but those named."""
    return Scenario(seed, [cure for cure in CURES if cure.name not in without], only).run()
