"""Real nodes on loopback: elections, proposals, lost memory, probes, transfers, limits."""

import asyncio
import os
import random
import time
from collections import Counter

import pytest

from coordinator.consensus import (
    ENTRY_BYTES_MAX,
    ConsensusConfig,
    ConsensusError,
    ConsensusNode,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    ProbeTimeout,
    TooLarge,
    TransferFailed,
    library,
)
from coordinator.consensus.confirming import TELLING_S
from coordinator.consensus.contract import config_problems
from tests.consensus.cluster import Cluster, Register, cluster
from tests.waiting import until


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


async def cut_off(c, leader):
    """The leader's peers are gone, and it does not know yet."""
    await asyncio.gather(*[c.kill(n.config.name) for n in c.followers()])
    assert leader.status().role == "leader"


async def test_a_proposal_without_a_majority_ends_as_unknown_at_its_deadline():
    async with cluster() as c:
        leader = await c.elected()
        await cut_off(c, leader)
        with pytest.raises(OutcomeUnknown):
            await leader.propose(b"x", timeout_s=0.1)


async def test_a_leadership_is_not_confirmed_without_a_majority():
    async with cluster() as c:
        leader = await c.elected()
        await cut_off(c, leader)
        with pytest.raises(ProbeTimeout):
            await leader.confirm_leadership(timeout_s=0.1)
        with pytest.raises(NotLeader):  # its own fallback ends it before its patience does
            await leader.confirm_leadership(timeout_s=5.0)
        assert leader.status().role != "leader"
        assert not leader.status().has_quorum


async def test_many_callers_share_few_probes_and_all_get_the_term():
    async with cluster() as c:
        leader = await c.elected()
        terms = await asyncio.gather(*[leader.confirm_leadership() for _ in range(500)])
        assert set(terms) == {leader.status().term}
        assert leader._replica.probe._id <= 3


async def test_the_loop_goes_on_turning_while_many_are_told_of_one_word():
    async with cluster() as c:
        leader = await c.elected()
        turns_before: list[int] = []
        turns = 0

        def told(found: int | ConsensusError) -> None:
            assert found == leader.status().term
            turns_before.append(turns)
            time.sleep(TELLING_S / 2)  # what a heartbeat of very many shards takes

        confirmations = [leader.when_confirmed(told, patience_s=0.05) for _ in range(40)]
        while len(turns_before) < len(confirmations):
            await asyncio.sleep(0)
            turns += 1
        told_a_turn = Counter(turns_before)
        assert max(told_a_turn.values()) <= 4
        assert leader._replica.probe._id <= 3


async def test_a_word_that_came_in_time_is_told_however_long_the_others_take():
    async with cluster() as c:
        leader = await c.elected()
        found: list[int | ConsensusError] = []

        def told(one: int | ConsensusError) -> None:
            found.append(one)
            time.sleep(2 * TELLING_S)

        for _ in range(100):
            leader.when_confirmed(told, timeout_s=0.2)
        await until(lambda: len(found) == 100)
        assert set(found) == {leader.status().term}


async def test_stopping_fails_whoever_is_still_to_be_told():
    async with cluster() as c:
        leader = await c.elected()
        found: list[int | ConsensusError] = []

        def told(one: int | ConsensusError) -> None:
            found.append(one)
            time.sleep(TELLING_S)

        for _ in range(40):
            leader.when_confirmed(told, patience_s=0.05)
        while not found:  # noqa: ASYNC110 - one turn after the other
            await asyncio.sleep(0)
        assert len(found) < 40
        await c.kill(leader.config.name)
        assert len(found) == 40
        assert isinstance(found[-1], OutcomeUnknown)


async def test_stopping_fails_whoever_still_waits_as_unknown():
    async with cluster() as c:
        leader = await c.elected()
        await cut_off(c, leader)
        waiting = asyncio.create_task(leader.propose(b"x"))
        probing = asyncio.create_task(leader.confirm_leadership())
        await asyncio.sleep(0.05)
        await c.kill(leader.config.name)
        with pytest.raises(OutcomeUnknown):
            await waiting
        with pytest.raises(OutcomeUnknown):
            await probing
        with pytest.raises(NotLeader):
            await leader.propose(b"x")


async def test_two_thousand_proposals_at_once_are_applied_and_too_many_are_refused():
    async with cluster() as c:
        leader = await c.elected()
        await asyncio.gather(*[leader.propose(b"x") for _ in range(2000)])
        leader._in_flight = 20_000
        with pytest.raises(Overloaded):
            await leader.propose(b"x")
        leader._in_flight = 0
        assert await leader.propose(b"x") == 2001


async def test_a_cancelled_proposal_frees_its_place_and_harms_nobody():
    async with cluster() as c:
        leader = await c.elected()
        cancelled = asyncio.create_task(leader.propose(b"a"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert await leader.propose(b"b") == 2
        assert leader._in_flight == 0


async def test_proposals_wait_for_a_transfer_and_then_name_the_new_leader():
    async with cluster() as c:
        leader = await c.elected()
        transfer = asyncio.create_task(leader.transfer_leadership())
        await asyncio.sleep(0)
        late = [asyncio.create_task(leader.propose(b"x")) for _ in range(20)]
        target = await transfer
        for refused in await asyncio.gather(*late, return_exceptions=True):
            assert isinstance(refused, NotLeader)
            assert refused.leader == target


async def test_a_transfer_goes_where_it_is_told_and_nowhere_else():
    async with cluster() as c:
        leader = await c.elected()
        for wrong in ("n9", leader.config.name):
            with pytest.raises(TransferFailed):
                await leader.transfer_leadership(wrong)
        target = c.followers()[1].config.name
        assert await leader.transfer_leadership(target) == target
        with pytest.raises(NotLeader):
            await leader.transfer_leadership()


async def test_a_second_transfer_waits_for_nobody_and_a_stop_ends_the_first():
    async with cluster() as c:
        leader = await c.elected()
        await asyncio.gather(*[c.kill(n.config.name) for n in c.followers()[:1]])
        leader._replica.offer_leadership = lambda _peer: False  # it never is caught up
        first = asyncio.create_task(leader.transfer_leadership())
        await asyncio.sleep(0.02)
        with pytest.raises(TransferFailed, match="under way"):
            await leader.transfer_leadership()
        waiting = asyncio.create_task(leader.propose(b"x"))
        await asyncio.sleep(0.02)
        await c.kill(leader.config.name)
        with pytest.raises(NotLeader):
            await waiting
        with pytest.raises(TransferFailed):
            await first


async def test_proposals_go_on_where_they_were_after_a_transfer_failed():
    async with cluster() as c:
        leader = await c.elected()
        leader._replica.offer_leadership = lambda _peer: False
        transfer = asyncio.create_task(leader.transfer_leadership())
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(leader.propose(b"x"))
        with pytest.raises(TransferFailed):
            await transfer
        assert await waiting == 1


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (library.NOT_LEADER, NotLeader),
        (library.MISSING_LEADER, NotLeader),
        (library.DISCARDED, NotLeader),
        (library.QUEUE_FULL, Overloaded),
        (library.UNKNOWN_OUTCOME, OutcomeUnknown),
        (5, OutcomeUnknown),  # "leader changed": two in five of these had been applied
    ],
)
async def test_each_reason_of_the_library_becomes_the_outcome_it_proves(reason, outcome):
    node = ConsensusNode(Cluster(1).config("n1"), Register(), rng=random.Random(1))
    future = asyncio.get_running_loop().create_future()
    node._settle(future, None, reason)
    assert isinstance(future.exception(), outcome)


async def test_a_thousand_different_patiences_leave_nothing_behind():
    async with cluster(1) as c:
        leader = await c.elected()
        for number in range(1000):
            await leader.propose(b"x", timeout_s=1 + number / 1000)
        assert len(leader._deadlines) <= 21
        await until(lambda: not leader._deadlines)


async def test_a_transfer_without_a_peer_fails_at_once():
    async with cluster(1) as c:
        leader = await c.elected()
        with pytest.raises(TransferFailed):
            await leader.transfer_leadership()


async def test_listeners_hear_of_leadership_and_of_applied_steps():
    made = Cluster(1)
    leads, applied = [], []
    node = ConsensusNode(made.config("n1"), Register(), rng=random.Random(3))
    node.on_leadership = lambda is_leader, term: leads.append((is_leader, term))
    node.on_applied = applied.append
    await node.start()
    await until(lambda: leads)
    assert leads == [(True, 1)]
    assert node.status().applied_index >= 2  # the entry that begins its leadership
    before = len(applied)
    await asyncio.gather(*[node.propose(b"x") for _ in range(100)])
    assert len(applied) - before <= 3
    assert applied[-1] == 102
    assert applied == sorted(set(applied))
    await node.stop()


async def test_a_listener_that_raises_stops_nothing(caplog):
    async with cluster(1) as c:
        leader = await c.elected()

        def raising(_index):
            raise ValueError("listener")

        leader.on_applied = raising
        assert await leader.propose(b"a") == 1
        assert await leader.propose(b"b") == 2
        assert any("listener_raised" in r.message for r in caplog.records)


async def test_what_is_fatal_is_told_once():
    async with cluster(1) as c:
        leader = await c.elected()
        told = []
        leader.on_fatal = told.append
        leader._replica.fail("first")
        leader._replica.fail("second")
        await until(lambda: told)
        with pytest.raises(OutcomeUnknown, match="first"):
            await leader.propose(b"x")
        assert told == ["first"]


async def test_a_member_that_waits_for_its_peers_says_quarantined():
    made = Cluster(3)
    await made.boot("n1")
    try:
        await asyncio.sleep(0.3)
        status = made.nodes["n1"].status()
        assert (status.role, status.leader, status.term) == ("quarantined", None, 0)
        assert status.leader_contact_age_s is None
    finally:
        await made.kill("n1")


async def test_the_override_founds_a_cluster_without_the_third_member():
    made = Cluster(3)
    try:
        await made.boot("n1", bootstrap=True)
        await made.boot("n2")
        leader = await made.elected()
        assert await leader.propose(b"a") == 1
        late = await made.boot("n3")
        await until(lambda: late.status().role == "follower", 5.0)
        assert made.machines["n3"].values == ["a"]
    finally:
        await asyncio.gather(*[node.stop() for node in made.nodes.values()])


async def test_a_large_state_reaches_an_empty_member_in_chunks():
    async with cluster(compaction_min_entries=20) as c:
        leader = await c.elected()
        for _ in range(30):
            await leader.propose(os.urandom(100_000).hex().encode())
        # Half of what was written: hex compresses.
        await until(lambda: leader.status().snapshot_bytes > 1_500_000)
        follower = c.followers()[0].config.name
        await c.kill(follower)
        returned = await c.boot(follower)
        await until(lambda: returned.status().role == "follower")
        await until(lambda: len(c.machines[follower].values) == 30)
        assert c.machines[follower].values == c.machines[leader.config.name].values
        assert returned.status().snapshot_index > 1
        assert returned.status().snapshot_age_s is not None


async def test_the_status_of_a_leader_tells_of_its_peers():
    async with cluster() as c:
        leader = await c.elected()
        await leader.propose(b"a")
        await until(lambda: {p.match_index for p in leader.status().peers} == {3})
        leader.set_cluster_id("c1")
        status = leader.status()
        assert status.cluster_id == "c1"
        assert (status.commit_index, status.applied_index, status.log_entries) == (3, 3, 3)
        assert status.leader_contact_age_s < 0.5
        for peer in status.peers:
            assert peer.connected
            assert not peer.quarantined
            assert peer.address == c.addresses[peer.name]
            assert peer.api_url == f"http://{peer.name}.example"
            assert peer.last_heard_age_s < 1.0
        follower = c.followers()[0].status()
        assert [peer.match_index for peer in follower.peers] == [None, None]
        assert follower.leader_contact_age_s < 1.0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"peers": {"n2": "127.0.0.1:1"}}, "not among its peers"),
        ({"election_timeout_s": (0.5, 0.5)}, "election_timeout_s"),
        ({"fallback_timeout_s": 0.5}, "fallback_timeout_s: must be below"),
        ({"fallback_timeout_s": 0.1}, "fallback_timeout_s: must fit"),
        ({"ping_interval_s": 0.2}, "ping_interval_s"),
        ({"link_dead_after_s": 0.1}, "link_dead_after_s"),
        ({"tick_interval_s": 0.0}, "tick_interval_s"),
        ({"compaction_min_entries": 100_001}, "compaction_min_entries"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_with_their_reason(changes, problem):
    given = {"name": "n1", "peers": {"n1": "127.0.0.1:1"}, "api_url": "", **changes}
    with pytest.raises(ConsensusError, match=problem):
        ConsensusNode(ConsensusConfig(**given), Register(), rng=random.Random(1))


def test_all_wrong_settings_are_told_at_once():
    config = ConsensusConfig(
        name="n1", peers={}, api_url="", tick_interval_s=9.0, compaction_min_entries=1
    )
    assert len(config_problems(config)) == 3
