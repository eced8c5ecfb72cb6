"""What 1,000 executors cost that only live: processor time of the leader and of a follower.

`python -m bench.idle [--json] [--executors N] [--seconds N]`. Three nodes; each executor owns 100
shards, sends their loads every 2 s and keeps a long poll open at the leader, and nothing changes.
The balancer is on. Exit status 0 only below a quarter of a core on the leader and 5 % on followers.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.api import target
from bench.api.target import Fleet, Held
from bench.cluster import Nodes
from bench.cpu import cpu_s
from bench.idle.executors import Executor, Live, Lived
from bench.processes import Processes
from bench.rows import Bar, Row, lower_is_better, machine, missed, progress, publish

EXECUTORS: Final = 1_000
LOADS: Final = 100
INTERVAL_S: Final = 2.0
"""The heartbeat interval that policies have unless told otherwise."""
LEADER_MAX: Final = 25.0
FOLLOWER_MAX: Final = 5.0
"""Percent of a core."""
BARS: Final = (Bar("leader", 1.0), Bar("follower", 1.0))
PROMISED: Final = "what is promised"
SETTLE_S: Final = 3.0
"""After the last executor came: what its coming cost is not what it costs to live."""
READY_S: Final = 120.0
TRIES: Final = 3


class Even(random.Random):
    """Gives every shard the same load: there is nothing to move."""

    def random(self) -> float:
        """Half of one."""
        return 0.5


async def run(folder: Path, executors: int, seconds: float) -> tuple[dict[str, float], Lived]:
    """Percent of a core of each node, the leader first, and what the executors did.

    Begun anew when the lead went to another node meanwhile, as on a very busy machine.
    """
    fleet = Fleet("idle", executors, LOADS)
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes)
        try:
            await nodes.start_all()
            held = await target.furnish(nodes, fleet)
            await _balance(nodes, fleet)
            for _ in range(TRIES):
                leader = await nodes.leader()
                lives = Live(nodes.api[leader], INTERVAL_S, _executors(fleet, held))
                found, lived = await _look(folder, processes, nodes, lives, seconds)
                if await nodes.leader() == leader:
                    break
                progress("the lead went to another node meanwhile")
            else:
                raise RuntimeError("no leader stayed for long enough to be looked at")
        finally:
            await nodes.close()
    if lived.failed:
        raise RuntimeError(f"{lived.failed} requests failed: {lived.example}")
    return {leader: found.pop(leader), **found}, lived


async def _look(
    folder: Path, processes: Processes, nodes: Nodes, lives: Live, seconds: float
) -> tuple[dict[str, float], Lived]:
    """Let the executors live and look at the nodes for a while."""
    file = folder / "live.json"
    file.write_bytes(msgspec.json.encode(lives))
    argv = [sys.executable, "-m", "bench.idle.executors", str(file)]
    driver = await processes.start("executors", argv, has_output=True)
    if driver.stdout is None or driver.stdin is None:
        raise RuntimeError("the driver cannot be asked")
    async with asyncio.timeout(READY_S):
        await driver.stdout.readline()
    progress(f"{len(lives.executors):,} executors live")
    await asyncio.sleep(SETTLE_S)
    pids = {name: processes.running[name].pid for name in nodes.names}
    before_s = {name: cpu_s([pid]) for name, pid in pids.items()}
    began = time.monotonic()
    await asyncio.sleep(seconds)
    spent_s = time.monotonic() - began
    found = {n: (cpu_s([pid]) - before_s[n]) / spent_s * 100.0 for n, pid in pids.items()}
    driver.stdin.close()
    async with asyncio.timeout(READY_S):
        lived = msgspec.json.decode(await driver.stdout.readline(), type=Lived)
    await processes.kill("executors")
    return found, lived


async def _balance(nodes: Nodes, fleet: Fleet) -> None:
    """Let the balancer look at it as everywhere."""
    policy = {"balancer": {"mode": "on"}, "heartbeat_interval_s": INTERVAL_S}
    await target.done(nodes, "PATCH", f"/v1/namespaces/{fleet.namespace}", {"policy": policy})


def _executors(fleet: Fleet, held: Held) -> list[Executor]:
    return [
        Executor(request, f"{fleet.path(name)}/assignments?incarnation={name}")
        for name, (request,) in zip(held, target.heartbeats(fleet, held, Even()), strict=True)
    ]


def rows_of(found: dict[str, float]) -> list[Row]:
    """The leader, and the follower that does more."""
    leader, *followers = found.values()
    return [
        lower_is_better("leader", leader, "% of a core", PROMISED, LEADER_MAX),
        lower_is_better("follower", max(followers), "% of a core", PROMISED, FOLLOWER_MAX),
    ]


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.idle", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--executors", type=int, default=EXECUTORS, help=f"default {EXECUTORS:,}")
    parser.add_argument("--seconds", type=float, default=20.0, help="to look at (default 20)")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-bench-") as folder:
        found, lived = asyncio.run(run(Path(folder), max(2, args.executors), args.seconds))
    rows = rows_of(found)
    faults = missed(rows, BARS)
    summary: dict[str, object] = {
        "ok": not faults,
        "executors": args.executors,
        "loads_per_heartbeat": LOADS,
        "heartbeats": lived.heartbeats,
        "polls": lived.polls,
        **machine(),
        "missed": faults,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=args.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
