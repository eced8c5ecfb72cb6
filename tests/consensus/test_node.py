"""Real nodes on loopback: elections, proposals, lost memory, probes, transfers, limits."""

import asyncio

import pytest

from coordinator.consensus import (
    ENTRY_BYTES_MAX,
    ConsensusError,
    NotLeader,
    TooLarge,
)
from tests.consensus.cluster import Cluster, cluster, until


async def test_one_member_alone_leads_and_applies():
    async with cluster(1) as c:
        leader = await c.elected()
        assert await leader.propose(b"a") == 1
        assert await leader.propose(b"b") == 2
        assert c.machines["n1"].values == ["a", "b"]
        assert await leader.confirm_leadership() == leader.status().term


async def test_three_fresh_members_elect_one_leader_and_agree_on_the_order():
    async with cluster() as c:
        leader = await c.elected()
        outcomes = await asyncio.gather(*[leader.propose(f"{n}".encode()) for n in range(500)])
        assert sorted(outcomes) == list(range(1, 501))
        await until(lambda: all(len(m.values) == 500 for m in c.machines.values()))
        values = {tuple(m.values) for m in c.machines.values()}
        assert len(values) == 1


async def test_a_follower_refuses_a_proposal_and_names_the_leader():
    async with cluster() as c:
        leader = await c.elected()
        follower = c.followers()[0]
        await until(lambda: follower.status().leader == leader.config.name)
        with pytest.raises(NotLeader) as refused:
            await follower.propose(b"x")
        assert refused.value.leader == leader.config.name
        assert follower.leader_api_url == leader.config.api_url


async def test_a_killed_leader_is_replaced_and_comes_back_empty_as_a_voter():
    async with cluster() as c:
        leader = await c.elected()
        assert await leader.propose(b"before") == 1
        name = leader.config.name
        started = asyncio.get_running_loop().time()
        await c.kill(name)
        successor = await c.elected()
        assert await successor.propose(b"after") == 2
        assert asyncio.get_running_loop().time() - started < 1.5
        returned = await c.boot(name)
        await until(lambda: returned.status().role == "follower", 3.0)
        await until(lambda: c.machines[name].values == ["before", "after"])
        # Its vote is needed now: another member goes, the two others must elect.
        await c.kill(successor.config.name)
        third = await c.elected()
        assert await third.propose(b"last") == 3


async def test_a_payload_above_the_limit_is_refused_and_one_at_the_limit_is_applied():
    async with cluster() as c:
        leader = await c.elected()
        with pytest.raises(TooLarge):
            await leader.propose(b"x" * (ENTRY_BYTES_MAX + 1))
        assert await leader.propose(b"x" * ENTRY_BYTES_MAX) == 1


async def test_a_leadership_is_transferred_to_a_caught_up_follower():
    async with cluster() as c:
        leader = await c.elected()
        await leader.propose(b"a")
        target = await leader.transfer_leadership()
        assert target != leader.config.name
        successor = await c.elected()
        assert successor.config.name == target
        assert await successor.propose(b"b") == 2


async def test_a_port_that_is_taken_is_an_error_at_once():
    made = Cluster(1)
    await made.boot("n1")
    try:
        with pytest.raises(ConsensusError, match=made.addresses["n1"]):
            await made.boot("n1")
    finally:
        await made.kill("n1")
