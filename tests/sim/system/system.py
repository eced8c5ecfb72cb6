"""One seed against the whole system: nodes, executors, routers, an operator, faults, then a calm.

Decides what a run is made of and when it has failed. In the calm every shard must be owned and run
again within its bound, no handoff may be open, and nodes and routers must agree with what runs.
"""

import random
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from client.transport import Response
from coordinator.core.namespace import NamespaceState
from coordinator.node import Node
from tests.sim.disk import SimDisk
from tests.sim.faults import Event
from tests.sim.system import rules
from tests.sim.system.alarms import false_alarm
from tests.sim.system.loop import Machine
from tests.sim.system.nodes import API_PORT, NodePlace, consensus_of, settings_of
from tests.sim.system.programs import (
    NAMESPACE,
    ExecutorProgram,
    OperatorProgram,
    RouterProgram,
    Surroundings,
)
from tests.sim.system.script import Cast, Injector, draw
from tests.sim.system.wires import Wires
from tests.sim.system.witness import Witness
from tests.sim.world import World

BOOT_S: Final = 2.0
FAULTS_S: Final = 20.0
LOOK_S: Final = 0.1
"""How often the calm is looked at."""
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


@dataclass(frozen=True, slots=True)
class Mix:
    """One seed's drawing."""

    delay_s: tuple[float, float]
    batch_bytes: int
    chunk_bytes: int
    compaction_entries: int
    fault_every_s: tuple[float, float]
    has_disks: bool
    skew: float
    """How far a machine's clock may be from the true rate: up to the bound of leases."""
    stray_ratio: float
    executors: int
    shards: int
    lease_s: float
    has_warmup: bool
    release_timeout_leases: float
    has_locks: bool
    poison_threshold: int
    mass_failure_ratio: float
    faults_s: float = FAULTS_S

    @property
    def policy(self) -> dict[str, object]:
        """Of the namespace: so quick that a short run has many leases, passes and handoffs."""
        return {
            "lease_ttl_s": self.lease_s,
            "heartbeat_interval_s": self.lease_s / 5,
            "initial_hold_s": 0.5,
            "return_window_s": 2 * self.lease_s,
            "mixed_version_hold_s": 3.0,
            "poison_threshold": self.poison_threshold,
            "mass_failure_ratio": self.mass_failure_ratio,
            "handoff": {
                "warmup": self.has_warmup,
                "release_timeout_s": self.release_timeout_leases * self.lease_s,
            },
            "balancer": {
                "interval_s": 1.0,
                "smoothing_horizon_s": 4.0,
                "cooldown_s": 1.0,
                "move_budget_ratio": 0.5,
                "budget_window_s": 5.0,
            },
        }

    @property
    def bound_s(self) -> float:
        """From the last fault until every shard runs again: an election, a full lease by the new
        leader, a hung release, the lease of its shard, and what placing and starting takes."""
        return 6.0 + (3.0 + self.release_timeout_leases) * self.lease_s * 1.5 + 3.0 * self.lease_s


def draw_mix(seed: int) -> Mix:
    """The drawing has its own randomness, so that leaving a rule out changes nothing else."""
    rng = random.Random(f"system mix {seed}")
    lease_s = rng.choice([1.0, 2.0, 3.0])
    return Mix(
        # A heartbeat and its probe take up to six ways within a quarter of the lease.
        delay_s=rng.choice(
            [(0.0002, 0.002), (0.0002, 0.002), (0.001, 0.02), (0.001, lease_s / 40)]
        ),
        batch_bytes=rng.choice([1200, 65_536]),
        chunk_bytes=rng.choice([256, 2048]),
        compaction_entries=rng.choice([20, 80, 100_000]),
        fault_every_s=rng.choice([(0.1, 0.6), (0.3, 1.5), (0.3, 1.5)]),
        has_disks=rng.random() < 0.4,
        skew=rng.choice([0.0, 0.01, 0.01]),
        stray_ratio=rng.choice([0.0, 0.05]),
        executors=rng.choice([3, 3, 4]),
        shards=rng.choice([4, 8, 12]),
        lease_s=lease_s,
        has_warmup=rng.random() < 0.4,
        release_timeout_leases=rng.choice([0.3, 0.7, 1.5]),
        has_locks=rng.random() < 0.5,
        poison_threshold=rng.choice([3, 20]),
        mass_failure_ratio=rng.choice([0.5, 1.0]),
    )


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
                consensus_type = consensus_of(
                    disk, mix.compaction_entries, mix.batch_bytes, mix.chunk_bytes
                )

            return SimulatedNode

        settings = settings_of(names, addresses, _toml(mix))
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
        try:
            self._run()
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
            terms=self._term,
            settled_s=round(self.settled_s, 3),
            digest=self.witness.digest,
        )

    _term = 0

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
        self._calm()
        if not self._is_broken():
            self._judge()

    def _calm(self) -> None:
        """Runs until it is settled, and stays so; fails when that takes too long."""
        world = self.world
        calm_from_s = world.now
        stays_s = STAYS_LEASES * self.mix.lease_s
        settled_at_s: float | None = None
        while not self._is_broken():
            lacking = self._lacks()
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
        leader = self._leader()
        namespace = leader and leader.replica.state.namespaces.get(NAMESPACE)
        if not namespace or not self.operator.is_undone:
            return
        for key, shard in sorted(namespace.shards.items()):
            if shard.fate is not None:
                self.operator.order(lambda o, key=key: o.undrain_shard(NAMESPACE, key))

    def _carry_out(self, event: Event) -> None:
        self.witness.note(str(event))
        self.injector.carry_out(event)

    # The calm.

    def _leader(self) -> Node | None:
        leaders = [p.node for p in self.nodes.values() if p.node and p.node.leader.is_leading]
        return leaders[0] if len(leaders) == 1 else None

    def _lacks(self) -> str | None:
        """What is missing to a settled system; None if nothing is."""
        if not self.operator.is_undone:
            return "the operator is not through"
        leader = self._leader()
        if leader is None:
            return "there is not one leader"
        self._term = leader.consensus.status().term
        if not all(place.is_admitted for place in self.nodes.values()):
            return "a node is not admitted"
        namespace = leader.replica.state.namespaces.get(NAMESPACE)
        if namespace is None:
            return "there is no namespace"
        return self._lacks_owners(namespace) or self._lacks_agreement(namespace)

    def _lacks_owners(self, namespace: NamespaceState) -> str | None:
        if set(namespace.executors) != set(self.executors):
            return f"executors {sorted(namespace.executors)}"
        acting = self.witness.acting()
        for key, shard in sorted(namespace.shards.items()):
            if key in namespace.in_flight:
                return f"the handoff of {key} is open: {shard}"
            if shard.executor is None:
                return f"{key} has no owner: {shard}"
            if acting.get(key) != (shard.executor, shard.epoch):
                return f"{key} runs as {acting.get(key)}, not as {shard}"
        return None

    def _lacks_agreement(self, namespace: NamespaceState) -> str | None:
        applied = {
            place.node.consensus.status().applied_index
            for place in self.nodes.values()
            if place.node
        }
        if len(applied) != 1:
            return f"nodes are at {sorted(applied)}"
        owners = {key: (s.executor, s.epoch) for key, s in namespace.shards.items()}
        for program in self.routers.values():
            router = program.router
            table = (
                {}
                if router is None
                else {k: (o.executor, o.epoch) for k, o in router.owners().items()}
            )
            if table != owners:
                return f"the table of {program.name} is another one"
        return None

    def _judge(self) -> None:
        """All nodes hold one state."""
        digests = {
            place.node.replica._machine.digest() for place in self.nodes.values() if place.node
        }
        if len(digests) != 1:
            self.witness.fail("the states differ at one index")
        leader = self._leader()
        namespace = leader and leader.replica.state.namespaces.get(NAMESPACE)
        alarm = namespace and false_alarm(namespace, (event.kind for event in self.script))
        if alarm:
            self.witness.fail(alarm)

    def _clean_up(self) -> None:
        for process in self.around.processes:
            process.loop.close_all()
        for place in self.nodes.values():
            place.clean_up()
        if self._lock_dir is not None:
            shutil.rmtree(self._lock_dir)


def _toml(mix: Mix) -> str:
    return f"""
[namespaces.{NAMESPACE}]
kind = "fixed"
shard_count = {mix.shards}
policy = {_inline(mix.policy)}
"""


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + " }"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def run_seed(
    seed: int, without: Sequence[str] = (), only: Collection[int] | None = None
) -> Outcome:
    """One seed, with all rules but those named."""
    with rules.left_out(without):
        return Scenario(seed, only).run()
