"""Scenarios of faults against consensus: from a seed, what goes wrong and when.

Decides the mix. Each seed draws one network, one workload and its faults, then a calm in which
everyone must catch up.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.consensus.cures.base import Cure
from coordinator.consensus.node import CURES
from tests.sim.cluster import SimCluster
from tests.sim.ledger import Violation

FAULTS_S = 24.0
CALM_S = 12.0
REST_S = 2.0
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
    """Crashes at any moment: nobody must catch up then, but nothing may be contradicted."""


class Scenario:
    """One run of one seed."""

    def __init__(self, seed: int, cures: Sequence[type[Cure]]) -> None:
        self.seed = seed
        # The drawing has its own randomness, so that leaving a cure out changes nothing else.
        self.cluster = SimCluster(f"consensus {seed}", cures=cures, **self._draw(seed))
        self.world, self.network = self.cluster.world, self.cluster.network
        self.crashes = 0
        self.partitions = 0
        self.command = 0
        self.is_calm = False

    def _draw(self, seed: int) -> dict[str, object]:
        rng = random.Random(f"mix {seed}")
        self.mix = Mix(
            delay_s=rng.choice([(0.0002, 0.002), (0.001, 0.02), (0.001, 0.02), (0.001, 0.15)]),
            batch_bytes=rng.choice([120, 400, 400, 65_536]),
            chunk_bytes=rng.choice([64, 256, 2048]),
            compaction_entries=rng.choice([10, 40, 40, 150, 100_000]),
            size=rng.choice([3] * 9 + [5]),
            fault_every_s=rng.choice([(0.1, 0.6), (0.3, 1.5), (0.3, 1.5)]),
            burst=rng.choice([3, 20, 40]),
            has_crashes=rng.random() < 0.6,
            is_reckless=rng.random() < 0.1,
        )
        return {
            "delay_s": self.mix.delay_s,
            "batch_bytes": self.mix.batch_bytes,
            "chunk_bytes": self.mix.chunk_bytes,
            "compaction_entries": self.mix.compaction_entries,
            "size": self.mix.size,
        }

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
            crashes=self.crashes,
            partitions=self.partitions,
            terms=max(ledger.leaders, default=0),
            committed=max(ledger.entries),
            confirmed=ledger.confirmed_terms,
        )

    def _run(self) -> None:
        world, cluster = self.world, self.cluster
        for name in cluster.names:
            world.at(world.rng.uniform(0, BOOT_S), cluster.boot, name)
        self.network.start(cluster.names)
        world.at(world.rng.uniform(0, BOOT_S), self._fault)
        world.at(BOOT_S, self._clients)
        world.run_until(BOOT_S + FAULTS_S)
        self._calm()
        world.run_until(world.now + REST_S)  # a leader that was cut off has noticed by then
        may_stay_behind = self.mix.is_reckless
        world.run_until(world.now + CALM_S, cluster.is_settled)
        if cluster.is_settled():
            self._last_command()
        elif not may_stay_behind:
            raise Violation(f"not caught up after {CALM_S} s of calm: {self._positions()}")
        for node in cluster.nodes.values():
            if node.is_admitted and cluster.is_settled():
                cluster.ledger.settles(node.life, set(node.machine.commands))

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

    # Clients.

    def _clients(self) -> None:
        if self.is_calm:
            return
        rng = self.world.rng
        self.world.after(rng.uniform(0.01, 0.25), self._clients)
        for node in list(self.cluster.nodes.values()):
            if node.is_listening and node.replica.engine.is_leader and rng.random() < 0.7:
                for _ in range(rng.randint(1, self.mix.burst)):
                    self.command += 1
                    node.propose(self.command)
                if rng.random() < 0.5:
                    node.confirm()

    # Faults.

    def _fault(self) -> None:
        if self.is_calm:
            return
        rng = self.world.rng
        self.world.after(rng.uniform(*self.mix.fault_every_s), self._fault)
        kind = rng.choices(
            (
                self._sever,
                self._block_pair,
                self._block_one_way,
                self._isolate,
                self._pause,
                self._crash,
                self._hand_over,
            ),
            (4, 2, 1, 2, 2, 3, 1),
        )[0]
        kind()

    def _pair(self) -> tuple[str, str]:
        one, other = self.world.rng.sample(self.cluster.names, 2)
        return one, other

    def _sever(self) -> None:
        self.network.sever(*self._pair())

    def _block(self, pairs: list[tuple[str, str]]) -> None:
        self.partitions += 1
        span_s = self.world.rng.choice((0.2, 0.6, 1.5, 3.0)) * self.world.rng.uniform(0.5, 1.5)
        for sender, receiver in pairs:
            self.network.block(sender, receiver)
            self.world.after(span_s, self.network.unblock, sender, receiver)

    def _block_pair(self) -> None:
        one, other = self._pair()
        self._block([(one, other), (other, one)])

    def _block_one_way(self) -> None:
        self._block([self._pair()])

    def _isolate(self) -> None:
        alone = self.world.rng.choice(self.cluster.names)
        others = [name for name in self.cluster.names if name != alone]
        self._block([(alone, o) for o in others] + [(o, alone) for o in others])

    def _pause(self) -> None:
        running = [
            n for n in self.cluster.names if (x := self.cluster.nodes.get(n)) and x.is_listening
        ]
        if len(running) == len(self.cluster.names):
            name = self.world.rng.choice(running)
            self.cluster.pause(name)
            self.world.after(self.world.rng.uniform(0.1, 3.0), self.cluster.resume, name)

    def _hand_over(self) -> None:
        for node in self.cluster.nodes.values():
            if node.is_listening:
                node.hand_over(self.world.rng.choice(self.cluster.names))

    def _crash(self) -> None:
        nodes = self.cluster.nodes
        name = self.world.rng.choice(self.cluster.names)
        down_s = self.world.rng.uniform(0.02, 1.5)
        if not self.mix.has_crashes or name not in nodes or len(nodes) < len(self.cluster.names):
            return
        others = [node for node in nodes.values() if node.name != name]
        # One failure at a time: a node that is not caught up yet is still failing. The reckless
        # leave one that remembers, or everything were forgotten and nothing could be checked. The
        # very first failure may come at any moment, also while the cluster is being founded.
        needed = any if self.mix.is_reckless else all
        is_first_failure = self.crashes == 0 and not self.cluster.ledger.acknowledged
        if is_first_failure or (
            needed(other.remembers for other in others)
            and (self.mix.is_reckless or nodes[name].is_admitted)
        ):
            self.crashes += 1
            self.cluster.kill(name)
            self.world.after(down_s, self._return, name)

    def _return(self, name: str) -> None:
        if name not in self.cluster.nodes:
            self.cluster.boot(name)

    def _calm(self) -> None:
        self.is_calm = True
        for sender, receiver in sorted(self.network.blocked):
            self.network.unblock(sender, receiver)
        for name in self.cluster.names:
            self.cluster.resume(name)
            self._return(name)


def run_seed(seed: int, without: Sequence[str] = ()) -> Outcome:
    """One seed against all cures but those named."""
    return Scenario(seed, [cure for cure in CURES if cure.name not in without]).run()
