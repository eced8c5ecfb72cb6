"""One seed against the whole system: nodes, executors, routers, an operator, faults, then a calm.

Decides what a run is made of and when it has failed. In the calm every shard must be owned and run
again within its bound, no handoff may be open, and nodes and routers must agree with what runs.
"""

import contextlib
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from client.transport import Response
from coordinator.node import Node
from tests.sim.disk import SimDisk
from tests.sim.faults import Event
from tests.sim.system import rules
from tests.sim.system.calm import Calm
from tests.sim.system.loop import Machine
from tests.sim.system.mix import BOOT_S, Mix, draw_mix, namespace_table
from tests.sim.system.nodes import API_PORT, NodePlace, SimPort, consensus_of, settings_of
from tests.sim.system.orders import unpark
from tests.sim.system.programs import (
    ExecutorProgram,
    OperatorProgram,
    RouterProgram,
    Surroundings,
)
from tests.sim.system.script import Cast, Injector, draw
from tests.sim.system.wires import Wires
from tests.sim.system.witness import Witness
from tests.sim.world import World

LOOK_S: Final = 0.1
"""How often the calm is looked at."""
EXPECTED: Final = ("callback_failed", "failed to load full dump")
"""Callbacks raise where the script says so, and the library complains of what a cure refuses it."""
STAYS_LEASES: Final = 1.5
"""Once settled, it must stay so for as long."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed came to."""

    seed: int
    what: str | None
    """None when every invariant held."""
    crashes: int
    partitions: int
    moves: int
    starts: int
    orders: int
    answers: int
    terms: int
    settled_s: float
    """How long the calm took."""
    digest: str
    """Of the whole history."""


class Scenario:
    """One run of one seed, with all lines of its script or only those of some numbers."""

    def __init__(
        self, seed: int, only: Collection[int] | None = None, mix: Mix | None = None
    ) -> None:
        self.seed = seed
        self.mix = mix = mix or draw_mix(seed)
        self.world = World(f"system {seed}")
        self.wires = Wires(self.world, mix.delay_s)
        self.witness = Witness(self.world)
        self.answers = 0
        self.settled_s = 0.0
        self._lock_dir = Path(tempfile.mkdtemp(prefix="sim-")) if mix.has_locks else None
        self.keys = [str(number) for number in range(mix.shards)]
        addresses = [f"127.0.0.{number}" for number in (1, 2, 3)]
        self.nodes = self._make_nodes(["n1", "n2", "n3"], addresses)
        self.around = Surroundings(
            wires=self.wires,
            witness=self.witness,
            endpoints=[f"http://{address}:{API_PORT}" for address in addresses],
            seed=f"system {seed}",
            stray_ratio=mix.stray_ratio,
            answered=self._answered,
            has_warmup=mix.has_warmup,
            leave_timeout_s=2 * mix.lease_s,
            lock_dir=self._lock_dir,
        )
        self.executors = self._make_executors()
        self.routers = {
            name: RouterProgram(self.around, self._machine(name), name) for name in ("r1", "r2")
        }
        self.operator = OperatorProgram(self.around, self._machine("o1"), "o1")
        self.injector = Injector(
            Cast(
                world=self.world,
                wires=self.wires,
                nodes=self.nodes,
                executors=self.executors,
                routers=dict(self.routers),
                operator=self.operator,
                keys=self.keys,
                lease_s=mix.lease_s,
                remembers_orders=mix.has_disks,
            )
        )
        self.calm = Calm(self.nodes, self.executors, self.routers, self.operator, self.witness)
        drawn = draw(
            seed,
            list(self.nodes),
            list(self.executors),
            has_disks=mix.has_disks,
            lease_s=mix.lease_s,
            every_s=mix.fault_every_s,
            between_s=(BOOT_S, BOOT_S + mix.faults_s),
        )
        self.script: list[Event] = [e for e in drawn if only is None or e.number in only]

    def _machine(self, name: str) -> Machine:
        rng, skew = self.world.rng, self.mix.skew
        rate = 1.0 + rng.choice([-1.0, 1.0, rng.uniform(-1.0, 1.0)]) * skew
        return Machine(
            self.world, name, rate, rng.uniform(0.0, 1e5), wall_off_s=rng.uniform(-0.5, 0.5)
        )

    def _make_nodes(self, names: list[str], addresses: list[str]) -> dict[str, NodePlace]:
        mix = self.mix

        def make(disk: SimDisk | None) -> type[Node]:
            class SimulatedNode(Node):
                port_type = SimPort
                consensus_type = consensus_of(
                    disk, mix.compaction_entries, mix.batch_bytes, mix.chunk_bytes
                )

            return SimulatedNode

        settings = settings_of(names, addresses, namespace_table(mix))
        places = {}
        for name, address, each in zip(names, addresses, settings, strict=True):
            machine = self._machine(name)
            self.wires.hosts[address] = machine
            places[name] = NodePlace(
                self.world,
                self.wires,
                machine,
                each,
                seed=f"system {self.seed}",
                disk=SimDisk(name) if mix.has_disks else None,
                make=make,
                failed=self.witness.fail,
            )
        return places

    def _make_executors(self) -> dict[str, ExecutorProgram]:
        rng = random.Random(f"loads {self.seed}")
        loads = {key: rng.choice([0.05, 0.1, 0.2, 0.4]) for key in self.keys}
        names = [f"e{number + 1}" for number in range(self.mix.executors)]
        return {
            name: ExecutorProgram(self.around, self._machine(name), name, loads) for name in names
        }

    def _answered(self, what: str, response: Response) -> None:
        self.answers += 1
        if response.status == 500:
            self.witness.fail(f"{what} was answered {response.body[:200]!r}")

    # The run.

    def run(self) -> Outcome:
        """Faults, then calm; the first violation ends it."""
        terms = 0
        try:
            with errors_told(self.witness.fail):
                self._run()
            terms = self.calm.highest_term()
        finally:
            self._clean_up()
        injector = self.injector
        return Outcome(
            seed=self.seed,
            what=self.witness.violation,
            crashes=injector.crashes,
            partitions=injector.partitions,
            moves=self.witness.moves,
            starts=self.witness.starts,
            orders=self.operator.orders,
            answers=self.answers,
            terms=terms,
            settled_s=round(self.settled_s, 3),
            digest=self.witness.digest,
        )

    def _is_broken(self) -> bool:
        return self.witness.violation is not None

    def _run(self) -> None:
        world = self.world
        for place in self.nodes.values():
            world.at(world.rng.uniform(0.0, 0.5), place.boot)
        for program in (*self.executors.values(), *self.routers.values(), self.operator):
            world.at(world.rng.uniform(0.2, BOOT_S), program.ensure)
        for event in self.script:
            world.at(event.at_s, self._carry_out, event)
        world.run_until(BOOT_S + self.mix.faults_s, self._is_broken)
        if self._is_broken():
            return
        self.injector.end()
        self.operator.undo(list(self.executors), self.keys, self.mix.policy)
        self._settle()
        if not self._is_broken():
            self.calm.judge(event.kind for event in self.script)

    def _settle(self) -> None:
        """Runs until it is settled, and stays so; fails when that takes too long."""
        world = self.world
        calm_from_s = world.now
        stays_s = STAYS_LEASES * self.mix.lease_s
        settled_at_s: float | None = None
        while not self._is_broken():
            lacking = self.calm.lacks()
            if lacking is not None:
                settled_at_s = None
                self._unpark()
                if world.now > calm_from_s + self.mix.bound_s:
                    self.witness.fail(f"not settled after {self.mix.bound_s:.1f} s: {lacking}")
            elif settled_at_s is None:
                settled_at_s = world.now
            elif world.now >= settled_at_s + stays_s:
                self.settled_s = settled_at_s - calm_from_s
                return
            world.run_until(world.now + LOOK_S, self._is_broken)

    def _unpark(self) -> None:
        """What was parked as poison by the last of the faults is let run again."""
        namespace = self.calm.namespace()
        if namespace is None or not self.operator.is_undone:
            return
        for key, shard in sorted(namespace.shards.items()):
            if shard.fate is not None:
                self.operator.order(unpark(key))

    def _carry_out(self, event: Event) -> None:
        self.witness.note(str(event))
        self.injector.carry_out(event)

    def _clean_up(self) -> None:
        for process in self.around.processes:
            process.loop.close_all()
        for place in self.nodes.values():
            place.clean_up()
        if self._lock_dir is not None:
            shutil.rmtree(self._lock_dir)


@contextlib.contextmanager
def errors_told(tell: Callable[[str], None]) -> Iterator[None]:
    """What the product catches, logs and lives on with is a fault of it all the same."""
    former = logging.Logger.exception

    def exception(self: logging.Logger, msg: object, *args: object, **_: Any) -> None:
        text = str(msg) % args
        if not text.startswith(EXPECTED):
            tell(f"{self.name}: {text}: {sys.exc_info()[1]!r}")

    logging.Logger.exception = exception  # type: ignore[method-assign]
    try:
        yield
    finally:
        logging.Logger.exception = former  # type: ignore[method-assign]


def run_seed(
    seed: int, without: Sequence[str] = (), only: Collection[int] | None = None
) -> Outcome:
    """One seed, with all rules but those named."""
    with rules.left_out(without):
        return Scenario(seed, only).run()
