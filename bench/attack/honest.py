"""Executors that do all that they should, and note how long they wait for their answers.

Decides what an honest fleet is. Must not know what others do meanwhile.
"""

import asyncio
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

EXECUTORS: Final = 40
SHARDS: Final = 20_000
"""Of all: their routing table is worth attacking."""
BEAT_EVERY_S: Final = 0.25
LEASE_S: Final = 10.0
ANSWER_S: Final = 5.0


@dataclass(slots=True)
class Notes:
    """What was noted since the last time somebody asked."""

    waited_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def take(self) -> "Notes":
        taken = Notes(self.waited_s, self.failed)
        self.waited_s, self.failed = [], []
        return taken


class Fleet:
    """Forty executors of one namespace, on the leader."""

    def __init__(self, url: str, namespace: str, tls: ssl.SSLContext | None) -> None:
        self._at = f"{url}/v1/namespaces/{namespace}"
        self.notes = Notes()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls or True),
            timeout=aiohttp.ClientTimeout(total=ANSWER_S),
        )
        self._beating: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Make the namespace, join, and wait until every shard is owned."""
        policy = {"lease_ttl_s": LEASE_S, "heartbeat_interval_s": 2, "initial_hold_s": 0}
        body = {"kind": "fixed", "shard_count": SHARDS, "policy": policy}
        async with self._session.put(self._at, json=body) as answer:
            answer.raise_for_status()
        for number in range(EXECUTORS):
            self._beating.append(asyncio.create_task(self._beat(number)))
        ends_at = time.monotonic() + 6 * LEASE_S
        while len(await self.owners()) < SHARDS:
            if time.monotonic() > ends_at:
                raise TimeoutError("not every shard found an owner")
            await asyncio.sleep(0.2)

    async def owners(self) -> dict[str, Any]:
        """The routing table; empty while the namespace's window is open."""
        async with self._session.get(f"{self._at}/routing") as answer:
            return dict((await answer.json())["owners"]) if answer.status == 200 else {}

    async def lost(self) -> int:
        """How many leases ended, by the coordinator's own account."""
        url = f"{self._at}/events?kind=executor_lost,executor_evicted&limit=1000"
        async with self._session.get(url) as answer:
            return len((await answer.json())["events"])

    async def _beat(self, number: int) -> None:
        await asyncio.sleep(BEAT_EVERY_S * number / EXECUTORS)
        is_in, sequence, due = False, 0, time.monotonic()
        while True:
            sequence += 1
            body = {
                "incarnation": f"i-{number}",
                "sequence": sequence,
                "joining": not is_in,
                "host": f"h{number}",
                "address": f"10.0.0.{number}:80",
            }
            sent_at = time.monotonic()
            try:
                url = f"{self._at}/executors/e{number}/heartbeat"
                async with self._session.post(url, json=body) as answer:
                    told = await answer.read()
                if answer.status == 200:
                    is_in = True
                else:
                    self.notes.failed.append(f"{answer.status} {told[:200]!r}")
            except (aiohttp.ClientError, TimeoutError, OSError) as fault:
                self.notes.failed.append(f"{type(fault).__name__} {fault}")
            self.notes.waited_s.append(time.monotonic() - sent_at)
            # Each stays at its own moment: all who had waited would else come together ever after.
            late_s = time.monotonic() - due
            due += BEAT_EVERY_S * (1 + max(0, int(late_s / BEAT_EVERY_S)))
            await asyncio.sleep(due - time.monotonic())

    async def stop(self) -> None:
        for task in self._beating:
            task.cancel()
        await asyncio.gather(*self._beating, return_exceptions=True)
        await self._session.close()
