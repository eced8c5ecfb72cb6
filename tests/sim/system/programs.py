"""The programs of users: executors that run shards, routers, and an operator who interferes.

Decides how callbacks behave and when a program is started again. The kit is the real one; must not
know the wires, nor what is expected.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from client import Executor, Operator, Router, Shard, ShardCoordinatorError, errors
from client.transport import Response
from tests.sim.system.loop import Machine, Process
from tests.sim.system.transport import SimTransport
from tests.sim.system.wires import Wires
from tests.sim.system.witness import TableWatch, Witness

NAMESPACE: Final = "jobs"
RESTART_S: Final = (0.05, 1.5)
"""How long a supervisor takes to start a program again."""
ORDER_S: Final = 6.0
"""An operator gives an order up after this."""


@dataclass(slots=True)
class Surroundings:
    """What all programs share."""

    wires: Wires
    witness: Witness
    endpoints: list[str]
    seed: str
    stray_ratio: float
    answered: Callable[[str, Response], None]
    has_warmup: bool
    leave_timeout_s: float
    lock_dir: Path | None
    """Where executors keep their name locks; None when they have none."""
    processes: list[Process] = field(default_factory=list)
    """Every life of every program."""


class Program:
    """Something that is started again when it ends, under a name, on a machine of its own."""

    def __init__(self, around: Surroundings, machine: Machine, name: str) -> None:
        self.around = around
        self.machine = machine
        self.world = machine.world
        self.name = name
        self.lives = 0
        self.alive: list[Process] = []
        self.is_wanted = True

    def boot(self) -> Process:
        """Another life, whatever others there are."""
        self.lives += 1
        process = Process(self.machine, f"{self.name}.{self.lives}", self.around.wires)
        process.broke = lambda what: self.around.witness.fail(f"{process.name}: {what}")
        process.gone.append(lambda: self._is_gone(process))
        self.around.processes.append(process)
        self.alive.append(process)
        rng = random.Random(f"{self.around.seed} {process.name}")
        process.receive(lambda: process.start(self._run(process, rng), "life"))
        return process

    async def _run(self, process: Process, rng: random.Random) -> None:
        try:
            await self.live(process, rng)
        except ShardCoordinatorError as error:
            self.around.witness.note(f"{process.name} ends: {type(error).__name__}")
        process.kill()

    async def live(self, process: Process, rng: random.Random) -> None:
        """What it does until it ends."""
        raise NotImplementedError

    def _is_gone(self, process: Process) -> None:
        self.alive.remove(process)
        self.around.witness.is_gone(process)
        if not self.alive:
            self.world.after(self.world.rng.uniform(*RESTART_S), self.ensure)

    def ensure(self) -> None:
        """A life, if there is none."""
        if self.is_wanted and not self.alive:
            self.boot()

    def crash(self) -> None:
        """The newest life is gone at once."""
        if self.alive:
            self.alive[-1].kill()

    def transport(self, process: Process) -> SimTransport:
        """The way of one life to the nodes."""
        return SimTransport(
            process, stray_ratio=self.around.stray_ratio, answered=self.around.answered
        )


@dataclass(slots=True)
class Mood:
    """How the callbacks of an executor behave just now; shares of calls, and seconds."""

    fails: float = 0.0
    hangs: float = 0.0
    hang_s: float = 8.0
    blocks: float = 0.0
    block_s: float = 2.0
    slow_s: float = 0.05


class ExecutorProgram(Program):
    """Runs shards, well or badly."""

    def __init__(
        self, around: Surroundings, machine: Machine, name: str, loads: dict[str, float]
    ) -> None:
        super().__init__(around, machine, name)
        self.mood = Mood()
        self.version = "1"
        self._loads = loads
        self._leaving: dict[Process, asyncio.Future[float | None]] = {}

    def leave(self, back_within_s: float | None = None) -> None:
        """The newest life is asked to end in good order, for good or for a moment."""
        for process in self.alive[-1:]:
            process.receive(self._ask_to_leave, process, back_within_s)

    def _ask_to_leave(self, process: Process, back_within_s: float | None) -> None:
        asked = self._leaving.get(process)
        if asked is not None and not asked.done():
            asked.set_result(back_within_s)

    async def live(self, process: Process, rng: random.Random) -> None:
        """One process: joins, runs what it is given, leaves when it is asked to."""
        self._leaving[process] = leaving = asyncio.get_running_loop().create_future()
        witness = self.around.witness
        process.looked = lambda: witness.look(process)
        incarnations = iter(range(1_000_000))

        async def start(shard: Shard) -> None:
            await self._start(process, shard, rng)

        async def stop(shard: Shard) -> None:
            await self._stop(process, shard, rng)

        async def prepare(_: Shard) -> None:
            await self._behave(process, rng)

        executor = Executor(
            self.around.endpoints,
            namespace=NAMESPACE,
            name=self.name,
            on_start=start,
            on_stop=stop,
            on_prepare=prepare if self.around.has_warmup else None,
            host=self.machine.name,
            address=f"{self.machine.name}:80",
            version=self.version,
            lock_dir=self.around.lock_dir,
            leave_timeout_s=self.around.leave_timeout_s,
            join_timeout_s=60.0,
            transport=self.transport(process),
            rng=rng,
            clock=self.machine.monotonic,
            mint=lambda: f"{process.name.replace('.', '-')}-{next(incarnations)}",
        )
        if (lock := executor._parts.lock) is not None:
            process.gone.append(lock.close)  # as the kernel does
        async with executor:
            await executor.leave(back_within_s=await leaving)

    async def _behave(self, process: Process, rng: random.Random) -> None:
        mood = self.mood
        await asyncio.sleep(rng.uniform(0.0, mood.slow_s))
        drawn = rng.random()
        if drawn < mood.blocks:
            process.pause()
            self.world.after(mood.block_s, process.resume)
            await asyncio.sleep(0)
        elif drawn < mood.blocks + mood.hangs:
            await asyncio.sleep(mood.hang_s)
        elif drawn < mood.blocks + mood.hangs + mood.fails:
            raise RuntimeError("it does not work today")

    async def _start(self, process: Process, shard: Shard, rng: random.Random) -> None:
        witness = self.around.witness
        life = witness.begins(process, self.name, shard)
        try:
            await self._behave(process, rng)
        except BaseException:
            witness.ends(life)
            raise
        shard.set_load(self._loads.get(shard.key, 1.0))
        witness.started(life)

    async def _stop(self, process: Process, shard: Shard, rng: random.Random) -> None:
        witness = self.around.witness
        life = witness.life_of(process, shard)
        if life is not None:
            witness.note(f"{process.name} stops {shard.key}")
        try:
            await self._behave(process, rng)
        finally:
            if life is not None:
                witness.ends(life)


class RouterProgram(Program):
    """Keeps a table, under the eyes of the witness."""

    router: Router | None = None

    async def live(self, process: Process, rng: random.Random) -> None:
        """One process: its table begins empty."""
        watch = TableWatch(self.around.witness, process.name)
        self.router = router = Router(
            self.around.endpoints,
            namespace=NAMESPACE,
            on_change=watch.look,
            transport=self.transport(process),
            rng=rng,
            clock=self.machine.monotonic,
        )
        watch.router = lambda: router
        async with router:
            await asyncio.get_running_loop().create_future()


class OperatorProgram(Program):
    """Gives orders; at the end it takes all of them back."""

    def __init__(self, around: Surroundings, machine: Machine, name: str) -> None:
        super().__init__(around, machine, name)
        self.orders = 0
        self.refused = 0
        self.is_undone = False
        self._operator: Operator | None = None

    async def live(self, process: Process, rng: random.Random) -> None:
        """One process that waits for something to do."""
        self._operator = Operator(
            self.around.endpoints,
            timeout_s=ORDER_S,
            transport=self.transport(process),
            rng=rng,
            monotonic=self.machine.monotonic,
        )
        await asyncio.get_running_loop().create_future()

    def order(self, what: Callable[[Operator], Coroutine[Any, Any, Any]]) -> None:
        """One order; what becomes of it is seen elsewhere."""
        operator = self._operator
        if operator is None or not self.alive:
            return

        async def give() -> None:
            self.orders += 1
            try:
                await what(operator)
            except ShardCoordinatorError:
                self.refused += 1

        self.alive[-1].receive(lambda: self.alive[-1].start(give(), "order"))

    def undo(self, executors: list[str], keys: list[str], policy: dict[str, object]) -> None:
        """Takes every kind of order back, as often as it needs."""

        async def until_done(what: Callable[[], Coroutine[Any, Any, Any]]) -> None:
            while True:
                try:
                    await what()
                except errors.Unavailable:
                    await asyncio.sleep(0.1)
                except ShardCoordinatorError:
                    return
                else:
                    return

        async def undo(operator: Operator) -> None:
            def one(verb: Any, name: str) -> Callable[[], Coroutine[Any, Any, Any]]:
                return lambda: verb(NAMESPACE, name)

            for name in executors:
                for verb in (operator.undrain_executor, operator.uncordon_executor):
                    await until_done(one(verb, name))
                for verb in (operator.undrain_host, operator.uncordon_host):
                    await until_done(one(verb, name))
            for key in keys:
                for verb in (operator.unpin_shard, operator.undrain_shard):
                    await until_done(one(verb, key))
            await until_done(lambda: operator.resume_balance(NAMESPACE))
            await until_done(lambda: operator.change_policy(NAMESPACE, policy))
            self.is_undone = True

        with contextlib.suppress(IndexError):
            operator = self._operator
            assert operator is not None
            self.alive[-1].receive(lambda: self.alive[-1].start(undo(operator), "undo"))
