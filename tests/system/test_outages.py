"""Half a fleet vanishes at once: real processes, and an operator who decides."""

import asyncio
import signal

import aiohttp
import pytest

from bench.demo.ledger import epoch_faults, overlaps
from client.clock import lease_now_s
from tests.client.cli_run import run
from tests.system.running import running

LEASE_S = 3.0
NAMES = [f"executor-{number}" for number in range(1, 13)]
LOST = NAMES[:6]
GAUGE = 'shard_coordinator_mass_failure{namespace="flights"}'


async def shardctl(fleet, *words):
    common = ("--endpoints", ",".join(fleet.nodes.urls), "-n", "flights")
    return await asyncio.to_thread(run, *common, *words)


async def gauges(fleet):
    """The alarm in the metrics of every living node."""
    found = []
    async with aiohttp.ClientSession() as session:
        for url in fleet.nodes.urls:
            try:
                async with session.get(f"{url}/metrics") as answer:
                    text = await answer.text()
            except aiohttp.ClientError:
                continue
            found += [
                line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(GAUGE)
            ]
    return found


async def state(fleet):
    return (await fleet.operator.mass_failure("flights")).state


async def until_state(fleet, wanted, timeout_s):
    deadline = lease_now_s() + timeout_s
    while (now := await state(fleet)) != wanted:
        assert lease_now_s() < deadline, f"{now}, not {wanted}"
        await asyncio.sleep(0.1)


async def kinds(fleet):
    page = await fleet.operator.events("flights", limit=1000)
    return [
        event.kind
        for event in page.events
        if event.kind.startswith(("mass_failure", "executor_lost"))
    ]


async def owners(fleet):
    return {
        view.key: (view.executor, view.epoch) async for view in fleet.operator.shards("flights")
    }


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_of_six_of_twelve_that_vanish_nothing_is_taken_until_they_return_or_by_order(
    tmp_path,
):
    async with running(tmp_path, executors=12, routers=False, lease_s=LEASE_S) as fleet:
        before = await owners(fleet)
        for name in LOST:
            fleet.processes.send(name, signal.SIGSTOP)
        await until_state(fleet, "holding", 2 * LEASE_S)
        await asyncio.sleep(2 * LEASE_S)
        assert await owners(fleet) == before

        # It shows wherever somebody may look.
        assert await gauges(fleet) == ["1.0"] * 3
        assert await kinds(fleet) == ["mass_failure_raised"]
        warned = await shardctl(fleet, "cluster", "check")
        assert (warned.status, "mass_failure of flights holding" in warned.out) == (1, True)
        shown = await shardctl(fleet, "mass-failure", "status", "-o", "json")
        assert (shown.json["silent"], shown.json["total"], shown.json["executors"]) == (
            6,
            12,
            sorted(LOST),
        )

        # They return, one after the other, and nothing has moved.
        for name in LOST:
            fleet.processes.send(name, signal.SIGCONT)
            await asyncio.sleep(0.4)
        await until_state(fleet, "none", 2 * LEASE_S)
        await asyncio.sleep(1.0)
        assert await owners(fleet) == before
        assert await kinds(fleet) == ["mass_failure_raised", "mass_failure_over"]
        assert await gauges(fleet) == ["0.0"] * 3

        # They are gone for good, and so is the leader: the alarm outlives it.
        for name in LOST:
            await fleet.processes.kill(name)
        await until_state(fleet, "holding", 2 * LEASE_S)
        await fleet.nodes.kill(await fleet.nodes.leader())
        await fleet.nodes.ready(fleet.nodes.living)
        await asyncio.sleep(2 * LEASE_S)
        assert await owners(fleet) == before
        assert await gauges(fleet) == ["1.0"] * 2

        # Somebody decides.
        done = await shardctl(fleet, "mass-failure", "proceed", "--yes", "--reason", "rack 4 burnt")
        assert done.status == 0, done.err
        await until_state(fleet, "none", 2 * LEASE_S)
        after = await owners(fleet)
        assert {executor for executor, _ in after.values()} == set(NAMES[6:])
        kept = {key: one for key, one in before.items() if one[0] not in LOST}
        assert {key: after[key] for key in kept} == kept
        told = await kinds(fleet)
        assert told[2:4] == ["mass_failure_raised", "mass_failure_proceeded"]
        assert sorted(told[4:]) == ["executor_lost"] * 6 + ["mass_failure_over"]
        healthy = await shardctl(fleet, "cluster", "check")
        assert "mass_failure" not in healthy.out

        await asyncio.sleep(1.0)
        tenures = fleet.tenures()
        assert overlaps(tenures) == []
        # Who stood still ran on under the epochs it had: it is the same owner, and was all along.
        faults = epoch_faults(tenures)
        assert [one for one in faults if one[0].incarnation != one[1].incarnation] == []
