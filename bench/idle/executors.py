"""Executors that live at their own pace, in one process: `python -m bench.idle.executors FILE`.

Each sends its heartbeat every interval and keeps a long poll for its set open, as the client kit
does. Raw asyncio sockets under uvloop. Runs until stdin ends, then prints one JSON line.
"""

import asyncio
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import uvloop

from bench.api.driver import FIRST_SEQUENCE, Request, length_of, parts_of
from client.assignments import POLL_WAIT_S

_CURSOR: Final = re.compile(rb'"cursor":"([^"]+)"')


class Executor(msgspec.Struct, frozen=True):
    """What one executor sends."""

    heartbeat: Request
    assignments: str
    """The path of its set."""


class Live(msgspec.Struct, frozen=True):
    """The whole fleet."""

    url: str
    interval_s: float
    executors: list[Executor]


class Lived(msgspec.Struct):
    """How it went."""

    heartbeats: int = 0
    polls: int = 0
    failed: int = 0
    example: str = ""


class Line(asyncio.Protocol):
    """One connection of an executor: asks, takes the whole answer, and knows when to ask again."""

    def __init__(self, lived: Lived, host: str) -> None:
        self.lived = lived
        self.host = host
        self.transport: Any = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0 or len(self._buffer) < head + 4 + length_of(self._buffer, head):
            return
        answer, self._buffer = self._buffer, b""
        if not answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 304 ")):
            self.lived.failed += 1
            self.lived.example = self.lived.example or answer[:400].decode(errors="replace")
        self.answered(answer)

    def ask(self) -> None:
        """Send the next request."""
        raise NotImplementedError

    def answered(self, answer: bytes) -> None:
        """One has come whole."""
        raise NotImplementedError


class Beats(Line):
    """Heartbeats, one each interval."""

    def __init__(self, lived: Lived, host: str, request: Request, interval_s: float) -> None:
        super().__init__(lived, host)
        self._parts = parts_of(host, request)
        self._interval_s = interval_s
        self._sequence = FIRST_SEQUENCE
        self._due = asyncio.get_running_loop().time()

    def ask(self) -> None:
        head, tail, number = self._parts
        self._sequence += 1
        self.transport.write(head + number(self._sequence) + tail)

    def answered(self, answer: bytes) -> None:  # noqa: ARG002 - whatever it says
        self.lived.heartbeats += 1
        self._due += self._interval_s
        asyncio.get_running_loop().call_at(self._due, self.ask)


class Polls(Line):
    """A long poll for the executor's set, open all the time."""

    def __init__(self, lived: Lived, host: str, path: str) -> None:
        super().__init__(lived, host)
        self._path = path
        self._cursor = ""

    def ask(self) -> None:
        after = f"&after={self._cursor}&wait={POLL_WAIT_S:g}s" if self._cursor else ""
        self.transport.write(
            f"GET {self._path}{after} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()
        )

    def answered(self, answer: bytes) -> None:
        self.lived.polls += 1
        found = _CURSOR.search(answer)
        if found is not None:
            self._cursor = found[1].decode()
        self.ask()


async def run(live: Live) -> Lived:
    """Live until stdin ends."""
    loop = asyncio.get_running_loop()
    lived = Lived()
    parts = urlsplit(live.url)
    host, port = parts.hostname or "", parts.port or 80
    name = f"{host}:{port}"
    over = loop.run_in_executor(None, sys.stdin.read)
    # Their beats are spread over an interval, as those of processes that start by themselves are.
    pace_s = live.interval_s / max(1, len(live.executors))
    for executor in live.executors:
        beats = partial(Beats, lived, name, executor.heartbeat, live.interval_s)
        await loop.create_connection(beats, host, port)
        await loop.create_connection(partial(Polls, lived, name, executor.assignments), host, port)
        await asyncio.sleep(pace_s)
    print("{}", flush=True)  # all are there
    await over
    return lived


if __name__ == "__main__":
    told = uvloop.run(run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Live)))
    print(msgspec.json.encode(told).decode(), flush=True)
