"""Keeps executors alive in etcd or in Redis: `python -m bench.peers.driver FILE`.

What a do-it-yourself coordinator does for each executor at each beat, over the fastest interface
that each offers, with one beat of each executor under way at a time. Prints one JSON line.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

TTL_S: Final = 60
"""A lease that no busy machine lets run out."""


class Keep(msgspec.Struct, frozen=True):
    """What to do."""

    system: Literal["etcd", "redis"]
    url: str
    executors: int
    loads: int
    seconds: float


class Kept(msgspec.Struct, frozen=True):
    """How it went."""

    beats: int
    beats_per_s: float


Beat = Callable[[], Awaitable[None]]


def report(loads: int, beat: int) -> dict[str, float]:
    """The loads of one beat."""
    return {str(number): round((number * 7 + beat) % 97 / 97, 4) for number in range(loads)}


# ------------------------------------------------------------------------- etcd, by gRPC


def field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


async def etcd(keep: Keep) -> list[Beat]:
    """A lease kept alive, and the loads put under it: two calls, as there is none for both."""
    import grpc.aio

    channel = grpc.aio.insecure_channel(urlsplit(keep.url).netloc)
    grant = channel.unary_unary("/etcdserverpb.Lease/LeaseGrant")
    put = channel.unary_unary("/etcdserverpb.KV/Put")
    alive = channel.stream_stream("/etcdserverpb.Lease/LeaseKeepAlive")
    found = []
    for number in range(1, keep.executors + 1):
        await grant(field(1, TTL_S) + field(2, number))
        found.append(_etcd_beat(put, alive(), number, keep.loads))
    return found


def _etcd_beat(put: Any, stream: Any, number: int, loads: int) -> Beat:
    name = f"/executors/executor-{number}".encode()
    beats = 0

    async def beat() -> None:
        nonlocal beats
        beats += 1
        await stream.write(field(1, number))
        answer = await stream.read()
        if field(3, TTL_S) not in answer:
            raise RuntimeError(f"the lease of executor {number} ran out")
        value = json.dumps(report(loads, beats)).encode()
        await put(field(1, name) + field(2, value) + field(3, number))

    return beat


# ------------------------------------------------------------------------- Redis, its own protocol


async def redis(keep: Keep) -> list[Beat]:
    """A key that expires, and a hash of loads: both in one round trip."""
    parts = urlsplit(keep.url)
    found = []
    for number in range(keep.executors):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        found.append(_redis_beat(reader, writer, number, keep.loads))
    return found


def command(*words: str) -> bytes:
    """One command of Redis."""
    coded = [word.encode() for word in words]
    return b"*%d\r\n" % len(coded) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in coded)


def _redis_beat(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, loads: int
) -> Beat:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        beats += 1
        flat = [word for pair in report(loads, beats).items() for word in map(str, pair)]
        writer.write(
            command("SET", f"alive:{number}", str(beats), "EX", str(TTL_S))
            + command("HSET", f"loads:{number}", *flat)
        )
        for _ in range(2):
            answer = await reader.readline()
            if not answer.startswith((b"+", b":")):
                raise RuntimeError(f"redis: {answer!r}")

    return beat


# ------------------------------------------------------------------------- both


async def run(keep: Keep) -> Kept:
    """Beat for a while, every executor as often as it is answered."""
    beats = await (etcd(keep) if keep.system == "etcd" else redis(keep))
    done = 0
    end = time.monotonic() + keep.seconds

    async def go(beat: Beat) -> None:
        nonlocal done
        while time.monotonic() < end:
            await beat()
            done += 1

    await asyncio.gather(*map(go, beats))
    return Kept(done, done / keep.seconds)


if __name__ == "__main__":
    told = asyncio.run(run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Keep)))
    print(msgspec.json.encode(told).decode(), flush=True)
