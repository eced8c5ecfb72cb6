"""One executor of the demo, in its own process: runs shards, reports real load, takes notes.

`python -m bench.demo.executor JSON`, with the fields of `Task`. Ends on SIGTERM, or when it is
told that it is no longer wanted.
"""

import asyncio
import logging
import sys
from pathlib import Path

import msgspec

from bench.demo.ledger import Note
from bench.demo.notebook import Notebook
from bench.demo.workload import CAPACITY, Workload, read_series
from client import Executor, Shard
from client.clock import lease_now_s

LOOK_S = 0.1
"""How often the hour and the lease are looked at: a tenth of an hour of data."""
STOP_S = 0.01
"""What stopping a shard costs here: a real one flushes something."""


class Task(msgspec.Struct, frozen=True):
    """What this process is to do."""

    name: str
    host: str
    urls: list[str]
    namespace: str
    notes: str
    began_at: float
    lock_dir: str | None = None


class Desk:
    """The shards of this process: their load of the hour, and the notes about them."""

    def __init__(self, workload: Workload, notebook: Notebook[Note]) -> None:
        self._workload = workload
        self._notebook = notebook
        self._running: dict[str, tuple[Shard, str]] = {}
        self._noted: dict[str, int] = {}
        self._hour = -1
        self.executor: Executor | None = None

    async def start(self, shard: Shard) -> None:
        """The shard is ours: note it before anything is done with it."""
        incarnation = self._incarnation()
        self._running[shard.key] = (shard, incarnation)
        self._noted[shard.key] = shard.epoch
        self._notebook.write(self._note("start", shard, incarnation))
        shard.set_load(self._workload.load(shard.key, self._workload.hour_at(lease_now_s())))

    async def stop(self, shard: Shard) -> None:
        """The shard goes: it counts as running until all is done."""
        _, incarnation = self._running.pop(shard.key)
        await asyncio.sleep(STOP_S)
        self._notebook.write(self._note("stop", shard, incarnation))

    async def look(self) -> None:
        """Until cancelled: set the load of each hour, and note how long the lease lasts."""
        while True:
            now = lease_now_s()
            hour = self._workload.hour_at(now)
            for shard, _ in self._running.values():
                if hour != self._hour:
                    shard.set_load(self._workload.load(shard.key, hour))
            self._hour = hour
            self._notebook.write(*self._leases())
            await asyncio.sleep(LOOK_S)

    def _leases(self) -> list[Note]:
        found: list[Note] = []
        for key, (shard, incarnation) in self._running.items():
            if self._noted[key] != shard.epoch:
                self._noted[key] = shard.epoch
                found.append(self._note("epoch", shard, incarnation))
        if self._running:
            shard, incarnation = next(iter(self._running.values()))
            found.append(self._note("lease", shard, incarnation))
        return found

    def _note(self, kind: str, shard: Shard, incarnation: str) -> Note:
        now = lease_now_s()
        return msgspec.convert(
            {
                "kind": kind,
                "at": now,
                "executor": "" if self.executor is None else self.executor.name,
                "incarnation": incarnation,
                "key": shard.key,
                "epoch": shard.epoch,
                "until": now + shard.lease_left_s,
            },
            Note,
        )

    def _incarnation(self) -> str:
        return "" if self.executor is None else self.executor.incarnation


async def run(task: Task) -> None:
    workload = Workload(read_series(), task.began_at)
    with Notebook[Note](Path(task.notes)) as notebook:
        desk = Desk(workload, notebook)
        executor = Executor(
            task.urls,
            namespace=task.namespace,
            name=task.name,
            host=task.host,
            address=f"{task.host}:7933",
            capacity=CAPACITY,
            lock_dir=task.lock_dir,
            on_start=desk.start,
            on_stop=desk.stop,
        )
        desk.executor = executor
        async with executor:
            looking = asyncio.create_task(desk.look())
            await executor.run_until_signalled()
            looking.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Task)))
