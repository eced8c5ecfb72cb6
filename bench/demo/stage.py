"""Everything that runs in the demo: nodes, executors, routers, and what is seen of them.

Decides how the parts are started and found. What happens to them, and when, is in `story`.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from bench.cluster import Nodes
from bench.demo import executor, watch
from bench.demo.scene import Balance, Scene
from bench.demo.workload import Workload
from bench.processes import Processes
from client import Operator, Router, ShardCoordinatorError, calls
from client.clock import lease_now_s

NAMESPACE: Final = "flights"
EXECUTORS: Final = {f"executor-{number}": f"host-{(number + 1) // 2}" for number in range(1, 9)}
"""Eight executors, two to a host: a drained host is a quarter of the fleet."""
LEASE_S: Final = 3.0
POLICY: Final = {
    "lease_ttl_s": LEASE_S,
    "heartbeat_interval_s": 0.5,  # six tries within a lease
    "initial_placement": "hash",  # what most services have today: the demo starts from it
    "initial_hold_s": 0.5,  # the shards are declared when all have joined, so nothing is held
    "balancer": {
        "mode": "off",
        "interval_s": 1.0,
        "smoothing_horizon_s": 24.0,  # more than a day of replayed hours, the load's own period
        "cooldown_s": 6.0,  # a quarter of the horizon
        "move_budget_ratio": 0.05,  # 12 shards ...
        "budget_window_s": 5.0,  # ... every five seconds
        "start_gap": 0.10,
        "stop_gap": 0.05,
    },
}
LOOK_S: Final = 0.3
"""Between two looks at figures: people see a change at once."""
LOOK_TIMEOUT_S: Final = 1.0
ROUTERS_END_S: Final = 5.0


class Stage:
    """The running parts. `scene` is kept up to date."""

    def __init__(self, folder: Path, processes: Processes, workload: Workload, scene: Scene):
        self.folder = folder
        self.processes = processes
        self.workload = workload
        self.scene = scene
        self.nodes = Nodes(folder, processes)
        self.operator = Operator(self.nodes.urls)
        self.router = Router(self.nodes.urls, namespace=NAMESPACE, on_change=self._count_moves)
        self._owners: dict[str, str] = {}
        self._beside = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def start_nodes(self) -> None:
        """Start the nodes, and begin to look at what they say."""
        await self.nodes.start_all()
        await self._beside.enter_async_context(self.router)
        self._tasks.append(asyncio.create_task(self._watch_figures()))

    @property
    def executor_notes(self) -> list[Path]:
        """What executors wrote down."""
        return sorted(self.folder.glob("executor-*.notes"))

    @property
    def lookup_notes(self) -> list[Path]:
        """What routers wrote down."""
        return sorted(self.folder.glob("routers.notes"))

    async def start_executors(self) -> None:
        """Start them all; `until` all have joined is the story's."""
        for name, host in EXECUTORS.items():
            task = executor.Task(
                name=name,
                host=host,
                urls=self.nodes.urls,
                namespace=NAMESPACE,
                notes=str(self.folder / f"{name}.notes"),
                began_at=self.workload.began_at,
            )
            await self._start(name, "bench.demo.executor", task)

    async def start_routers(self) -> None:
        """Start the process that looks up every owner, all the time."""
        task = watch.Task(
            urls=self.nodes.urls,
            namespace=NAMESPACE,
            keys=self.workload.keys,
            notes=str(self.folder / "routers.notes"),
        )
        process = await self._start("routers", "bench.demo.watch", task, has_output=True)
        if process.stdout is not None:
            self._tasks.append(asyncio.create_task(self._read_counts(process.stdout)))

    async def _start(
        self, name: str, module: str, task: msgspec.Struct, *, has_output: bool = False
    ) -> asyncio.subprocess.Process:
        argv = [sys.executable, "-m", module, msgspec.json.encode(task).decode()]
        return await self.processes.start(name, argv, has_output=has_output)

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition on what is seen; whether it came true in time."""
        deadline = lease_now_s() + timeout_s
        while not holds():
            if lease_now_s() >= deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    def owned_by(self, name: str) -> int:
        """How many shards the routing table says an executor owns."""
        return sum(owner == name for owner in self._owners.values())

    @property
    def owned(self) -> int:
        """How many shards have an owner."""
        return len(self._owners)

    def _count_moves(self) -> None:
        """The routing table has changed: what came to another executor has moved."""
        now = {key: owner.executor for key, owner in self.router.owners().items()}
        self.scene.moves += sum(
            key in self._owners and self._owners[key] != owner for key, owner in now.items()
        )
        self._owners = now

    async def balance(self, timeout_s: float = 5.0) -> Balance:
        """The balance as the leader sees it."""
        answer = await self.operator.connection.fetch(calls.balance(NAMESPACE), timeout_s=timeout_s)
        return msgspec.json.decode(answer.body, type=Balance)

    async def _watch_figures(self) -> None:
        """Until cancelled: keep the scene up to date."""
        while True:
            with contextlib.suppress(ShardCoordinatorError):
                self._show(await self.balance(LOOK_TIMEOUT_S))
            await self._look_at_nodes()
            await self._look_at_executors()
            await asyncio.sleep(LOOK_S)

    def _show(self, balance: Balance) -> None:
        """A leader that is new has heard of some shards only; figures of a part say nothing."""
        self.scene.unmeasured = balance.unmeasured
        if not balance.unmeasured:
            self.scene.balance = balance
            self.scene.spreads.append(balance.spread)

    async def _look_at_nodes(self) -> None:
        sights = await asyncio.gather(*[self.nodes.sight(name) for name in self.nodes.living])
        roles = dict.fromkeys(self.nodes.names, "killed")
        for name, sight in zip(self.nodes.living, sights, strict=False):
            roles[name] = "starting" if sight is None else sight.role_of(name)
        self.scene.nodes = roles
        self.scene.leader = next((name for name, role in roles.items() if role == "leader"), "")

    async def _look_at_executors(self) -> None:
        with contextlib.suppress(ShardCoordinatorError):
            views = await self.operator.executors(NAMESPACE)
            seen = {view.executor: view.status for view in views}
            for name in EXECUTORS:
                is_running = name in self.processes.running
                self.scene.executors[name] = seen.get(name, "joining") if is_running else "killed"

    async def _read_counts(self, told: asyncio.StreamReader) -> None:
        """Until cancelled: what the routers' process says of its look-ups."""
        while line := await told.readline():
            counts = msgspec.json.decode(line, type=watch.Counts)
            self.scene.lookups, self.scene.ownerless = counts.lookups, counts.ownerless

    async def close(self) -> None:
        """Let the routers write down their last answers, and release connections."""
        if "routers" in self.processes.running:
            with contextlib.suppress(TimeoutError):
                await self.processes.finish("routers", ROUTERS_END_S)
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._beside.aclose()
        await self.operator.close()
        await self.nodes.close()
        for one in ended:
            if isinstance(one, Exception):
                raise one
