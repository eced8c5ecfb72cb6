"""The fleet of the demo, and what is shown of it.

Decides names, hosts and policy, and keeps the scene up to date.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import msgspec

from bench.demo.fleet import Fleet
from bench.demo.scene import Balance, Scene
from bench.demo.workload import Workload
from bench.processes import Processes
from client import ShardCoordinatorError, calls

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


class Stage:
    """The running fleet and its picture."""

    def __init__(self, folder: Path, processes: Processes, workload: Workload, scene: Scene):
        self.scene = scene
        self.fleet = Fleet(
            folder,
            processes,
            namespace=NAMESPACE,
            executors=EXECUTORS,
            keys=workload.keys,
            workload=workload,
        )
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the nodes, and begin to look at what they say."""
        await self.fleet.start_nodes(POLICY)
        self.scene.tell(f"look at it in a browser: {self.fleet.nodes.urls[0]}/#ns={NAMESPACE}")
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """End the routers in order, stop looking, release connections."""
        with contextlib.suppress(TimeoutError):
            await self.fleet.end_routers()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self.fleet.close()

    async def balance(self, timeout_s: float = 5.0) -> Balance:
        """The balance as the leader sees it."""
        connection = self.fleet.operator.connection
        answer = await connection.fetch(calls.balance(NAMESPACE), timeout_s=timeout_s)
        return msgspec.json.decode(answer.body, type=Balance)

    async def _look(self) -> None:
        """Until cancelled: keep the scene up to date."""
        while True:
            with contextlib.suppress(ShardCoordinatorError):
                self._show(await self.balance(LOOK_TIMEOUT_S))
            await self._look_at_nodes()
            await self._look_at_executors()
            counts = self.fleet.counts
            self.scene.moves = self.fleet.moves
            self.scene.lookups, self.scene.ownerless = counts.lookups, counts.ownerless
            await asyncio.sleep(LOOK_S)

    def _show(self, balance: Balance) -> None:
        """A leader that is new has heard of some shards only; figures of a part say nothing."""
        self.scene.unmeasured = balance.unmeasured
        if not balance.unmeasured:
            self.scene.balance = balance
            self.scene.spreads.append(balance.spread)

    async def _look_at_nodes(self) -> None:
        nodes = self.fleet.nodes
        asked = nodes.living
        sights = await asyncio.gather(*[nodes.sight(name) for name in asked])
        roles = dict.fromkeys(nodes.names, "killed")
        for name, sight in zip(asked, sights, strict=True):
            roles[name] = "starting" if sight is None else sight.role_of(name)
        self.scene.nodes = roles
        self.scene.leader = next((name for name, role in roles.items() if role == "leader"), "")

    async def _look_at_executors(self) -> None:
        with contextlib.suppress(ShardCoordinatorError):
            views = await self.fleet.operator.executors(NAMESPACE)
            seen = {view.executor: view.status for view in views}
            for name in EXECUTORS:
                is_running = name in self.fleet.processes.running
                self.scene.executors[name] = seen.get(name, "joining") if is_running else "killed"
