"""Jobs of tenants, each tenant's in order, on processes with one loop each.

    python -m client.examples.tenant_jobs --name a --folder jobs
    mkdir jobs/acme && echo 200 > jobs/acme/1.job    # a job of 200 ms

One loop does everything here, so a heavy tenant slows its neighbours down: just what the balancer
is to prevent. What a tenant costs is not known beforehand and is not its number of jobs; a
`LoadRecorder` measures it, as the CPU of this process while a job of the tenant is at work, and
tenants are spread by that.
"""

import asyncio
import contextlib
import hashlib
import math
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from client import Executor, LoadRecorder, Operator, Router, Shard, ShardCoordinatorError
from client.examples.front import Arguments, main, until_signalled

NAMESPACE: Final = "tenants"
LOOK_S: Final = 0.2
"""How often folders are looked at; a real service would be told."""
SLICE_S: Final = 0.005
"""Work gives way to other tenants, and to heartbeats, this often."""


class TenantJobs:
    """The tenants that this process works for."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self.recorder: Final = LoadRecorder()
        self._waiting: Final[dict[str, int]] = {}

    async def run_tenant(self, shard: Shard) -> AsyncGenerator[None, None]:
        """A tenant's life here: its jobs are worked off while it runs."""
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(self._work_off(shard))
            yield
            work.cancel()
        self._waiting.pop(shard.key, None)

    async def _work_off(self, shard: Shard) -> None:
        inbox = self._folder / shard.key
        while True:
            jobs = sorted(inbox.glob("*.job"))
            for done, job in enumerate(jobs):
                self._waiting[shard.key] = len(jobs) - done
                with self.recorder.busy(shard):
                    await _work(float(job.read_text()) / 1000)
                if not shard.may_act():
                    return  # it is its next owner's to do, and to call done
                job.rename(job.with_suffix(".done"))
            self._waiting[shard.key] = 0
            await asyncio.sleep(LOOK_S)

    def backlog(self) -> int:
        """How many jobs of the tenants that run here wait: it grows where a process is full."""
        return sum(self._waiting.values())

    async def introduce(self, router: Router) -> None:
        """Runs for ever: a tenant that is new becomes a shard by being asked for."""
        while True:
            for inbox in self._folder.iterdir():
                if inbox.is_dir() and router.owner(inbox.name) is None:
                    with contextlib.suppress(ShardCoordinatorError):  # then at the next look
                        await router.lookup(inbox.name)
            await asyncio.sleep(LOOK_S)

    async def run(self, given: Arguments) -> None:
        """Until a signal comes."""
        async with Operator(given.endpoints) as operator:
            await operator.create_namespace(NAMESPACE)
        executor = Executor(
            given.endpoints,
            namespace=NAMESPACE,
            name=given.name,
            recorder=self.recorder,
            backlog=self.backlog,
        )
        executor.shard(self.run_tenant)
        async with executor, Router(given.endpoints, namespace=NAMESPACE) as router:
            introducing = asyncio.create_task(self.introduce(router))
            try:
                await until_signalled(executor, "-")
            finally:
                introducing.cancel()


async def _work(seconds: float) -> None:
    """Use so much CPU, in slices."""
    for _ in range(math.ceil(seconds / SLICE_S)):
        slice_ends_at = time.monotonic() + SLICE_S
        while time.monotonic() < slice_ends_at:
            hashlib.blake2s(b"work" * 1000).digest()
        await asyncio.sleep(0)


if __name__ == "__main__":
    main(lambda given: TenantJobs(given.folder).run(given), __doc__)
