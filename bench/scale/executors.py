"""Executors that are records in one process: real heartbeats over HTTP, and no work.

Decides when each speaks: one after the other through the interval, so that a thousand of them are
a steady stream. Must not know what is measured.
"""

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import msgspec

from bench.cluster import Nodes

CONNECTIONS: Final = 16
ASK_S: Final = 30.0
OK: Final = 200
CLOSED: Final = 409


class _Assignment(msgspec.Struct, frozen=True):
    key: str
    epoch: int


class _Assignments(msgspec.Struct, frozen=True):
    assignments: list[_Assignment]


@dataclass(slots=True)
class Member:
    """One executor."""

    name: str
    life: int = 1
    sequence: int = 0
    shards: dict[str, dict[str, Any]] = field(default_factory=dict)
    acknowledged_at: float = 0.0
    """When its last acknowledged heartbeat was sent, on the machine's monotonic clock."""
    is_silent: bool = False

    @property
    def incarnation(self) -> str:
        """Of its present life."""
        return f"{self.name}-{self.life}"

    def begin_anew(self) -> None:
        """Its lease was lost: what it held is not its any more."""
        self.life += 1
        self.sequence, self.shards, self.acknowledged_at = 0, {}, 0.0


class Executors:
    """All executors of one namespace."""

    def __init__(self, nodes: Nodes, namespace: str, count: int, interval_s: float) -> None:
        self.members = [Member(f"executor-{number:04}") for number in range(count)]
        self.refused = 0
        self._nodes = nodes
        self._namespace = namespace
        self._interval_s = interval_s
        self._leader = ""
        self._session: aiohttp.ClientSession | None = None
        self._running: list[asyncio.Task[None]] = []
        self._rng = random.Random(count)

    async def join(self) -> None:
        """All of them, at once."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=ASK_S),
        )
        self._leader = self._nodes.api[await self._nodes.leader()]
        for first in range(0, len(self.members), CONNECTIONS):
            some = self.members[first : first + CONNECTIONS]
            await asyncio.gather(*[self._beat(one) for one in some])

    def begin(self) -> None:
        """Everybody's heartbeats from now on."""
        self._running = [
            asyncio.create_task(self._beats(self.members[first::CONNECTIONS]))
            for first in range(min(CONNECTIONS, len(self.members)))
        ]

    async def end(self) -> None:
        """No more of them."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def read_sets(self) -> int:
        """What each is to hold; it reports a load for each shard from then on. How many in all."""
        for member in self.members:
            url = f"{self._url(member)}/assignments?incarnation={member.incarnation}"
            async with self._asking().get(url) as answer:
                found = msgspec.json.decode(await answer.read(), type=_Assignments)
            member.shards = {
                one.key: {"epoch": one.epoch, "load": round(self._rng.paretovariate(1.5), 3)}
                for one in found.assignments
            }
        return sum(len(member.shards) for member in self.members)

    async def _beats(self, members: list[Member]) -> None:
        pause_s = self._interval_s / len(members)
        due = time.monotonic() + self._rng.random() * pause_s
        while True:
            for member in members:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due += pause_s
                if not member.is_silent:
                    await self._beat(member)

    async def _beat(self, member: Member) -> None:
        """One heartbeat; whoever was never let in asks for that again."""
        member.sequence += 1
        body = msgspec.json.encode(
            {
                "incarnation": member.incarnation,
                "sequence": member.sequence,
                "joining": member.acknowledged_at == 0.0,
                "shards": member.shards,
            }
        )
        sent_at = time.monotonic()
        url = f"{self._url(member)}/heartbeat"
        headers = {"Content-Type": "application/json"}
        try:
            async with self._asking().post(url, data=body, headers=headers) as answer:
                if answer.status == OK:
                    member.acknowledged_at = sent_at
                    return
                if answer.status == CLOSED:
                    member.begin_anew()
        except (aiohttp.ClientError, TimeoutError):
            pass
        self.refused += 1
        with contextlib.suppress(TimeoutError):
            self._leader = self._nodes.api[await self._nodes.leader()]

    def _url(self, member: Member) -> str:
        return f"{self._leader}/v1/namespaces/{self._namespace}/executors/{member.name}"

    def _asking(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("join comes first")
        return self._session
