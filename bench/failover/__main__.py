"""How long writes stop when the leader is killed, again and again, under load.

`python -m bench.failover [--json] [--kills N] [--silent] [--anyone] [--journal] [--seed N]`. Three
nodes and four executors as processes; writers write through all nodes all the time. A leader is
killed with SIGKILL at a moment of chance, and comes back before the next kill, empty or with its
journal. A killed process is noticed by its broken connections; with `--silent` it is stopped
instead, as when a machine is lost, and killed once the others go on. With `--anyone` the victim is
a member of chance, mostly a follower. Exit status 0 only when the bars hold, nothing moved, no
lease ended, nothing acknowledged was lost, and no term had two leaders.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.cluster import Nodes
from bench.demo.fleet import Fleet
from bench.demo.ledger import Note, epoch_faults, overlaps
from bench.demo.notebook import read_notes
from bench.demo.workload import Workload, read_series
from bench.failover.elections import rivals
from bench.failover.registers import Registers
from bench.processes import Processes
from bench.rows import Bar, Row, lower_is_better, machine, missed, percentile, progress, publish
from client.clock import lease_now_s

EXECUTORS: Final = 4
SHARDS: Final = 60
LEASE_S: Final = 3.0
"""Twice the longest outage that is promised: whoever loses a lease here lost it to a failover."""
POLICY: Final = {
    "lease_ttl_s": LEASE_S,
    "heartbeat_interval_s": 0.5,
    "initial_hold_s": 0.2,
    "balancer": {"mode": "off"},  # whatever moves here, a failover moved it
}
CALM_S: Final = (0.3, 1.0)
"""Between a node's return and the next kill: a moment of chance within the writers' work."""
AGAIN_S: Final = 10.0
"""Without a write for so long the run has failed."""
PROMISES: Final = {"failover_p50": 1.2, "failover_max": 1.5}
"""Seconds. What the README promises, as the peer of these rows."""
BARS: Final = tuple(Bar(name, 1.0) for name in PROMISES)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done."""

    kills: int
    is_silent: bool
    is_anyone: bool
    has_journal: bool


@dataclass(slots=True)
class Findings:
    """What the kills cost."""

    outages_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    writes: int = 0
    unknown: int = 0
    moves: int = 0
    lease_left_min_s: float = LEASE_S


async def run(folder: Path, asked: Asked, rng: random.Random) -> Findings:
    """Every kill, and what the executors noted meanwhile."""
    found = Findings()
    series = read_series()
    async with Processes(folder) as processes:
        fleet = Fleet(
            folder,
            processes,
            namespace="flights",
            executors={f"executor-{number}": f"host-{number}" for number in range(EXECUTORS)},
            keys=sorted(series)[:SHARDS],
            workload=Workload(series, lease_now_s()),
            nodes=Nodes(folder, processes, has_journal=asked.has_journal),
        )
        try:
            await fleet.start_nodes(POLICY)
            await fleet.start_executors()
            await fleet.place()
            async with Registers(fleet.nodes) as registers:
                for number in range(asked.kills):
                    await one_kill(fleet, registers, rng, asked, found)
                    progress(f"kill {number + 1:2}  writes again after {found.outages_s[-1]:.3f} s")
            found.writes = sum(tried.is_acknowledged for tried in registers.tries)
            found.unknown = sum(len(register.unknown) for register in registers.registers)
            found.moves = fleet.moves
            found.faults += rivals(folder, fleet.nodes.names) + fleet_faults(fleet)
            found.lease_left_min_s = lease_left_min_s(folder)
        except (TimeoutError, RuntimeError):
            progress(tail_of_logs(folder))
            raise
        finally:
            await fleet.close()
    return found


async def one_kill(
    fleet: Fleet, registers: Registers, rng: random.Random, asked: Asked, found: Findings
) -> None:
    """Kill a node, wait for a write, read everything, and have the dead one back."""
    nodes = fleet.nodes
    await asyncio.sleep(rng.uniform(*CALM_S))
    victim = rng.choice(nodes.names) if asked.is_anyone else await nodes.leader()
    since = time.monotonic()
    if asked.is_silent:
        fleet.processes.send(victim, signal.SIGSTOP)
    else:
        await nodes.kill(victim)
    first = await registers.first_after(since, AGAIN_S)
    found.outages_s.append(first.ended_at - since)
    if asked.is_silent:
        await nodes.kill(victim)
    found.faults += await registers.faults()
    await nodes.start(victim)
    await nodes.ready([victim])


def tail_of_logs(folder: Path) -> str:
    """The last words of every process."""
    return "\n".join(
        f"{path.stem}: {line}"
        for path in sorted(folder.glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()[-15:]
    )


def fleet_faults(fleet: Fleet) -> list[str]:
    """What the executors' notes say against it: a shard that stopped, moved, or had two owners."""
    tenures = fleet.tenures()
    said = [f"two owners: {one}" for one in overlaps(tenures)]
    said += [f"epochs: {pair}" for pair in epoch_faults(tenures)]
    said += [f"stopped: {one}" for one in tenures if one.ended_at is not None]
    if len(tenures) != len(fleet.keys):
        said.append(f"{len(fleet.keys)} shards were started {len(tenures)} times")
    return said


def lease_left_min_s(folder: Path) -> float:
    """The least that was left of any executor's lease at any look, ten times a second."""
    notes: Iterator[Note] = read_notes(sorted(folder.glob("executor-*.notes")), Note)
    return min((one.until - one.at for one in notes if one.kind == "lease"), default=0.0)


def rows_of(found: Findings) -> list[Row]:
    """The distribution beside what is promised, and what must be zero."""
    ordered = sorted(found.outages_s)
    figures = {
        "failover_p50": percentile(ordered, 0.5),
        "failover_p90": percentile(ordered, 0.9),
        "failover_max": percentile(ordered, 1.0),
    }
    return [
        *(
            lower_is_better(name, value, "s", "what is promised", PROMISES[name])
            if name in PROMISES
            else Row(name, value, "s")
            for name, value in figures.items()
        ),
        Row("lease_left_min", found.lease_left_min_s, "s", "the whole lease", LEASE_S),
        Row("shards_moved", found.moves, "shards"),
        Row("writes_acknowledged", found.writes, "writes"),
        Row("writes_unknown", found.unknown, "writes"),
    ]


def verdict(found: Findings, rows: list[Row]) -> list[str]:
    """Everything that must not be, as sentences."""
    said = [*missed(rows, BARS), *found.faults]
    if found.moves:
        said.append(f"{found.moves} shards moved")
    if found.lease_left_min_s <= 0.0:
        said.append("a lease ended")
    return said


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.failover", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--kills", type=int, default=30, help="how many leaders (default 30)")
    parser.add_argument("--silent", action="store_true", help="stop before killing: no goodbye")
    parser.add_argument("--journal", action="store_true", help="nodes keep a journal on disk")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--anyone", action="store_true", help="kill a member of chance")
    told = parser.parse_args()
    asked = Asked(max(1, told.kills), told.silent, told.anyone, told.journal)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shard-coordinator-failover-") as folder:
        found = asyncio.run(run(Path(folder), asked, random.Random(told.seed)))
    rows = rows_of(found)
    faults = verdict(found, rows)
    summary: dict[str, object] = {
        "ok": not faults,
        "kills": len(found.outages_s),
        "victims": "anyone" if asked.is_anyone else "leaders",
        "loss": "silent" if asked.is_silent else "killed",
        "storage": "journal" if asked.has_journal else "memory",
        "outages_s": [round(one, 3) for one in found.outages_s],
        **machine(),
        "missed": faults[:20],
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=told.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
