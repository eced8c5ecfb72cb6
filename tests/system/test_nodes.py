"""Coordinator nodes are lost and come back; nobody who uses them is harmed."""

import asyncio
import signal

import pytest

from bench.cluster import Nodes
from bench.demo.lookups import Outage
from bench.processes import Processes
from client.clock import lease_now_s
from tests.system.running import judged, running

WRITES_AGAIN_S = 2.0


async def make_leader(fleet, name):
    if await fleet.nodes.leader() != name:
        await fleet.operator.transfer_leadership(name)
    assert await fleet.nodes.leader() == name


async def leader_among(fleet, names):
    for name in names:
        status, _ = await fleet.nodes.ask("GET", f"{fleet.nodes.api[name]}/leader", timeout_s=1.0)
        if status == 200:
            return name
    return None


async def test_each_node_is_killed_as_leader_in_turn_and_nothing_moves_or_is_lost(tmp_path):
    async with running(tmp_path) as fleet:
        placed = {key: fleet.owner_of(key) for key in fleet.keys}
        outages = []
        for name in fleet.nodes.names:
            await make_leader(fleet, name)
            since = lease_now_s()
            await fleet.nodes.kill(name)
            await fleet.nodes.first_write(f"after-{name}")
            outages.append(Outage(since, lease_now_s()))
            assert outages[-1].until - since < WRITES_AGAIN_S
            # It comes back with nothing, and the next round needs its vote: of three members the
            # next leader is then the dead one, and both others must agree.
            await fleet.nodes.start(name)
            await fleet.nodes.ready([name])
            seen = await fleet.nodes.sight(name)
            assert seen.role_of(name) == "follower"
        tenures = await judged(fleet, outages=outages)
        assert {key: fleet.owner_of(key) for key in fleet.keys} == placed
        assert fleet.moves == 0
        assert len(tenures) == len(fleet.keys)
        assert all(tenure.ended_at is None for tenure in tenures)


async def test_a_node_that_came_back_empty_has_the_whole_state_and_decides_the_next_election(
    tmp_path,
):
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        try:
            await nodes.start_all()
            for number in range(50):
                await nodes.first_write(f"kept-{number}")
            leader = await nodes.leader()
            back = next(name for name in nodes.names if name != leader)
            await nodes.kill(back)
            await nodes.first_write("while-away")
            await nodes.start(back)
            await nodes.ready([back])
            # The old leader goes: the write below needs the vote of the node that was empty.
            await nodes.kill(leader)
            assert await nodes.first_write("needs-its-vote") < WRITES_AGAIN_S
            status, body = await nodes.ask("GET", f"{nodes.api[back]}/v1/namespaces", timeout_s=2)
            assert status == 200
            for name in ("kept-0", "kept-49", "while-away", "needs-its-vote"):
                assert f'"{name}"'.encode() in body
        finally:
            await nodes.close()


async def test_without_a_majority_nothing_is_answered_as_written(tmp_path):
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        try:
            await nodes.start_all()
            leader = await nodes.leader()
            for name in nodes.names:
                if name != leader:
                    await nodes.kill(name)
            with pytest.raises(TimeoutError):
                await nodes.first_write("must-not-be", timeout_s=2.0)
        finally:
            await nodes.close()


async def test_a_leader_told_to_end_hands_over_first_and_nothing_is_lost(tmp_path):
    async with running(tmp_path) as fleet:
        leader = await fleet.nodes.leader()
        since = lease_now_s()
        assert await fleet.nodes.terminate(leader) == 0
        took_s = await fleet.nodes.first_write("after-term")
        until = lease_now_s()
        assert took_s < 0.5  # nobody had to notice a loss: the lead was handed over
        assert "leadership_transferred" in (tmp_path / f"{leader}.log").read_text()
        await fleet.nodes.start(leader)
        await fleet.nodes.ready([leader])
        await judged(fleet, outages=[Outage(since, until)])
        assert fleet.moves == 0


async def test_a_leader_that_stood_still_answers_nothing_from_its_old_authority(tmp_path):
    async with running(tmp_path) as fleet:
        leader = await fleet.nodes.leader()
        others = [name for name in fleet.nodes.names if name != leader]
        since = lease_now_s()
        fleet.processes.send(leader, signal.SIGSTOP)
        while (successor := await leader_among(fleet, others)) is None:
            assert lease_now_s() - since < 5.0, "no new leader"
            await asyncio.sleep(0.02)
        url = f"{fleet.nodes.api[successor]}/v1/namespaces/meanwhile"
        status, _ = await fleet.nodes.ask("PUT", url, body={"kind": "open"}, timeout_s=3.0)
        assert status == 201
        fleet.processes.send(leader, signal.SIGCONT)
        # It may know what was written while it stood still, or not know who leads: no third thing.
        url = f"{fleet.nodes.api[leader]}/v1/namespaces/meanwhile?consistency=linearizable"
        status, body = await fleet.nodes.ask("GET", url, timeout_s=3.0)
        assert status in {200, 503}, body
        await fleet.nodes.ready([leader])
        seen = await fleet.nodes.sight(leader)
        assert seen.leader == successor
        await judged(fleet, outages=[Outage(since, lease_now_s())])
        assert fleet.moves == 0
