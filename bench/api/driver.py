"""Sends the same request over many kept connections for a while, from a process of its own.

`python -m bench.api.driver FILE`, with the fields of `Drive`. Raw asyncio sockets under uvloop: a
client library would cost more than the server that is measured. Prints one JSON line.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop

from bench.rows import percentile

FIRST_SEQUENCE = 1_000_000_000
"""Ten digits, or four bytes, throughout, so that a heartbeat's length never changes."""
LATENCIES_MAX = 200_000
_Number = Callable[[int], bytes]


JSON = "application/json"
MSGPACK = "application/msgpack"


class Request(msgspec.Struct, frozen=True):
    """What one connection sends; `sequence` in the body, if it is there, counts up."""

    method: str
    path: str
    body: bytes = b""
    media: str = JSON
    """Of the body, and of the answer that is asked for."""


class Drive(msgspec.Struct, frozen=True):
    """What to do. Each connection sends its own list of requests, round and round."""

    url: str
    connections: list[list[Request]]
    seconds: float
    warm_up_s: float = 0.5
    first_sequence: int = FIRST_SEQUENCE


class Driven(msgspec.Struct, frozen=True):
    """How it went."""

    answers_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    latency_p999_ms: float
    answers: int
    """All of them, those of the warm-up too: what the server's processor time was spent on."""
    failed: int
    last_sequence: int
    example: str = ""


class Run:
    """What all connections count together."""

    def __init__(self, drive: Drive, now: float) -> None:
        self.begin = now + drive.warm_up_s
        self.end = self.begin + drive.seconds
        self.sequence = drive.first_sequence
        self.answers = 0
        self.answers_in_time = 0
        self.failed = 0
        self.example = ""
        self.latencies: list[float] = []


class Caller(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, run: Run, host: str, requests: list[Request]) -> None:
        self._run = run
        self._parts = [parts_of(host, request) for request in requests]
        self._turn = 0
        self._buffer = b""
        self._sent_at = 0.0
        self._transport: asyncio.WriteTransport | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # uvloop's has no such class
        self._send()

    def _send(self) -> None:
        head, tail, number = self._parts[self._turn]
        self._turn = (self._turn + 1) % len(self._parts)
        run = self._run
        data = head
        if tail:
            run.sequence += 1
            data = b"%b%b%b" % (head, number(run.sequence), tail)
        self._sent_at = time.perf_counter()
        if self._transport is not None:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        head = buffer.find(b"\r\n\r\n")
        if head < 0 or not _is_whole(buffer, head):
            self._buffer = buffer
            return
        self._buffer = b""
        now = time.perf_counter()
        run = self._run
        if buffer.startswith(b"HTTP/1.1 200 "):
            run.answers += 1
            if run.begin <= now < run.end:
                run.answers_in_time += 1
                if len(run.latencies) < LATENCIES_MAX:
                    run.latencies.append(now - self._sent_at)
        else:
            run.failed += 1
            run.example = run.example or buffer[:400].decode(errors="replace")
        if now < run.end and run.failed < 100:
            self._send()
        elif self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() < self._run.end and self._run.failed < 100:
            self._run.failed += 1
            self._run.example = self._run.example or f"the connection ended: {exc}"
        if not self.over.done():
            self.over.set_result(None)


def _is_whole(buffer: bytes, head: int) -> bool:
    if buffer.find(b"\r\nTransfer-Encoding: chunked\r\n", 0, head + 2) >= 0:
        return buffer.endswith(b"\r\n0\r\n\r\n")  # etcd's gateway tells of streams in pieces
    return len(buffer) >= head + 4 + length_of(buffer, head)


def length_of(buffer: bytes, head: int) -> int:
    """The bytes of the body behind a header that ends at `head`."""
    at = buffer.find(b"Content-Length: ", 0, head)
    return int(buffer[at + 16 : buffer.find(b"\r\n", at)]) if at >= 0 else 0


def parts_of(host: str, request: Request) -> tuple[bytes, bytes, _Number]:
    """The bytes before and after the sequence, and how it is written between them.

    Nothing after when there is none.
    """
    lines = [f"{request.method} {request.path} HTTP/1.1", f"Host: {host}"]
    if request.media != JSON:
        lines.append(f"Accept: {request.media}")
    if request.body:
        lines += [f"Content-Type: {request.media}", f"Content-Length: {len(request.body)}"]
    whole = "\r\n".join([*lines, "", ""]).encode() + request.body
    number = _in_msgpack if request.media == MSGPACK else _in_json
    before, found, after = whole.partition(number(FIRST_SEQUENCE))
    return (before, after, number) if found else (whole, b"", number)


def _in_json(number: int) -> bytes:
    return b'"sequence":%d' % number


def _in_msgpack(number: int) -> bytes:
    return b"\xa8sequence\xce%b" % number.to_bytes(4, "big")


async def drive(task: Drive) -> Driven:
    parts = urlsplit(task.url)
    host, port = parts.hostname or "", parts.port or 80
    loop = asyncio.get_running_loop()
    run = Run(task, time.perf_counter())
    callers = []
    for requests in task.connections:
        _, caller = await loop.create_connection(
            partial(Caller, run, f"{host}:{port}", requests), host, port
        )
        callers.append(caller)
    async with asyncio.timeout(task.warm_up_s + task.seconds + 5.0):
        await asyncio.gather(*[caller.over for caller in callers])
    latencies = sorted(run.latencies)
    return Driven(
        answers_per_s=run.answers_in_time / task.seconds,
        latency_p50_ms=percentile(latencies, 0.5) * 1e3,
        latency_p99_ms=percentile(latencies, 0.99) * 1e3,
        latency_p999_ms=percentile(latencies, 0.999) * 1e3,
        answers=run.answers,
        failed=run.failed,
        last_sequence=run.sequence,
        example=run.example,
    )


if __name__ == "__main__":
    told = uvloop.run(drive(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Drive)))
    print(msgspec.json.encode(told).decode(), flush=True)
