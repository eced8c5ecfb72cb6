"""How long a shard answers nobody while it is moved by an operator, through HTTP.

`python -m bench.moves [--json] [--moves N] [--journal]`. Three nodes and four executors as
processes; each executor answers calls for its shards over HTTP. One shard after the other is moved
to another executor while its owner is called without a pause; once it refuses, the next owner is
called. The pause lasts from the last answer of the old owner to the first of the new one. What the
service itself does to stop and start a shard is nothing here and comes on top. Exit status 0 only
when the bar holds, every move arrived, and no call failed or was served under two epochs at once.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from bench.cluster import Nodes
from bench.moves.calls import Caller
from bench.moves.fleet import NAMESPACE, ServedFleet
from bench.processes import Processes
from bench.rows import Bar, Row, lower_is_better, machine, missed, percentile, progress, publish

EXECUTORS: Final = 4
SHARDS: Final = 60
POLICY: Final = {
    "lease_ttl_s": 3.0,
    "heartbeat_interval_s": 0.5,
    "initial_hold_s": 0.2,
    "balancer": {"mode": "off"},  # whatever moves here, this bench moved it
}
BEFORE_S: Final = 0.005
"""The owner is called for so long before the order, so that its connection is warm."""
MOVED_S: Final = 10.0
PROMISE_S: Final = 0.050
"""What the README promises of a planned move."""
BARS: Final = (Bar("pause_p99", 1.0),)


@dataclass(slots=True)
class Findings:
    """What the moves cost."""

    pauses_s: list[float] = field(default_factory=list)
    orders_s: list[float] = field(default_factory=list)
    """From the order to the first answer of the new owner."""
    calls: int = 0
    faults: list[str] = field(default_factory=list)


async def run(folder: Path, moves: int, *, has_journal: bool) -> Findings:
    """Every move, one after the other."""
    found = Findings()
    async with Processes(folder) as processes:
        fleet = ServedFleet(
            folder,
            processes,
            Nodes(folder, processes, has_journal=has_journal),
            executors=EXECUTORS,
            keys=[f"shard-{number}" for number in range(SHARDS)],
        )
        async with fleet.started(POLICY), aiohttp.ClientSession() as session:
            caller = Caller(fleet.router, session)
            for number in range(moves):
                await one_move(fleet, caller, number, found)
                if (number + 1) % 100 == 0:
                    p50 = percentile(sorted(found.pauses_s), 0.5)
                    progress(f"{number + 1} of {moves} moves  median pause {p50 * 1000:.1f} ms")
    return found


async def one_move(fleet: ServedFleet, caller: Caller, number: int, found: Findings) -> None:
    """Move one shard to the next executor and call it all the while."""
    key = fleet.keys[number % len(fleet.keys)]
    owner = fleet.router.owner(key)
    if owner is None:
        found.faults.append(f"{key} has no owner")
        return
    names = fleet.names
    target = names[(names.index(owner.executor) + 1 + number % (len(names) - 1)) % len(names)]
    order: asyncio.Task[object] | None = None
    began_at = time.monotonic()
    ordered_at = last_old_at = began_at
    while True:
        now = time.monotonic()
        if now - began_at > MOVED_S:
            found.faults.append(f"{key} did not move to {target} within {MOVED_S:g} s")
            return
        if order is None and now - began_at >= BEFORE_S:
            ordered_at = now
            order = asyncio.create_task(
                fleet.operator.move_shard(NAMESPACE, key, target, reason="bench")
            )
        call = await caller.call(key)
        found.calls += 1
        answered_at = time.monotonic()
        if call.error:
            found.faults.append(f"{key}: {call.error}")
        elif call.executor == target:
            break
        elif call.executor == owner.executor and call.epoch == owner.epoch:
            last_old_at = answered_at
        else:
            found.faults.append(f"{key} was served by {call.executor} under {call.epoch}")
    found.pauses_s.append(answered_at - last_old_at)
    found.orders_s.append(answered_at - ordered_at)
    if order is not None:
        await order
    if call.epoch <= owner.epoch:
        found.faults.append(f"{key}: epoch {call.epoch} after {owner.epoch}")


def rows_of(found: Findings) -> list[Row]:
    """The distribution, beside what is promised."""
    pauses, orders = sorted(found.pauses_s), sorted(found.orders_s)
    return [
        Row("pause_p50", percentile(pauses, 0.5), "s"),
        lower_is_better("pause_p99", percentile(pauses, 0.99), "s", "what is promised", PROMISE_S),
        Row("pause_max", percentile(pauses, 1.0), "s"),
        Row("order_to_answer_p50", percentile(orders, 0.5), "s"),
        Row("order_to_answer_p99", percentile(orders, 0.99), "s"),
        Row("calls", found.calls, "calls"),
    ]


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.moves", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--moves", type=int, default=1_000, help="how many (default 1,000)")
    parser.add_argument("--journal", action="store_true", help="nodes keep a journal on disk")
    told = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-moves-") as folder:
        found = asyncio.run(run(Path(folder), max(1, told.moves), has_journal=told.journal))
    rows = rows_of(found)
    faults = [*missed(rows, BARS), *found.faults]
    summary: dict[str, object] = {
        "ok": not faults,
        "moves": len(found.pauses_s),
        "storage": "journal" if told.journal else "memory",
        **machine(),
        "missed": faults[:20],
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=told.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
