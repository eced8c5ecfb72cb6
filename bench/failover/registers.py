"""Registers of a cluster that are written all the time, and what may stand in them.

Decides how the load is made and which values are faults. Each register is a namespace whose pause
carries a number as its reason: the cheapest order there is, and the last one stands. Must not
know what is done to the nodes meanwhile.
"""

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import aiohttp
import msgspec

from bench.cluster import Nodes

PAUSE_S: Final = 0.04
"""Between a writer's answer and its next write: six of them write about 120 times a second."""
RETRY_S: Final = 0.02
"""Between a failure and the next try, at the next node: six of them see the end of an outage
within a few milliseconds."""
PATIENCE_S: Final = 0.5
"""A caller's patience for one try; a node that stands still must not hold a writer longer."""
READ_S: Final = 5.0
DEFINITE: Final = frozenset({"no_leader", "rate_limited", "recovering", "shutting_down"})
"""Refusals that say: nothing of this was or will be done."""


class Problem(msgspec.Struct, frozen=True):
    """Of a refusal, its reason."""

    reason: str = ""


class Paused(msgspec.Struct, frozen=True):
    """Of a namespace's balance, what stands in the register."""

    paused_reason: str


@dataclass(frozen=True, slots=True)
class Try:
    """One write, from its send to its answer."""

    register: int
    number: int
    node: str
    began_at: float
    ended_at: float
    status: int | None
    """None when there was no answer: the write may have happened, or may happen yet."""
    reason: str = ""

    @property
    def is_acknowledged(self) -> bool:
        """It was done."""
        return self.status == 200

    @property
    def is_refused(self) -> bool:
        """It was not done and never will be."""
        return self.reason in DEFINITE


@dataclass(slots=True)
class Register:
    """What one register was told so far, by writers that may overlap."""

    name: str
    sent: int = 0
    acknowledged: dict[int, float] = field(default_factory=dict)
    """Number -> when its writer knew."""
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    """Kept for ever: a node that stood still may pass such a write on when it wakes."""
    newest: Try | None = None
    """Of those acknowledged, the one that was begun last."""

    def fault(self, newest: Try | None, found: int) -> str | None:
        """What is wrong with a value read when `newest` was acknowledged, if anything.

        A value may stand there unless it was over before a later acknowledged write began.
        """
        if found in self.refused:
            return f"{self.name}: {found} was refused and stands there"
        over_at = self.acknowledged.get(found, -math.inf)
        if newest is not None and over_at < newest.began_at and found not in self.unknown:
            return f"{self.name}: {newest.number} was acknowledged and {found} stands there"
        return None


class Registers:
    """Writers of some registers, from `start` to `stop`."""

    def __init__(self, nodes: Nodes, count: int = 6, pause_s: float = PAUSE_S) -> None:
        self._nodes = nodes
        self._pause_s = pause_s
        self.registers = [Register(f"register-{number}") for number in range(count)]
        self.tries: list[Try] = []
        self._writers: list[asyncio.Task[None]] = []
        self._waiting: list[tuple[float, asyncio.Future[Try]]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Make the registers and begin to write."""
        leader = self._nodes.api[await self._nodes.leader()]
        for register in self.registers:
            status, body = await self._nodes.ask(
                "PUT",
                f"{leader}/v1/namespaces/{register.name}",
                body={"kind": "open"},
                timeout_s=READ_S,
            )
            if status not in {200, 201}:
                raise RuntimeError(f"no {register.name}: {status} {body!r}")
        self._writers = [
            asyncio.create_task(self._write_forever(number))
            for number in range(len(self.registers))
        ]

    async def stop(self) -> None:
        """No more writes; raises what broke a writer."""
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.cancel()
        for ended in await asyncio.gather(*writers, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _write_forever(self, number: int) -> None:
        at = number  # each prefers another node, and goes to the next one when it is refused
        names = self._nodes.names
        while True:
            tried = await self.write(number, names[at % len(names)])
            if tried.is_acknowledged:
                await asyncio.sleep(self._pause_s)
            else:
                at += 1
                await asyncio.sleep(RETRY_S)

    async def write(self, number: int, node: str, timeout_s: float = PATIENCE_S) -> Try:
        """One write through one node; what became of it is kept."""
        register = self.registers[number]
        register.sent += 1
        value = register.sent
        register.unknown.add(value)  # until there is an answer
        began_at = time.monotonic()
        status, reason = None, ""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            status, body = await self._nodes.ask(
                "POST",
                f"{self._nodes.api[node]}/v1/namespaces/{register.name}/balance/pause",
                body={"reason": str(value)},
                timeout_s=timeout_s,
            )
            reason = "" if status == 200 else msgspec.json.decode(body, type=Problem).reason
        tried = Try(number, value, node, began_at, time.monotonic(), status, reason)
        if tried.is_acknowledged:
            register.unknown.discard(value)
            register.acknowledged[value] = tried.ended_at
            if register.newest is None or register.newest.began_at < began_at:
                register.newest = tried
        elif tried.is_refused:
            register.unknown.discard(value)
            register.refused.add(value)
        self.tries.append(tried)
        self._tell(tried)
        return tried

    def _tell(self, tried: Try) -> None:
        if not tried.is_acknowledged:
            return
        for since, future in self._waiting:
            if tried.began_at >= since and not future.done():
                future.set_result(tried)
        self._waiting = [pair for pair in self._waiting if not pair[1].done()]

    async def first_after(self, since: float, timeout_s: float) -> Try:
        """The first acknowledged write that was begun after this moment of `time.monotonic`."""
        for tried in self.tries:
            if tried.is_acknowledged and tried.began_at >= since:
                return tried
        future: asyncio.Future[Try] = asyncio.get_running_loop().create_future()
        self._waiting.append((since, future))
        async with asyncio.timeout(timeout_s):
            return await future

    async def faults(self) -> list[str]:
        """Read every register, with a quorum's word for it, and tell what must not stand there."""
        found = []
        for register in self.registers:
            newest = register.newest
            value = await self._read(register.name)
            if (fault := register.fault(newest, value)) is not None:
                found.append(fault)
        return found

    async def _read(self, name: str) -> int:
        end = time.monotonic() + READ_S
        while time.monotonic() < end:
            for url in self._nodes.urls:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                    status, body = await self._nodes.ask(
                        "GET",
                        f"{url}/v1/namespaces/{name}/balance?consistency=linearizable",
                        timeout_s=PATIENCE_S,
                    )
                    if status == 200:
                        text = msgspec.json.decode(body, type=Paused).paused_reason
                        return int(text) if text else 0
            await asyncio.sleep(RETRY_S)
        raise TimeoutError(f"{name} cannot be read")
