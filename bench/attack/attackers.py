"""Callers that mean no good, all at once, from a process of their own.

`python -m bench.attack.attackers FILE`, with the fields of `Attack`. Prints one JSON line of what
became of them. Each sort has an address of loopback of its own, as it would on a network.
"""

import asyncio
import contextlib
import json
import resource
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from bench.cpu import give_way

GIVE_WAY: Final = 10
"""On a network they would be on machines of their own, and take no processor from the node nor from
those who are honest. So they get what those leave, which is enough: see `became`."""
PIECE: Final = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
PIECES: Final = 32
"""Two MiB, where 64 KiB are taken."""
REST_S: Final = 1.0
RAMP_S: Final = 2.0
"""All of a sort are there after so long: a machine's own SYN queue is not what is attacked."""


class Attack(msgspec.Struct, frozen=True):
    """How many of each sort, for how long."""

    port: int
    namespace: str
    seconds: float
    slow_headers: int
    slow_bodies: int
    oversized: int
    waiters: int
    unread: int
    ca: str = ""
    """The file of whoever signed the API's certificate; empty where the API has no TLS."""


class Attackers:
    """All sorts at once until the time is over."""

    def __init__(self, attack: Attack) -> None:
        self.attack = attack
        self.became: Counter[str] = Counter()
        self._ends_at = time.monotonic() + attack.seconds
        self._path = f"/v1/namespaces/{attack.namespace}"
        self._host = f"{'localhost' if attack.ca else '127.0.0.1'}:{attack.port}"
        self._tls = ssl.create_default_context(cafile=attack.ca) if attack.ca else None

    async def run(self) -> None:
        attack = self.attack
        await asyncio.gather(
            self._many(attack.slow_headers, "127.0.1.1", self._slow_header),
            self._many(attack.slow_bodies, "127.0.1.2", self._slow_body),
            self._many(attack.oversized, "127.0.1.3", self._oversized),
            self._many(attack.waiters, "127.0.1.4", self._waiter),
            self._many(attack.unread, "127.0.1.5", self._unread),
        )

    async def _many(
        self,
        count: int,
        source: str,
        one: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[str]],
    ) -> None:
        async def again_and_again(number: int) -> None:
            await asyncio.sleep(RAMP_S * number / count)
            while time.monotonic() < self._ends_at:
                name = one.__name__.strip("_")
                try:
                    async with asyncio.timeout_at(
                        asyncio.get_running_loop().time() + self._left_s()
                    ):
                        what = await self._once(source, one)
                except TimeoutError:
                    what = "until_the_end"
                self.became[f"{name}_{what}"] += 1
                await asyncio.sleep(min(REST_S, self._left_s()))

        await asyncio.gather(*[again_and_again(number) for number in range(count)])

    def _left_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    async def _once(
        self,
        source: str,
        one: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[str]],
    ) -> str:
        writer = None
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1",
                self.attack.port,
                local_addr=(source, 0),
                ssl=self._tls,
                server_hostname="localhost" if self._tls else None,
            )
            return await one(reader, writer)
        except (OSError, EOFError, RuntimeError):  # the last: uvloop's word for a closed transport
            return "cut_off"
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _slow_header(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        writer.write(f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\nA: ".encode())
        return await self._dribble(reader, writer)

    async def _slow_body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        writer.write(
            f"POST {self._path}/executors/evil/heartbeat HTTP/1.1\r\nHost: {self._host}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{".encode()
        )
        return await self._dribble(reader, writer)

    @staticmethod
    async def _dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """A byte now and then, until something comes back."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    return _status(await reader.readline())
            writer.write(b"a")

    async def _oversized(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        writer.write(
            f"POST {self._path}/executors/evil/cordon HTTP/1.1\r\nHost: {self._host}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        answer = asyncio.ensure_future(reader.readline())
        try:
            for _ in range(PIECES):
                writer.write(PIECE)
                await writer.drain()
                if answer.done():
                    break
            return _status(await answer)
        finally:
            answer.cancel()

    async def _waiter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """A long poll with the newest cursor there is."""
        writer.write(f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            return _status(head)
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        cursor = json.loads(await reader.readexactly(size))["cursor"]
        path = f"{self._path}/routing?after={cursor}&wait=300s"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        return _status(await reader.readline())

    async def _unread(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """Asks for everything and reads nothing."""
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a read transport, too
        writer.write(
            f"GET {self._path}/routing HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode() * 20
        )
        while True:  # who does not read hears of the end when it says something
            await asyncio.sleep(0.5)
            writer.write(b"G")
            await writer.drain()


def _status(line: bytes) -> str:
    return line.split()[1].decode() if line.startswith(b"HTTP/") else "cut_off"


def main(path: str) -> int:
    give_way(GIVE_WAY)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attackers = Attackers(msgspec.json.decode(Path(path).read_bytes(), type=Attack))
    uvloop.run(attackers.run())
    print(json.dumps(attackers.became))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
