"""Two of three are lost for good: the third goes on as another cluster, and new ones join it.

Fake disks and a virtual clock; the real journal and real processes are in `tests/consensus` and
`tests/system`.
"""

import random

import pytest

from coordinator.codec import encode_entry
from coordinator.consensus import ConsensusError
from coordinator.consensus.node import CURES
from coordinator.consensus.survivor import force_new_cluster
from coordinator.core.commands import Bootstrap, ForceNewCluster
from tests.sim.cluster import SimCluster
from tests.sim.disk import Fault, PowerCut
from tests.sim.ledger import Ledger
from tests.sim.machine import Books

OLD, NEW = "old", "new"


def settled(seed, entries=20, compaction=100_000):
    cluster = SimCluster(
        f"survivor {seed}",
        cures=CURES,
        delay_s=(0.001, 0.02),
        batch_bytes=1200,
        chunk_bytes=256,
        compaction_entries=compaction,
        has_disks=True,
    )
    for name in cluster.names:
        cluster.boot(name)
    cluster.network.start(cluster.names)
    goes_on(cluster, cluster.is_settled)
    leader = next(n for n in cluster.nodes.values() if n.replica.is_ready_leader)
    leader.submit(encode_entry(Bootstrap(cluster_id=OLD, epoch_base=1)), lambda *_told: None)
    for command in range(1, entries + 1):
        leader.propose(command)
    goes_on(cluster, lambda: len(cluster.ledger.acknowledged) == entries)
    goes_on(cluster, cluster.is_settled)
    for node in cluster.nodes.values():  # as the product does when the state says so
        node.replica.engine.log.note("cluster_id", OLD)
        node.kick()
    cluster.world.run_until(cluster.world.now + 0.2)
    return cluster


def goes_on(cluster, condition, within_s=20.0):
    cluster.world.run_until(cluster.world.now + within_s, condition)
    assert condition()


def named(outcome):
    return outcome.resource


def force(cluster, name, former_id=OLD, cluster_id=NEW):
    command = ForceNewCluster(
        cluster_id=cluster_id, former_id=former_id, epoch_base=1 << 40, at_ms=1
    )
    return force_new_cluster(
        cluster.config(name),
        Books(),
        former_id=former_id,
        payload=encode_entry(command),
        named=named,
        rng=random.Random(1),
        open_disk=lambda: cluster.disks[name],
    )


def lose_two(cluster, survivor):
    """All processes are gone, and two of the disks."""
    lost = [name for name in cluster.names if name != survivor]
    held = cluster.nodes[survivor].machine.commands[:]
    for name in list(cluster.nodes):
        cluster.kill(name)
    for name in lost:
        cluster.disks[name].wipe()
    cluster.ledger = Ledger()  # another cluster: what the lost ones alone knew binds nobody
    return lost, held


@pytest.mark.parametrize("seed", range(12))
def test_new_members_join_the_survivor_in_any_order_whatever_crashes(seed):
    rng = random.Random(seed)
    cluster = settled(seed, compaction=rng.choice([10, 100_000]))
    survivor = rng.choice(cluster.names)
    lost, held = lose_two(cluster, survivor)
    assert force(cluster, survivor) == NEW
    names = [survivor, *lost]
    for name in names:
        cluster.world.after(rng.uniform(0, 2.0), cluster.boot, name)
    for _ in range(6):  # they stop and go on while they join; their disks stay
        name = rng.choice(names)
        at_s = rng.uniform(2.0, 4.0)
        cluster.world.after(at_s, lambda name=name: name in cluster.nodes and cluster.kill(name))
        cluster.world.after(at_s + rng.uniform(0.01, 0.5), cluster.boot, name)
    cluster.world.run_until(cluster.world.now + 5.0)
    goes_on(cluster, cluster.is_settled)
    leader = next(n for n in cluster.nodes.values() if n.replica.is_ready_leader)
    leader.propose(99)
    goes_on(cluster, lambda: 99 in cluster.ledger.acknowledged)
    goes_on(cluster, cluster.is_settled)
    for node in cluster.nodes.values():
        assert node.machine.commands == [*held, 99]
        assert node.machine.registry.state.cluster_id == NEW
        assert node.machine.registry.state.next_epoch == 1 << 40
        assert node.replica.engine.log.notes.get("sole", "") == ""


def test_new_members_without_the_survivor_are_nobody():
    cluster = settled(1)
    lost, _ = lose_two(cluster, "n2")
    for name in lost:
        cluster.boot(name)
    cluster.world.run_until(cluster.world.now + 20.0)
    assert not any(node.is_admitted for node in cluster.nodes.values())


def test_a_survivor_that_was_not_forced_waits_for_the_lost_ones():
    cluster = settled(1)
    lose_two(cluster, "n2")
    for name in cluster.names:
        cluster.boot(name)
    cluster.world.run_until(cluster.world.now + 20.0)
    assert [name for name, node in cluster.nodes.items() if node.is_admitted] == ["n2"]
    assert not any(node.replica.engine.is_leader for node in cluster.nodes.values())


def test_of_one_name_one_memory_is_adopted():
    """Its former one may have been admitted and have voted, and nobody here would know."""
    cluster = settled(1)
    (first, _), _ = lose_two(cluster, "n2")
    force(cluster, "n2")
    cluster.boot("n2")
    cluster.boot(first)
    goes_on(cluster, lambda: cluster.disks["n2"].notes["adopted"] != "{}")
    cluster.kill(first)
    cluster.disks[first].wipe()
    cluster.boot(first)
    cluster.world.run_until(cluster.world.now + 10.0)
    assert not cluster.nodes[first].is_admitted
    for name in list(cluster.nodes):
        cluster.kill(name)
    assert force(cluster, "n2", NEW, "newer") == "newer"  # the way out is the same once more
    cluster.ledger = Ledger()
    for name in cluster.names:
        cluster.boot(name)
    goes_on(cluster, cluster.is_settled)


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
def test_whenever_the_power_fails_it_can_be_done_again(fault):
    done = 0
    while True:
        cluster = settled(1, entries=3)
        _, held = lose_two(cluster, "n1")
        disk = cluster.disks["n1"]
        before = disk.commits
        disk.commit = failing_at(disk, disk.commit, before + done, fault)
        try:
            force(cluster, "n1")
        except PowerCut:
            del disk.commit
            force(cluster, "n1")
        else:
            break
        done += 1
        for name in cluster.names:
            cluster.boot(name)
        goes_on(cluster, cluster.is_settled)
        for node in cluster.nodes.values():
            assert node.machine.commands == held
            assert node.machine.registry.state.cluster_id == NEW
    assert done > 3


def failing_at(disk, commit, number, fault):
    def commit_or_fail(batch):
        if disk.commits == number:
            disk.arm(fault)
        commit(batch)

    return commit_or_fail


def test_it_is_done_once_however_often_the_node_is_started_so():
    cluster = settled(1)
    lose_two(cluster, "n1")
    assert force(cluster, "n1") == NEW
    before = cluster.disks["n1"].load()
    assert force(cluster, "n1", cluster_id="other") is None
    assert cluster.disks["n1"].load() == before


@pytest.mark.parametrize(
    ("notes", "former_id", "why"),
    [
        ({}, "ancient", "belongs to cluster old, not ancient"),
        ({"admitted": "another"}, OLD, "was never caught up"),
    ],
)
def test_a_journal_that_is_not_meant_or_not_whole_is_left_as_it_is(notes, former_id, why):
    cluster = settled(1)
    lose_two(cluster, "n1")
    disk = cluster.disks["n1"]
    disk.notes.update(notes)
    before = disk.load()
    with pytest.raises(ConsensusError, match=why):
        force(cluster, "n1", former_id)
    assert disk.load() == before


def test_an_empty_journal_is_nothing_to_go_on_from():
    cluster = settled(1)
    lose_two(cluster, "n1")
    with pytest.raises(ConsensusError, match="belongs to no cluster yet"):
        force(cluster, "n2")


def test_a_disk_that_keeps_nothing_ends_it():
    cluster = settled(1)
    lose_two(cluster, "n1")
    cluster.disks["n1"].is_full = True
    with pytest.raises(ConsensusError, match="no space left"):
        force(cluster, "n1")
    cluster.disks["n1"].is_full = False
    assert force(cluster, "n1") == NEW
