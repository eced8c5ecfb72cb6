"""Nodes and served executors as processes, for benches and system tests of calls.

Decides how they are started and found. What happens to them is told by whoever uses it.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.cluster import Nodes
from bench.moves.served import Task
from bench.processes import Processes
from client import Operator, Router, ShardCoordinatorError
from client.clock import lease_now_s

NAMESPACE: Final = "served"
UP_S: Final = 20.0
"""A dozen interpreters start in about five seconds on two cores."""
LOOK_S: Final = 0.02


class ServedFleet:
    """Executors that answer calls, the nodes they ask, and a router's table of them."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        nodes: Nodes,
        *,
        executors: int,
        keys: Sequence[str],
        task: Task | None = None,
    ) -> None:
        """`task` holds what all executors do alike; name and host are set for each."""
        self.folder = folder
        self.processes = processes
        self.nodes = nodes
        self.names = [f"executor-{number:02}" for number in range(executors)]
        self.keys = list(keys)
        self.operator = Operator(nodes.urls)
        self.router = Router(nodes.urls, namespace=NAMESPACE, on_change=self._look)
        self.owners: dict[str, list[str]] = {key: [] for key in self.keys}
        """Who owned each shard, one after the other, by the routing table."""
        self._task = task or Task(name="", host="", urls=nodes.urls, namespace=NAMESPACE)

    @contextlib.asynccontextmanager
    async def started(self, policy: Mapping[str, Any]) -> AsyncIterator[None]:
        """All of it up and every shard owned."""
        try:
            await self.nodes.start_all()
            await self.operator.create_namespace(NAMESPACE, kind="open", policy=policy)
            for name in self.names:
                await self.start_executor(name)
            await self.until_joined(self.names)
            await self.operator.declare_shards(NAMESPACE, self.keys)
            async with self.router:
                await self.until(lambda: all(self.owners.values()), "every shard is owned")
                yield
        finally:
            await self.operator.close()
            await self.nodes.close()

    async def start_executor(self, name: str, **changes: Any) -> None:
        """Start one, with these fields of its task instead."""
        task = msgspec.structs.replace(
            self._task, name=name, host=f"host-of-{name}", urls=self.nodes.urls, **changes
        )
        await self.processes.start(
            name, [sys.executable, "-m", "bench.moves.served", msgspec.json.encode(task).decode()]
        )

    def _look(self) -> None:
        for key, owner in self.router.owners().items():
            if self.owners[key][-1:] != [owner.executor]:
                self.owners[key].append(owner.executor)

    @property
    def moves(self) -> dict[str, int]:
        """How often each shard came to another executor."""
        return {key: len(owners) - 1 for key, owners in self.owners.items()}

    async def until_joined(self, names: Sequence[str]) -> None:
        """Wait until these are on record and accept shards; raises TimeoutError."""
        async with asyncio.timeout(UP_S):
            while True:
                with contextlib.suppress(ShardCoordinatorError):
                    views = await self.operator.executors(NAMESPACE)
                    if {view.executor for view in views if view.status == "active"} >= set(names):
                        return
                await asyncio.sleep(0.1)

    async def until(self, holds: Callable[[], bool], what: str, timeout_s: float = UP_S) -> float:
        """Seconds until a condition held; raises TimeoutError, which says what did not."""
        began_at = lease_now_s()
        while not holds():
            if lease_now_s() - began_at > timeout_s:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}")
            await asyncio.sleep(LOOK_S)
        return lease_now_s() - began_at
