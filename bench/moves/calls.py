"""Calls of shards, as the clients of a sharded service make them.

Decides whom a call is sent to, what is done when it is refused (the next owner is asked), and how
often all shards are called. Must not know why shards move.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from bench.moves.served import MISDIRECTED
from client import Owner, Router
from client.clock import lease_now_s

TRIES_MAX: Final = 20
WAIT_S: Final = 0.05
"""Before the table is asked again for a shard that has no owner at all."""
CALL_S: Final = 5.0
OK: Final = 200


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with all that was needed to have it answered. Times of the machine's one clock."""

    key: str
    began_at: float
    ended_at: float
    executor: str
    epoch: int
    sent: int
    """How often it was sent: once, and once more after a refusal."""
    error: str = ""


class Caller:
    """Calls shards by a router's table."""

    def __init__(self, router: Router, session: aiohttp.ClientSession) -> None:
        self._router = router
        self._session = session

    async def call(self, key: str) -> Call:
        """One call; it failed if it has an `error`."""
        began_at = lease_now_s()
        sent = 0
        error = "no owner"
        place, needed = self._place(self._router.owner(key), 0)
        for _ in range(TRIES_MAX):
            if place is None:
                await asyncio.sleep(WAIT_S)
                place, needed = self._place(await self._router.misdirected(key, needed), 0)
                continue
            executor, address = place
            sent += 1
            try:
                epoch = await self.ask(address, key, needed)
            except (aiohttp.ClientError, TimeoutError) as fault:
                epoch, error = None, f"{executor}: {type(fault).__name__}: {fault}"
            else:
                error = "" if epoch is not None else f"{executor} refused"
            if epoch is not None:
                return Call(key, began_at, lease_now_s(), executor, epoch, sent)
            place, needed = self._place(await self._router.misdirected(key, needed), needed)
        return Call(key, began_at, lease_now_s(), "", needed, sent, error)

    async def ask(self, address: str, key: str, needed: int) -> int | None:
        """The epoch under which an executor served a call; None when it refused."""
        url = f"http://{address}/{key}/{needed}"
        async with (
            asyncio.timeout(CALL_S),
            self._session.get(url) as response,
        ):
            if response.status == MISDIRECTED:
                return None
            response.raise_for_status()
            return int(await response.text())

    def _place(self, owner: Owner | None, refused: int) -> tuple[tuple[str, str] | None, int]:
        """Where to send a call, and the epoch that it needs there, after this one was refused."""
        if owner is None:
            return None, refused
        if owner.epoch > refused:
            return (owner.executor, owner.address), owner.epoch
        if owner.moving_to is not None:
            return (owner.moving_to, owner.moving_to_address), owner.epoch + 1
        return None, refused


@dataclass(slots=True)
class Traffic:
    """Calls of random shards at an even pace, each beginning when it is due."""

    caller: Caller
    keys: Sequence[str]
    per_s: float
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    calls: list[Call] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def flowing(self) -> AsyncIterator["Traffic"]:
        """Calls go out until the end, and then each is waited for."""
        under_way: set[asyncio.Task[None]] = set()
        source = asyncio.create_task(self._send(under_way))
        try:
            yield self
        finally:
            source.cancel()
            await asyncio.gather(source, return_exceptions=True)
            await asyncio.gather(*under_way)

    async def _send(self, under_way: set[asyncio.Task[None]]) -> None:
        due = lease_now_s()
        while True:
            due += 1.0 / self.per_s
            await asyncio.sleep(max(0.0, due - lease_now_s()))
            task = asyncio.create_task(self._one(self.rng.choice(self.keys)))
            under_way.add(task)
            task.add_done_callback(under_way.discard)

    async def _one(self, key: str) -> None:
        self.calls.append(await self.caller.call(key))

    @property
    def failed(self) -> list[Call]:
        """Those that nobody answered."""
        return [call for call in self.calls if call.error]

    @property
    def sent_max(self) -> int:
        """The most that one of them had to be sent."""
        return max((call.sent for call in self.calls), default=0)
