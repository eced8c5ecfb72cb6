"""An executor that works: each shard it runs writes to a fencing store all the time.

`python -m tests.system.worker JSON`, with the fields of `Task`. Between the question whether it may
act and the write itself lies `pause_s`, as in any real work: a process that is stopped there wakes
with a write in its hands. What it is told is written to `told`, a line each.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec

from client import Executor, Shard
from client.errors import FencedOut
from tests.fencing_store import FencingStore


class Task(msgspec.Struct, frozen=True):
    name: str
    urls: list[str]
    namespace: str
    store: str
    told: str
    pause_s: float = 0.02
    lock_dir: str | None = None
    poison: str = ""
    """A file that names the shards whose start ends this process at once."""


class Bench:
    """The shards of this process, each with a task that works for it."""

    def __init__(self, task: Task, store: FencingStore) -> None:
        self._task = task
        self._store = store
        self._working: dict[str, asyncio.Task[None]] = {}

    def tell(self, what: str) -> None:
        with Path(self._task.told).open("a", encoding="utf-8") as told:
            told.write(f"{time.monotonic():.6f} {what}\n")

    async def start(self, shard: Shard) -> None:
        self.tell(f"start {shard.key}")
        if shard.key in self._poison():
            os._exit(1)
        self._working[shard.key] = asyncio.create_task(self._work(shard))

    def _poison(self) -> list[str]:
        return Path(self._task.poison).read_text().split() if self._task.poison else []

    async def stop(self, shard: Shard) -> None:
        self.tell(f"stop {shard.key}")
        working = self._working.pop(shard.key)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    async def _work(self, shard: Shard) -> None:
        while True:
            is_allowed = shard.may_act()
            await asyncio.sleep(self._task.pause_s)
            if is_allowed:
                try:
                    self._store.write(shard, self._task.name)
                except FencedOut:
                    self.tell(f"fenced {shard.key}")


async def run(task: Task) -> None:
    with FencingStore(Path(task.store)) as store:
        bench = Bench(task, store)
        async with Executor(
            task.urls,
            namespace=task.namespace,
            name=task.name,
            host=task.name,
            lock_dir=task.lock_dir,
            on_start=bench.start,
            on_stop=bench.stop,
            on_lease=lambda state: bench.tell(f"lease {state.value}"),
        ) as executor:
            await executor.run_until_signalled()


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Task)))
