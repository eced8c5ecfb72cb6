"""One member of this project's consensus layer, in its own process; the leader drives and reports.

`python -m bench.consensus.ours [--journal FOLDER] NUMBER PORT PORT PORT`. Prints one JSON line if
it led, and ends when its stdin does.
"""

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.consensus.measure import (
    IN_FLIGHT,
    LEADER_S,
    VALUE,
    WRITE_TIMEOUT_S,
    Counter,
    async_latencies_of,
    measured,
    report,
    report_failure,
)
from coordinator.consensus import ConsensusConfig, ConsensusNode

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(tuple[str, dict[str, Any]]).decode


class Table:
    """A dictionary as state machine of this project's layer, encoded as the product's state is."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}

    def apply(self, _index: int, payload: bytes) -> object:
        key, value = decode(payload)
        self.rows[key] = value
        return len(self.rows)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.rows)

    def restore(self, data: bytes) -> None:
        self.rows = msgspec.msgpack.decode(data, type=dict[str, Any])


async def run(number: int, addresses: list[str], journal: Path | None) -> None:
    names = [f"n{at}" for at in range(len(addresses))]
    config = ConsensusConfig(
        name=names[number],
        peers=dict(zip(names, addresses, strict=True)),
        api_url="",
        storage_dir=None if journal is None else str(journal / names[number]),
    )
    leads = asyncio.Event()
    node = ConsensusNode(config, Table(), rng=random.Random(number))
    node.on_leadership = lambda is_leader, _term: leads.set() if is_leader else None
    await node.start()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    driving = asyncio.create_task(drive(node, leads))
    done, _ = await asyncio.wait([ended, driving], return_when=asyncio.FIRST_COMPLETED)
    if driving in done:
        if (failure := driving.exception()) is not None:
            report_failure(failure)
        await ended
    driving.cancel()
    await node.stop()


async def drive(node: ConsensusNode, leads: asyncio.Event) -> None:
    await leads.wait()
    await until_all_are_in(node)

    async def write(number: int) -> None:
        await node.propose(encode((f"key{number}", VALUE)), timeout_s=WRITE_TIMEOUT_S)

    async def writer(counter: Counter, first: int) -> None:
        number = first
        while counter.confirm(time.perf_counter()):
            payload = encode((f"key{number}", VALUE))
            await node.propose(payload, timeout_s=WRITE_TIMEOUT_S)
            number += IN_FLIGHT

    latencies = await async_latencies_of(write)
    counter = Counter(time.perf_counter())
    await asyncio.gather(*[writer(counter, first) for first in range(IN_FLIGHT)])
    report(measured(latencies, counter))


async def until_all_are_in(node: ConsensusNode) -> None:
    """Both followers count from the start, as they do in the peer's run."""
    end = time.perf_counter() + LEADER_S
    while time.perf_counter() < end:
        if all(peer.connected and not peer.quarantined for peer in node.status().peers):
            return
        await asyncio.sleep(0.05)
    raise TimeoutError("not all members came in")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.consensus.ours", description=__doc__)
    parser.add_argument("--journal", type=Path, help="keep it on disk, in a folder below this")
    parser.add_argument("number", type=int)
    parser.add_argument("ports", nargs="+")
    asked = parser.parse_args()
    addresses = [f"127.0.0.1:{port}" for port in asked.ports]
    uvloop.run(run(asked.number, addresses, asked.journal))


if __name__ == "__main__":
    main()
