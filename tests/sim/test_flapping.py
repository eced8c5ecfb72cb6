"""What a node with a bad link does to a cluster that is fine without it: nothing.

A leader cut off from one follower while both reach the third is the classic: without pre-vote the
follower deposes it again and again.
"""

import pytest

from coordinator.consensus.node import CURES
from tests.sim.cluster import SimCluster


def settled(*without, skew=0.0):
    cluster = SimCluster(
        "flapping",
        cures=[cure for cure in CURES if cure.name not in without],
        delay_s=(0.0002, 0.002),
        batch_bytes=65_536,
        chunk_bytes=2048,
        compaction_entries=100,
        skew=skew,
    )
    for name in cluster.names:
        cluster.boot(name)
    cluster.network.start(cluster.names)
    cluster.world.run_until(10.0, cluster.is_settled)
    assert cluster.is_settled()
    cluster.world.run_until(cluster.world.now + 1.0)
    leader = next(name for name, node in cluster.nodes.items() if node.replica.is_ready_leader)
    return cluster, leader, [name for name in cluster.names if name != leader]


def standing(cluster, leader):
    return cluster.nodes[leader].replica.is_ready_leader, max(cluster.ledger.leaders)


@pytest.mark.parametrize(("without", "stays"), [((), True), (("pre-vote",), False)])
@pytest.mark.parametrize("cut", ["from everyone", "from the leader", "its leader's voice"])
def test_a_flapping_minority_changes_no_leader_only_with_pre_vote(without, stays, cut):
    cluster, leader, (flapping, third) = settled(*without)
    before = standing(cluster, leader)
    pairs = [(leader, flapping)]
    if cut != "its leader's voice":
        pairs += [(flapping, leader)]
    if cut == "from everyone":
        pairs += [(flapping, third), (third, flapping)]
    for _ in range(10):
        for pair in pairs:
            cluster.network.block(*pair)
        cluster.world.run_until(cluster.world.now + 1.7)
        for pair in pairs:
            cluster.network.unblock(*pair)
        cluster.world.run_until(cluster.world.now + 0.4)
    assert (standing(cluster, leader) == before) is stays


def test_a_cluster_whose_clocks_differ_by_a_tenth_keeps_its_leader():
    cluster, leader, _ = settled(skew=0.1)
    before = standing(cluster, leader)
    cluster.world.run_until(cluster.world.now + 60.0)
    assert standing(cluster, leader) == before


def test_a_leader_that_stood_still_for_seconds_acknowledges_nothing_when_it_wakes():
    cluster, leader, _ = settled()
    node = cluster.nodes[leader]
    answers = []
    cluster.pause(leader)
    cluster.world.run_until(cluster.world.now + 20.0)
    node.propose(7)
    node.look_up(lambda books: list(books.commands), lambda *told: answers.append(told))
    cluster.resume(leader)
    cluster.world.run_until(cluster.world.now + 2.0)
    assert cluster.ledger.acknowledged == {}
    assert answers == [("refused", None)]
    assert not node.replica.engine.is_leader
    assert cluster.is_settled()
