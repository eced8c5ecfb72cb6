"""A running fleet of real processes for one test; all are gone at its end."""

import asyncio
import contextlib

from bench.cluster import Nodes
from bench.demo.fleet import Fleet
from bench.demo.ledger import by_key, epoch_faults, overlaps
from bench.demo.lookups import judge
from bench.demo.workload import Workload, read_series
from bench.processes import Processes
from client.clock import lease_now_s

LEASE_S = 2.0
POLICY = {
    "lease_ttl_s": LEASE_S,
    "heartbeat_interval_s": 0.3,
    "initial_hold_s": 0.2,
    "balancer": {"mode": "off"},  # what moves in these tests moves for the fault under test
}


@contextlib.asynccontextmanager
async def running(
    folder,
    *,
    executors=4,
    shards=60,
    routers=True,
    lease_s=LEASE_S,
    has_journal=False,
    lock_dir=None,
):
    """Three nodes, executors with their shards placed, and routers that ask for all of them."""
    series = read_series()
    keys = sorted(series)[:shards]
    workload = Workload(series, lease_now_s())
    names = {f"executor-{number}": f"host-{number}" for number in range(1, executors + 1)}
    async with Processes(folder) as processes:
        fleet = Fleet(
            folder,
            processes,
            namespace="flights",
            executors=names,
            keys=keys,
            workload=workload,
            nodes=Nodes(folder, processes, has_journal=has_journal),
        )
        try:
            await fleet.start_nodes(POLICY | {"lease_ttl_s": lease_s})
            await fleet.start_executors(lock_dir=lock_dir)
            await fleet.place()
            # An owner is named before it has started: killed in between it never ran the shard.
            assert await fleet.until(lambda: {one.key for one in fleet.tenures()} == set(keys), 20)
            if routers:
                await fleet.start_routers()
            yield fleet
        finally:
            await fleet.close()


async def judged(fleet, crashes=(), outages=()):
    """Ends the routers and holds every look-up and every tenure against each other."""
    await asyncio.sleep(0.3)  # what was handed over a moment ago is started by then
    await fleet.end_routers()
    tenures = fleet.tenures()
    assert overlaps(tenures) == []
    assert epoch_faults(tenures) == []
    verdict = judge(fleet.lookups(), by_key(tenures), crashes, outages)
    assert verdict.lookups > 500
    assert (verdict.lost, verdict.misdirected) == (0, 0), verdict.examples
    return tenures
