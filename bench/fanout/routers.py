"""Thousands of long-polling routers in one process: `python -m bench.fanout.routers FILE`.

Raw asyncio sockets under uvloop, as a client library for each would cost more than the node that is
measured. It notes what came when, by revision, and tells it as one JSON line for each line on its
stdin. All clocks are the machine's monotonic one, which processes share.
"""

import asyncio
import random
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import uvloop

CONNECTS_AT_ONCE: Final = 200
"""Connections that are being made at a time: a listen queue holds a thousand."""
AGAIN_S: Final = 0.2
"""The mean wait before a router whose node is gone asks the next one."""
_CURSOR: Final = re.compile(rb'"cursor":"([^":]+:([0-9]+))"')
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


class Watch(msgspec.Struct, frozen=True):
    """Who watches what."""

    urls: list[str]
    path: str
    cursor: str
    routers: int
    wait_s: int = 120


class Seen(msgspec.Struct):
    """What all routers of this process were told by one revision."""

    routers: int = 0
    bytes: int = 0
    first_at: float = 0.0
    last_at: float = 0.0


class Told(msgspec.Struct, frozen=True):
    """The whole report."""

    waiting: int
    """Routers whose poll is open now."""
    reconnects: int
    refused: int
    example: str
    seen: dict[int, Seen]


class Fleet:
    """What all routers share."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.rng = random.Random(watch.routers)
        self.room = asyncio.Semaphore(CONNECTS_AT_ONCE)
        self.waiting = 0
        self.reconnects = 0
        self.refused = 0
        self.example = ""
        self.seen: dict[int, Seen] = {}

    def note(self, revision: int, size: int) -> None:
        """One router was told of a revision."""
        now = time.monotonic()
        seen = self.seen.get(revision)
        if seen is None:
            seen = self.seen[revision] = Seen(first_at=now)
        seen.routers += 1
        seen.bytes += size
        seen.last_at = now


class Router(asyncio.Protocol):
    """One connection with one poll open; begins anew elsewhere when its node is gone."""

    def __init__(self, fleet: Fleet, number: int, cursor: str) -> None:
        self._fleet = fleet
        self._number = number
        self._cursor = cursor
        self._buffer = b""
        self._is_waiting = False
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        watch = self._fleet.watch
        self._transport.write(
            f"GET {watch.path}?after={self._cursor}&wait={watch.wait_s}s HTTP/1.1\r\n"
            f"Host: {self._transport.get_extra_info('peername')[0]}\r\n\r\n".encode()
        )
        self._is_waiting = True
        self._fleet.waiting += 1

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        head = buffer.find(b"\r\n\r\n")
        length = _LENGTH.search(buffer, 0, head) if head >= 0 else None
        if head < 0 or len(buffer) < head + 4 + (int(length[1]) if length else 0):
            self._buffer = buffer
            return
        self._buffer = b""
        self._stop_waiting()
        if buffer.startswith(b"HTTP/1.1 200 "):
            found = _CURSOR.search(buffer, head)
            if found is not None:
                self._cursor = found[1].decode()
                self._fleet.note(int(found[2]), len(buffer))
        elif not buffer.startswith(b"HTTP/1.1 304 "):
            self._fleet.refused += 1
            self._fleet.example = self._fleet.example or buffer[:300].decode(errors="replace")
            pause_s = AGAIN_S * 2 * self._fleet.rng.random()
            asyncio.get_running_loop().call_later(pause_s, self._transport.close)
            return
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._stop_waiting()
        self._fleet.reconnects += 1
        again = asyncio.get_running_loop().create_task(
            connect(self._fleet, self._number + 1, self._cursor, is_again=True)
        )
        _tasks.add(again)
        again.add_done_callback(_tasks.discard)

    def _stop_waiting(self) -> None:
        self._fleet.waiting -= self._is_waiting
        self._is_waiting = False


_tasks: set[asyncio.Task[None]] = set()


async def connect(fleet: Fleet, number: int, cursor: str, *, is_again: bool = False) -> None:
    """Open one router's connection, at the next node when one takes none."""
    loop = asyncio.get_running_loop()
    urls = fleet.watch.urls
    while True:
        if is_again:
            await asyncio.sleep(AGAIN_S * 2 * fleet.rng.random())
        parts = urlsplit(urls[number % len(urls)])
        async with fleet.room:
            try:
                await loop.create_connection(
                    partial(Router, fleet, number, cursor), parts.hostname, parts.port
                )
            except OSError:
                number += 1
                is_again = True
                continue
        return


async def run(watch: Watch) -> None:
    """Watch until stdin ends."""
    fleet = Fleet(watch)
    loop = asyncio.get_running_loop()
    opening = asyncio.gather(*[connect(fleet, one, watch.cursor) for one in range(watch.routers)])
    while await loop.run_in_executor(None, sys.stdin.readline):
        told = Told(fleet.waiting, fleet.reconnects, fleet.refused, fleet.example, fleet.seen)
        print(msgspec.json.encode(told).decode(), flush=True)
    opening.cancel()


if __name__ == "__main__":
    uvloop.run(run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Watch)))
