"""Fleets through outages, on virtual time: what goes on, what stops, who comes back and how."""

import contextlib
import json
from collections import Counter

import pytest

from client import LeaseState
from client.testing import LocalCluster

OUTAGE_S = 600.0
STEADY_S = 20.0
HERD_MAX = 3.0
"""Requests in any second after an election, over those of a steady second."""


async def nothing(_shard):
    pass


async def fleet(stack, cluster, executors, routers):
    """A fleet whose members came one after the other, over the time of an executor's poll."""
    made = [
        cluster.executor(f"e{number}", on_start=nothing, on_stop=nothing, leave_timeout_s=0.1)
        for number in range(executors)
    ]
    for one in made:
        await stack.enter_async_context(one)
        await cluster.advance(5.0 / executors)
    asking = [cluster.router() for _ in range(routers)]
    for router in asking:
        await stack.enter_async_context(router)
        await cluster.advance(5.0 / routers)
    await cluster.until(lambda: all(router.is_ready for router in asking))
    return made, asking


@pytest.mark.parametrize("on_lease_loss", ["stop", "continue"])
async def test_ten_minutes_without_a_coordinator(on_lease_loss):
    keys = [f"tenant-{number}" for number in range(20)]
    policy = {"initial_hold_s": 0, "on_lease_loss": on_lease_loss, "balancer": {"mode": "off"}}
    async with LocalCluster(policy=policy) as cluster, contextlib.AsyncExitStack() as stack:
        executors, routers = await fleet(stack, cluster, 6, 4)
        await cluster.declare(*keys)
        await cluster.settle()
        owners = cluster.owners()
        assert len(owners) == len(keys)
        cluster.down()
        for _ in range(20):
            await cluster.advance(OUTAGE_S / 20)
            for router in routers:
                assert {key: router.owner(key).executor for key in keys} == owners
        acting = sum(one.owned(key) is not None for one in executors for key in keys)
        if on_lease_loss == "stop":
            assert {one.lease_state for one in executors} == {LeaseState.LOST}
            assert acting == 0
            assert not any(one.running() for one in executors)
        else:
            assert {one.lease_state for one in executors} == {LeaseState.CONTINUED}
            assert acting == len(keys)
        cluster.up()
        await cluster.advance(25)
        assert {one.lease_state for one in executors} == {LeaseState.CONNECTED}
        assert cluster.owners() == owners
        assert sum(len(one.running()) for one in executors) == len(keys)
        assert not any(router.is_stale for router in routers)


@pytest.mark.parametrize(
    ("executors", "routers"), [(30, 30), pytest.param(1000, 1000, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(600)
async def test_a_fleet_that_loses_its_leader_is_no_herd(executors, routers):
    """Nobody hears anything worse than `no_leader`, and nobody asks much more than ever."""
    async with (
        LocalCluster(time_limit_s=7200) as cluster,
        contextlib.AsyncExitStack() as stack,
    ):
        await fleet(stack, cluster, executors, routers)
        await cluster.declare(*(f"tenant-{number}" for number in range(executors)))
        by_second, refused = Counter(), Counter()

        def observe(_what, answer):
            by_second[int(cluster.now())] += 1
            if answer is not None and answer.status >= 500:
                refused[json.loads(answer.body)["reason"]] += 1

        cluster.wire.observe = observe
        await cluster.advance(STEADY_S)
        steady_per_s = sum(by_second.values()) / STEADY_S
        by_second.clear()
        await cluster.elect(1.5)
        await cluster.advance(STEADY_S)
        cluster.wire.observe = lambda _what, _answer: None
        assert set(refused) == {"no_leader"}
        assert max(by_second.values()) <= HERD_MAX * steady_per_s, (by_second, steady_per_s)
