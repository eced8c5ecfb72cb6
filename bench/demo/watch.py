"""Routers of the demo, in their own process: ask for every owner all the time, and take notes.

`python -m bench.demo.watch JSON`, with the fields of `Task`. Each router prefers another node.
Prints a line of counts five times a second, and ends when its stdin does.
"""

import asyncio
import itertools
import logging
import random
import sys
from pathlib import Path

import msgspec

from bench.demo.lookups import Lookup
from bench.demo.notebook import Notebook
from client import Owner, Router, ShardCoordinatorError
from client.clock import lease_now_s

SWEEP_S = 0.1
"""Every key of every table ten times a second."""
ASK_S = 0.06
"""Between two questions of a router over HTTP: three routers ask about 50 a second in all."""
ASK_TIMEOUT_S = 3.0
"""A caller's patience for one look-up, retries included; longer than an election."""
READY_S = 10.0
TELL_S = 0.2


class Task(msgspec.Struct, frozen=True):
    """What this process is to do."""

    urls: list[str]
    namespace: str
    keys: list[str]
    notes: str


class Counts(msgspec.Struct):
    """How it goes; what was wrong is decided after the run."""

    lookups: int = 0
    ownerless: int = 0


class Watcher:
    """A router that asks in both ways and writes down what it was told."""

    def __init__(
        self, router: Router, keys: list[str], notebook: Notebook[Lookup], counts: Counts
    ) -> None:
        self._router = router
        self._keys = keys
        self._notebook = notebook
        self._counts = counts
        self._believed: dict[str, Lookup] = {}

    async def sweep(self) -> None:
        """Until cancelled: look every key up in the table, as a caller does before each call."""
        while True:
            now = lease_now_s()
            for key in self._keys:
                self._believe(now, key, self._router.owner(key))
            await asyncio.sleep(SWEEP_S)

    def _believe(self, now: float, key: str, owner: Owner | None) -> None:
        """Equal answers in a row are one note."""
        executor, epoch = ("", 0) if owner is None else (owner.executor, owner.epoch)
        self._counts.lookups += 1
        self._counts.ownerless += owner is None
        before = self._believed.get(key)
        if before is not None and (before.executor, before.epoch) == (executor, epoch):
            self._believed[key] = msgspec.structs.replace(before, until=now, count=before.count + 1)
            return
        if before is not None:
            self._notebook.write(before)
        self._believed[key] = Lookup(now, now, key, executor, epoch, "table")

    async def ask(self) -> None:
        """Until cancelled: ask a node for one owner after the other, each made to answer."""
        for key in itertools.cycle(self._keys):
            since = lease_now_s()
            executor, epoch, error = "", 0, ""
            try:
                owner = await self._router.lookup(key, timeout_s=ASK_TIMEOUT_S)
                executor, epoch = owner.executor, owner.epoch
            except ShardCoordinatorError as fault:
                error = f"{type(fault).__name__}: {fault}"
            self._notebook.write(
                Lookup(since, lease_now_s(), key, executor, epoch, "http", 1, error)
            )
            self._counts.lookups += 1
            self._counts.ownerless += not executor
            await asyncio.sleep(ASK_S)

    def close(self) -> None:
        """Write down what is believed at the end."""
        self._notebook.write(*self._believed.values())


def drawing(first: int, below: int) -> random.Random:
    """A source of chance whose first number below `below` is `first`: the node that is asked first.

    So each router begins with another node, and none goes unasked.
    """
    return next(
        random.Random(seed)
        for seed in itertools.count()
        if random.Random(seed).randrange(below) == first
    )


async def tell(counts: Counts) -> None:
    while True:
        print(msgspec.json.encode(counts).decode(), flush=True)
        await asyncio.sleep(TELL_S)


async def run(task: Task) -> None:
    counts = Counts()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    with Notebook[Lookup](Path(task.notes)) as notebook:
        routers = [
            Router(task.urls, namespace=task.namespace, rng=drawing(number, len(task.urls)))
            for number in range(len(task.urls))
        ]
        watchers = [Watcher(router, task.keys, notebook, counts) for router in routers]
        for router in routers:
            await router.__aenter__()
        asking: list[asyncio.Task[None]] = []
        try:
            for router in routers:
                await router.ready(READY_S)
            asking = [asyncio.create_task(tell(counts))]
            for watcher in watchers:
                asking += [asyncio.create_task(watcher.sweep()), asyncio.create_task(watcher.ask())]
                await asyncio.sleep(ASK_S / len(watchers))  # not all in the same moment
            await asyncio.wait([ended, *asking], return_when=asyncio.FIRST_COMPLETED)
            for one in asking:
                if one.done():
                    one.result()  # a router that broke is a fault of the run
        finally:
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            for watcher in watchers:
                watcher.close()
            for router in routers:
                await router.__aexit__(None, None, None)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Task)))
