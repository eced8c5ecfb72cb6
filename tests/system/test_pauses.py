"""Nodes that stand still and wake again, and nodes that are killed: no old authority is left."""

import asyncio
import contextlib
import signal
import time

import pytest

from bench.cluster import Nodes
from bench.failover.elections import leaders_by_term, rivals
from bench.failover.registers import DEFINITE, Registers
from bench.processes import Processes
from tests.system.cluster import Beats, agree
from tests.waiting import until

ELECTED_S = 3.0
"""Silence is noticed after 0.5 to 1.0 s; a split vote costs a round more."""
ANSWER_S = 10.0


@contextlib.asynccontextmanager
async def written(folder):
    """Three nodes and writers who write through all of them; in the end all agree."""
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes)
        try:
            await nodes.start_all()
            async with Registers(nodes, count=3) as registers:
                yield nodes, processes, registers
                await nodes.ready(nodes.names)
                assert await registers.faults() == []
                await registers.stop()
                await until(lambda: agree(nodes), 10.0)
        finally:
            await nodes.close()
    assert rivals(folder, nodes.names) == []


async def roles(nodes):
    leader = await nodes.leader()
    return leader, [name for name in nodes.names if name != leader]


@pytest.mark.parametrize(
    "stopped_s",
    [2.0, pytest.param(20.0, marks=[pytest.mark.slow, pytest.mark.timeout(120)])],
)
async def test_a_leader_that_stood_still_acknowledges_nothing_of_its_own_when_it_wakes(
    tmp_path, stopped_s
):
    async with written(tmp_path) as (nodes, processes, registers):
        beats = Beats(nodes)
        joined = await beats.join()
        leader, others = await roles(nodes)
        own_register = 0  # the only one that this test writes itself, besides its writer

        processes.send(leader, signal.SIGSTOP)
        stopped_at = time.monotonic()
        # These wait in the sleeper's sockets, and are what it finds when it wakes.
        waiting = [
            asyncio.create_task(registers.write(own_register, leader, ANSWER_S + stopped_s))
            for _ in range(5)
        ]
        beating = [
            asyncio.create_task(beats.send(leader, timeout_s=ANSWER_S + stopped_s))
            for _ in range(5)
        ]
        first = await registers.first_after(stopped_at, ELECTED_S)
        assert first.node in others
        await asyncio.sleep(stopped_at + stopped_s - time.monotonic())
        successor = await nodes.leader()
        assert successor in others
        seen = await nodes.sight(successor)

        processes.send(leader, signal.SIGCONT)
        woken_at = time.monotonic()
        while time.monotonic() - woken_at < 1.0:
            waiting.append(asyncio.create_task(registers.write(own_register, leader, ANSWER_S)))
            beating.append(asyncio.create_task(beats.send(leader)))
            await asyncio.sleep(0.005)
        tries, told = await asyncio.gather(asyncio.gather(*waiting), asyncio.gather(*beating))

        # Refused, or handed on to who leads now: a heartbeat's answer names the term it rests on.
        assert {status for status, _ in told} <= {200, 409, 503}
        assert {term for status, term in told if status == 200} <= {seen.term}
        assert seen.term > joined
        for tried in tries:
            assert tried.is_acknowledged or tried.reason in {*DEFINITE, "outcome_unknown"}, tried
        # What was acknowledged stands in the state of all, and what was refused never does.
        assert await registers.faults() == []
        later = [led for term, led in leaders_by_term(tmp_path, nodes.names).items()
                 if term > joined]  # fmt: skip
        assert {leader} not in later


async def test_a_follower_that_stands_still_holds_up_nobody(tmp_path):
    async with written(tmp_path) as (nodes, processes, registers):
        leader, (sleeper, other) = await roles(nodes)
        term = (await nodes.sight(leader)).term
        processes.send(sleeper, signal.SIGSTOP)
        since = time.monotonic()
        while time.monotonic() - since < 3.0:
            tried = await registers.write(0, leader)
            assert tried.is_acknowledged
            assert tried.ended_at - tried.began_at < 0.4
            await asyncio.sleep(0.05)
        processes.send(sleeper, signal.SIGCONT)
        await nodes.ready(nodes.names)
        assert (await nodes.leader(), (await nodes.sight(other)).term) == (leader, term)


async def test_while_both_followers_stand_still_nothing_is_acknowledged_and_then_all_goes_on(
    tmp_path,
):
    async with written(tmp_path) as (nodes, processes, registers):
        beats = Beats(nodes)
        await beats.join()
        leader, others = await roles(nodes)
        for name in others:
            processes.send(name, signal.SIGSTOP)
        since = time.monotonic()
        while time.monotonic() - since < 2.0:
            status, _ = await beats.send(leader)
            assert status == 503
            await asyncio.sleep(0.05)
        assert not [one for one in registers.tries if one.is_acknowledged and one.began_at > since]
        for name in others:
            processes.send(name, signal.SIGCONT)
        woken_at = time.monotonic()
        await registers.first_after(woken_at, ELECTED_S)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("victim", ["leader", "follower", "every node in turn"])
async def test_one_node_killed_at_a_time_loses_nothing_and_elects_one_leader_a_term(
    tmp_path, victim
):
    async with written(tmp_path) as (nodes, _, registers):
        for number in range(3):
            leader, followers = await roles(nodes)
            match victim:
                case "leader":
                    name = leader
                case "follower":
                    name = followers[number % 2]
                case _:
                    name = nodes.names[number]
            await nodes.kill(name)
            since = time.monotonic()
            first = await registers.first_after(since, ELECTED_S)
            assert first.ended_at - since < ELECTED_S
            assert await registers.faults() == []
            await nodes.start(name)
            await nodes.ready([name])


async def quarantined(nodes, names):
    seen = await asyncio.gather(*[nodes.sight(name) for name in names])
    return [one and one.role_of(name) for one, name in zip(seen, names, strict=True)] == [
        "quarantined"
    ] * len(names)


async def test_two_nodes_that_lost_their_memory_at_once_stay_out_and_say_so(tmp_path):
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        try:
            await nodes.start_all()
            await nodes.first_write("kept")
            leader, others = await roles(nodes)
            for name in others:
                await nodes.kill(name)
            for name in others:
                await nodes.start(name)
            await until(lambda: quarantined(nodes, others), 20.0)
            await asyncio.sleep(1.5)  # longer than any election
            # Neither founds a cluster of its own nor follows: on purpose, nothing is served.
            assert await quarantined(nodes, others)
            for name in nodes.names:
                assert not await nodes.is_ready(name)
            with pytest.raises(TimeoutError):
                await nodes.first_write("must-not-be", timeout_s=1.0)
            status, body = await nodes.ask("GET", f"{nodes.api[leader]}/v1/namespaces", timeout_s=2)
            assert status == 200
            assert b'"kept"' in body
        finally:
            await nodes.close()
