"""Two of three nodes are destroyed with their disks: the third goes on, and so do the executors."""

import asyncio
import shutil

import pytest

from tests.system.cluster import agree
from tests.system.running import running
from tests.waiting import until

LEASE_S = 20.0
"""The disaster and its cure are over within it, so no executor has to stop."""


async def refused(nodes, processes, folder, name, *options):
    """A start that must end by itself: what it says."""
    log = folder / f"{name}.log"
    log.unlink(missing_ok=True)
    await nodes.start(name, *options)
    async with asyncio.timeout(20):
        assert await processes.running[name].wait() == 1
    await processes.kill(name)
    return log.read_text()


def running_shards(fleet):
    """Who runs which shard since when, as the executors themselves note it."""
    return {
        tenure.key: (tenure.executor, tenure.began_at)
        for tenure in fleet.tenures()
        if tenure.ended_at is None
    }


@pytest.mark.slow
async def test_a_survivor_goes_on_with_all_its_shards_and_two_new_members_join_it(tmp_path):
    async with running(tmp_path, executors=3, shards=30, routers=False, has_journal=True) as fleet:
        nodes, processes = fleet.nodes, fleet.processes
        await fleet.operator.change_policy(fleet.namespace, {"lease_ttl_s": LEASE_S})
        await nodes.first_write("kept")
        await asyncio.sleep(1.0)  # each executor has heard of it with its next heartbeat
        former = (await nodes.sight("n1")).cluster_id
        before = running_shards(fleet)
        assert len(before) == 30
        await until(lambda: agree(nodes), 10.0)
        for name in nodes.names:
            await nodes.kill(name)
        shutil.copytree(nodes.journal("n2"), tmp_path / "old-n2")
        shutil.rmtree(nodes.journal("n2"))
        shutil.rmtree(nodes.journal("n3"))

        # A slip of the hand changes nothing.
        told = await refused(nodes, processes, tmp_path, "n1", "--force-new-cluster", "mistyped")
        assert f"belongs to cluster {former}, not mistyped" in told
        nodes.has_journal = False
        told = await refused(nodes, processes, tmp_path, "n3", "--force-new-cluster", former)
        assert "goes on from a journal, and this node keeps none" in told
        nodes.has_journal = True

        await nodes.start("n1", "--force-new-cluster", former)
        await nodes.start("n2")
        await nodes.start("n3")
        await nodes.ready(nodes.names)
        sights = [await nodes.sight(name) for name in nodes.names]
        assert len({sight.cluster_id for sight in sights}) == 1
        assert sights[0].cluster_id != former
        _, body = await nodes.ask("GET", f"{nodes.api['n3']}/v1/namespaces", timeout_s=2)
        assert b'"kept"' in body
        await until(lambda: agree(nodes), 10.0)

        # The leases that were out have to end before anything is placed; nothing moves meanwhile.
        await until(lambda: can_be_looked_up(fleet), 2 * LEASE_S)
        assert running_shards(fleet) == before  # nobody stopped any

        # A member of the former cluster is no member of this one, whatever it holds.
        await nodes.kill("n2")
        shutil.rmtree(nodes.journal("n2"))
        shutil.copytree(tmp_path / "old-n2", nodes.journal("n2"))
        told = await refused(nodes, processes, tmp_path, "n2")
        assert f"belongs to cluster {former}, a majority of the members to another" in told
        shutil.rmtree(nodes.journal("n2"))
        await nodes.start("n2")
        await nodes.ready(nodes.names)

        # The option may stay in the command line: it is done once.
        cluster_id = (await nodes.sight("n3")).cluster_id
        await nodes.kill("n1")
        await nodes.start("n1", "--force-new-cluster", former)
        await nodes.ready(nodes.names)
        assert (await nodes.sight("n1")).cluster_id == cluster_id


async def can_be_looked_up(fleet):
    status, _ = await fleet.nodes.ask(
        "GET",
        f"{fleet.nodes.api['n2']}/v1/namespaces/{fleet.namespace}/shards/{fleet.keys[0]}/owner",
        timeout_s=2,
    )
    return status == 200
