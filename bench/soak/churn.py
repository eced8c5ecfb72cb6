"""What happens to a cluster in a soak: one order or accident after the other, by a seed.

Decides what may happen next, so that the fleet can always bear it: no more than one executor and
one node are away, one drain is under way, and most shards stay. Must not know what is judged.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bench.demo.fleet import Fleet
from bench.rows import progress
from client import ShardCoordinatorError

BETWEEN_S: Final = (0.3, 2.0)
AWAY_S: Final = (0.5, 8.0)
"""Shorter and longer than a lease: what is restarted in time keeps its shards."""
DRAINED_S: Final = (1.0, 6.0)
KILLED: Final = "n3"
"""The node that is killed now and then; the memory of the others is that of the whole run."""
REASON: Final = "soak"


class Churn:
    """Acts until it is cancelled; `counts` says how often it did what."""

    def __init__(self, fleet: Fleet, keys: Sequence[str], rng: random.Random) -> None:
        """`keys` are all shards that there may be; the fleet's own are there at first."""
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._fleet = fleet
        self._rng = rng
        self._spare = [key for key in keys if key not in fleet.keys]
        self._acts: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._crash, 3),
            (self._restart, 3),
            (self._drain, 2),
            (self._swap_shard, 5),
            (self._pin, 4),
            (self._move, 6),
            (self._park, 2),
            (self._transfer, 2),
            (self._kill_node, 1),
        ]

    async def go(self) -> None:
        """One after the other."""
        acts, weights = zip(*self._acts, strict=True)
        while True:
            await asyncio.sleep(self._rng.uniform(*BETWEEN_S))
            (act,) = self._rng.choices(acts, weights)
            name = act.__name__.removeprefix("_")
            try:
                await act()
            except ShardCoordinatorError as refusal:
                # Refused while something else is under way: an operator would try again.
                self.refused[name] += 1
                progress(f"{name}: {type(refusal).__name__}: {refusal}")
            else:
                self.counts[name] += 1

    @property
    def _namespace(self) -> str:
        return self._fleet.namespace

    def _executor(self) -> str:
        return self._rng.choice(sorted(self._fleet.executors))

    async def _crash(self) -> None:
        name = self._executor()
        await self._fleet.processes.kill(name)
        await asyncio.sleep(self._rng.uniform(*AWAY_S))
        await self._fleet.start_executor(name)

    async def _restart(self) -> None:
        name = self._executor()
        await self._fleet.processes.terminate(name)
        await self._fleet.start_executor(name)

    async def _drain(self) -> None:
        operator, name = self._fleet.operator, self._executor()
        await operator.drain_executor(self._namespace, name, reason=REASON)
        await asyncio.sleep(self._rng.uniform(*DRAINED_S))
        await operator.undrain_executor(self._namespace, name, reason=REASON)

    async def _swap_shard(self) -> None:
        """One is retired and another is born."""
        at = self._rng.randrange(len(self._fleet.keys))
        old, new = self._fleet.keys[at], self._spare.pop(0)
        self._fleet.keys[at] = new
        self._spare.append(old)
        await self._fleet.operator.retire_shard(self._namespace, old)
        await self._fleet.operator.declare_shards(self._namespace, [new])

    async def _pin(self) -> None:
        operator, key = self._fleet.operator, self._rng.choice(self._fleet.keys)
        await operator.pin_shard(self._namespace, key, self._executor(), reason=REASON)
        await asyncio.sleep(self._rng.uniform(*BETWEEN_S))
        await operator.unpin_shard(self._namespace, key, reason=REASON)

    async def _move(self) -> None:
        key = self._rng.choice(self._fleet.keys)
        await self._fleet.operator.move_shard(self._namespace, key, self._executor(), reason=REASON)

    async def _park(self) -> None:
        operator, key = self._fleet.operator, self._rng.choice(self._fleet.keys)
        await operator.drain_shard(self._namespace, key, reason=REASON)
        await asyncio.sleep(self._rng.uniform(*BETWEEN_S))
        await operator.undrain_shard(self._namespace, key, reason=REASON)

    async def _transfer(self) -> None:
        await self._fleet.operator.transfer_leadership()

    async def _kill_node(self) -> None:
        await self._fleet.nodes.kill(KILLED)
        await asyncio.sleep(self._rng.uniform(*AWAY_S))
        await self._fleet.nodes.start(KILLED)
        await self._fleet.nodes.ready([KILLED], 120.0)
