"""Real nodes on real wires that are cut, slowed and healed; whoever calls can reach every node."""

import asyncio
import contextlib
import itertools
import random
import time

import pytest

from bench.failover.elections import rivals
from bench.failover.registers import DEFINITE, Registers
from bench.processes import Processes
from tests.system.cluster import Beats, agree, term_of
from tests.system.namespaces import NamespacedNodes, Network, lack
from tests.waiting import until

pytestmark = [
    pytest.mark.skipif(lack() is not None, reason=lack() or ""),
    pytest.mark.timeout(120),
]

FALLBACK_S = 0.45
"""`ConsensusConfig.fallback_timeout_s`; counted from the last answer of a follower."""
SLACK_S = 0.4
"""What a busy machine may add before a node notices that its time is over."""
ELECTED_S = 3.0
"""Silence is noticed after 0.5 to 1.0 s; a split vote costs a round more."""
CALM_S = 30.0


@contextlib.asynccontextmanager
async def partitioned(folder, *, is_slow=False):
    """Three nodes in namespaces, and writers who write through all of them."""
    async with Processes(folder) as processes:
        network = Network(processes, ("n1", "n2", "n3"), is_slow=is_slow)
        try:
            await network.open()
            nodes = NamespacedNodes(folder, processes, network)
            try:
                await nodes.start_all()
                async with Registers(nodes, count=3) as registers:
                    yield nodes, network, registers
            finally:
                await nodes.close()
        finally:
            await network.close()
    assert rivals(folder, network.names) == []


async def calmed(nodes, registers, timeout_s=CALM_S):
    """Everybody is well again: nothing acknowledged is lost, and all have the same state."""
    await nodes.ready(nodes.names, timeout_s)
    assert await registers.faults() == []
    await registers.stop()
    await until(lambda: agree(nodes), timeout_s)


def acknowledged_by(registers, node, since):
    return [
        tried
        for tried in registers.tries
        if tried.node == node and tried.is_acknowledged and tried.began_at > since
    ]


async def roles(nodes):
    leader = await nodes.leader()
    return leader, [name for name in nodes.names if name != leader]


async def test_a_leader_that_is_cut_off_acknowledges_nothing_and_the_others_go_on(tmp_path):
    async with partitioned(tmp_path) as (nodes, network, registers):
        beats = Beats(nodes)
        await beats.join()
        leader, others = await roles(nodes)
        term = await term_of(nodes, leader)

        network.cut(leader, *others)
        cut_at = time.monotonic()
        statuses, told = [], []
        while time.monotonic() - cut_at < 3.0:
            asked_at = time.monotonic() - cut_at
            status, _ = await beats.send(leader)
            statuses.append(status)
            told.append((asked_at, time.monotonic() - cut_at))
            await registers.write(0, leader)
            await asyncio.sleep(0.02)

        assert set(statuses) == {503}
        # Whoever asked at once had to wait for the fallback; whoever asked later did not wait.
        assert told[0][1] < FALLBACK_S + SLACK_S
        late = [ended - asked for asked, ended in told if asked > FALLBACK_S + SLACK_S]
        assert max(late) < SLACK_S
        assert acknowledged_by(registers, leader, cut_at) == []
        refused = [
            tried
            for tried in registers.tries
            if tried.node == leader and tried.began_at > cut_at + FALLBACK_S + SLACK_S
        ]
        assert refused
        assert {(tried.status, tried.reason in DEFINITE) for tried in refused} == {(503, True)}

        first = await registers.first_after(cut_at, ELECTED_S)
        assert first.node in others
        assert first.ended_at - cut_at < ELECTED_S

        network.heal()
        await calmed(nodes, registers)
        assert await term_of(nodes, leader) - term <= 2


async def leads_on(nodes, registers, names, seconds):
    """Whether writes went on all the time, and who led, asked twice a second."""
    led = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began_at = time.monotonic()
        await registers.first_after(began_at, ELECTED_S)
        for name in names:
            seen = await nodes.sight(name)
            if seen is not None and seen.role_of(name) == "leader" and led[-1:] != [name]:
                led.append(name)
        await asyncio.sleep(0.5)
    return led


@pytest.mark.parametrize(
    ("cut", "seconds"),
    [
        ("both ways", 4.0),
        pytest.param("to the follower", 20.0, marks=pytest.mark.slow),
        pytest.param("to the leader", 20.0, marks=pytest.mark.slow),
        pytest.param("both ways", 30.0, marks=pytest.mark.slow),
    ],
)
async def test_a_cut_between_leader_and_one_follower_costs_at_most_one_election(
    tmp_path, cut, seconds
):
    async with partitioned(tmp_path) as (nodes, network, registers):
        leader, (follower, _) = await roles(nodes)
        term = await term_of(nodes, leader)
        match cut:
            case "both ways":
                network.cut(leader, follower)
            case "to the follower":
                network.cut_one_way(leader, follower)
            case "to the leader":
                network.cut_one_way(follower, leader)
        led = await leads_on(nodes, registers, nodes.names, seconds)
        assert len(led) <= 2
        network.heal()
        healed = await leads_on(nodes, registers, nodes.names, 3.0)
        assert healed == led[-1:]
        await calmed(nodes, registers)
        assert await term_of(nodes, led[-1]) - term <= 2


@pytest.mark.slow
async def test_a_follower_whose_wires_come_and_go_changes_no_leader(tmp_path):
    rng = random.Random(1)
    async with partitioned(tmp_path) as (nodes, network, registers):
        leader, (flapping, other) = await roles(nodes)
        term = await term_of(nodes, leader)
        for _ in range(12):
            network.cut(flapping, leader, other)
            await asyncio.sleep(rng.uniform(0.1, 1.6))  # around every time-out that there is
            network.heal()
            await asyncio.sleep(rng.uniform(0.05, 0.5))
            assert await nodes.leader() == leader
        await calmed(nodes, registers)
        assert await term_of(nodes, leader) == term
        gaps = longest_gap_s(registers, {leader, other})
        assert gaps < 1.0, "the majority was held up"


def longest_gap_s(registers, through):
    done = sorted(
        tried.ended_at
        for tried in registers.tries
        if tried.is_acknowledged and tried.node in through
    )
    return max((later - earlier for earlier, later in itertools.pairwise(done)))


async def test_slow_and_lossy_wires_allow_progress_and_lose_nothing(tmp_path):
    async with partitioned(tmp_path, is_slow=True) as (nodes, network, registers):
        began = time.monotonic()
        network.slow(0.05, 0.05, 0.05)
        await asyncio.sleep(4.0)
        network.calm()
        done = [one for one in registers.tries if one.is_acknowledged and one.began_at > began]
        assert len(done) > 10
        await calmed(nodes, registers)


@pytest.mark.slow
async def test_very_slow_wires_lose_nothing_and_all_is_well_soon_after(tmp_path):
    async with partitioned(tmp_path, is_slow=True) as (nodes, network, registers):
        began = time.monotonic()
        network.slow(0.2, 0.2, 0.05)
        await asyncio.sleep(30.0)
        done = [one for one in registers.tries if one.is_acknowledged and one.began_at > began]
        network.calm()
        await calmed(nodes, registers)
        assert done, "no progress"
