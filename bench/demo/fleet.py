"""A cluster with executors and routers as processes, for the demo and for system tests.

Decides how the parts are started, killed and found. What happens to them, and when, is told by
whoever uses it.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.cluster import Nodes
from bench.demo import executor, watch
from bench.demo.ledger import Note, Tenure, tenures_of
from bench.demo.lookups import Lookup
from bench.demo.notebook import read_notes
from bench.demo.workload import Workload
from bench.processes import Processes
from client import Operator, Router, ShardCoordinatorError
from client.clock import lease_now_s

JOIN_S: Final = 15.0
"""Eight interpreters start in about three seconds on two cores."""
PLACE_S: Final = 10.0
ROUTERS_END_S: Final = 5.0
LOOK_S: Final = 0.02


class NotStarted(Exception):  # noqa: N818 - it says what happened
    """Something did not come up in time; the text says what."""


class Fleet:
    """Nodes, executors and routers of one namespace. Processes end with `processes`."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        *,
        namespace: str,
        executors: Mapping[str, str],
        keys: Sequence[str],
        workload: Workload,
        nodes: Nodes | None = None,
    ) -> None:
        """`executors` maps names to hosts; `keys` are shards of the workload's series."""
        self.folder = folder
        self.processes = processes
        self.namespace = namespace
        self.executors = dict(executors)
        self.keys = list(keys)
        self.workload = workload
        self.nodes = nodes or Nodes(folder, processes)
        self.operator = Operator(self.nodes.urls)
        self.router = Router(self.nodes.urls, namespace=namespace, on_change=self._count_moves)
        self.moves = 0
        """How often the routing table has named another executor for a shard."""
        self.counts = watch.Counts()
        self._owners: dict[str, str] = {}
        self._beside = contextlib.AsyncExitStack()
        self._telling: asyncio.Task[None] | None = None

    # -- starting ---------------------------------------------------------------------------

    async def start_nodes(self, policy: Mapping[str, Any]) -> None:
        """Start the nodes, make the namespace, and follow its routing table."""
        await self.nodes.start_all()
        await self.operator.create_namespace(self.namespace, kind="open", policy=policy)
        await self._beside.enter_async_context(self.router)

    async def start_executors(
        self, timeout_s: float = JOIN_S, *, lock_dir: Path | None = None
    ) -> None:
        """Start them all and wait until all have joined; raises NotStarted."""
        for name in self.executors:
            await self.start_executor(name, lock_dir=lock_dir)
        if not await self.until_joined(timeout_s):
            raise NotStarted(f"not every executor has joined within {timeout_s:.0f} s")

    async def start_executor(self, name: str, *, lock_dir: Path | None = None) -> None:
        """Start one of them."""
        task = executor.Task(
            name=name,
            host=self.executors[name],
            urls=self.nodes.urls,
            namespace=self.namespace,
            notes=str(self.folder / f"{name}.notes"),
            began_at=self.workload.began_at,
            lock_dir=None if lock_dir is None else str(lock_dir),
        )
        await self._start(name, "bench.demo.executor", task)

    async def until_joined(self, timeout_s: float) -> bool:
        """Wait until the coordinator knows every executor."""
        deadline = lease_now_s() + timeout_s
        while lease_now_s() < deadline:
            with contextlib.suppress(ShardCoordinatorError):
                views = await self.operator.executors(self.namespace)
                if {view.executor for view in views} >= set(self.executors):
                    return True
            await asyncio.sleep(0.1)
        return False

    async def place(self, timeout_s: float = PLACE_S) -> None:
        """Declare the shards and wait until each has an owner; raises NotStarted."""
        await self.operator.declare_shards(self.namespace, self.keys)
        if not await self.until(lambda: len(self._owners) == len(self.keys), timeout_s):
            raise NotStarted(f"only {len(self._owners)} of {len(self.keys)} shards were placed")
        self.moves = 0

    async def start_routers(self) -> None:
        """Start the process that looks up every owner, and wait until it does."""
        task = watch.Task(
            urls=self.nodes.urls,
            namespace=self.namespace,
            keys=self.keys,
            notes=str(self.folder / "routers.notes"),
        )
        process = await self._start("routers", "bench.demo.watch", task, has_output=True)
        if process.stdout is not None:
            self._telling = asyncio.create_task(self._read_counts(process.stdout))
        if not await self.until(lambda: self.counts.lookups > 0, JOIN_S):
            raise NotStarted(f"no router has asked anything within {JOIN_S:.0f} s")

    async def _start(
        self, name: str, module: str, task: msgspec.Struct, *, has_output: bool = False
    ) -> asyncio.subprocess.Process:
        argv = [sys.executable, "-m", module, msgspec.json.encode(task).decode()]
        return await self.processes.start(name, argv, has_output=has_output)

    async def _read_counts(self, told: asyncio.StreamReader) -> None:
        while line := await told.readline():
            self.counts = msgspec.json.decode(line, type=watch.Counts)

    # -- seeing -----------------------------------------------------------------------------

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition on what is seen; whether it came true in time."""
        deadline = lease_now_s() + timeout_s
        while not holds():
            if lease_now_s() >= deadline:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def owner_of(self, key: str) -> str:
        """Who owns a shard, says the routing table; empty when nobody does."""
        return self._owners.get(key, "")

    def owned_by(self, name: str) -> int:
        """How many shards the routing table says an executor owns."""
        return sum(owner == name for owner in self._owners.values())

    def _count_moves(self) -> None:
        """The routing table has changed: what came to another executor has moved."""
        now = {key: owner.executor for key, owner in self.router.owners().items()}
        self.moves += sum(
            key in self._owners and self._owners[key] != owner for key, owner in now.items()
        )
        self._owners = now

    def tenures(self) -> list[Tenure]:
        """Who ran what and when, by the executors' own notes so far."""
        return tenures_of(read_notes(sorted(self.folder.glob("executor-*.notes")), Note))

    def lookups(self) -> list[Lookup]:
        """What routers were told; complete once they have ended."""
        return list(read_notes(sorted(self.folder.glob("routers.notes")), Lookup))

    # -- ending -----------------------------------------------------------------------------

    async def end_routers(self) -> None:
        """Let the routers write down their last answers; raises when they broke on the way."""
        if "routers" in self.processes.running:
            status = await self.processes.finish("routers", ROUTERS_END_S)
            if status != 0:
                raise NotStarted(f"the routers' process ended with status {status}; see its log")

    async def close(self) -> None:
        """Release connections; processes end with `Processes`."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        await self._beside.aclose()
        await self.operator.close()
        await self.nodes.close()
