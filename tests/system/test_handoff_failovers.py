"""The leader is killed in the midst of a handoff: it completes or is given up, never both."""

import asyncio
import contextlib
import itertools
import random
import time

import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from client import Executor, Operator, ShardCoordinatorError
from tests.waiting import until

NAMESPACE = "moved"
KEY = "orders"
LEASE_S = 2.0
POLICY = {
    "lease_ttl_s": LEASE_S,
    "heartbeat_interval_s": 0.3,
    "initial_hold_s": 0.2,
    "balancer": {"mode": "off"},
    "handoff": {"warmup": True, "release_timeout_s": 1.0},
}
SETTLED_S = 15.0
"""An election, two deadlines, and the end of a lease."""
FROM_S = (0.0, 0.02)
"""After the order: within a handoff that nothing holds up."""


class Party:
    """An executor whose callbacks stop where the test says, and who wrote down what it ran."""

    def __init__(self, endpoints, name):
        self.name = name
        self.gates = {what: asyncio.Event() for what in ("prepare", "start", "stop")}
        for gate in self.gates.values():
            gate.set()
        self.reached = {what: asyncio.Event() for what in self.gates}
        self.spans = []  # [epoch, started at, may act no more from]
        self.shard = None
        self.executor = Executor(
            endpoints,
            namespace=NAMESPACE,
            name=name,
            host=name,
            on_prepare=self._prepare,
            on_start=self._start,
            on_stop=self._stop,
            leave_timeout_s=0.5,
        )

    async def _through(self, what):
        self.reached[what].set()
        await self.gates[what].wait()

    async def _prepare(self, _):
        await self._through("prepare")

    async def _start(self, shard):
        self.shard = shard
        await self._through("start")
        self.spans.append([shard.epoch, time.monotonic(), None])

    async def _stop(self, shard):
        try:
            await self._through("stop")
        finally:
            if self.spans and self.spans[-1][2] is None:
                # It goes on with its last work until here, or until its lease forbids it.
                self.spans[-1][2] = min(time.monotonic(), time.monotonic() + shard.lease_left_s)

    @property
    def runs(self):
        return KEY in self.executor.running() and self.shard is not None and self.shard.may_act()


@contextlib.asynccontextmanager
async def moving(folder):
    """Three nodes and two executors, of which the first owns the shard."""
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes)
        operator = Operator(nodes.urls)
        try:
            await nodes.start_all()
            await operator.create_namespace(NAMESPACE, kind="open", policy=POLICY)
            one, two = Party(nodes.urls, "one"), Party(nodes.urls, "two")
            async with one.executor:
                await operator.declare_shards(NAMESPACE, [KEY])
                await until(lambda: one.runs, SETTLED_S)
                async with two.executor:
                    yield nodes, operator, one, two
                    for party in (one, two):
                        for gate in party.gates.values():
                            gate.set()
        finally:
            await operator.close()
            await nodes.close()


async def settled(operator):
    """The shard, once it is owned and nothing is under way."""
    end = time.monotonic() + SETTLED_S
    while time.monotonic() < end:
        with contextlib.suppress(ShardCoordinatorError):
            shard = await operator.shard(NAMESPACE, KEY)
            if shard.state == "owned":
                return shard
        await asyncio.sleep(0.05)
    raise AssertionError("the handoff is still open")


def assert_one_at_a_time(one, two):
    spans = sorted(
        [epoch, began, ended, party.name]
        for party in (one, two)
        for epoch, began, ended in party.spans
    )
    for (epoch, _, ended, who), (later, began, _, whom) in itertools.pairwise(spans):
        assert later > epoch
        assert ended is not None, f"{who} still runs what {whom} has under {later}"
        assert began >= ended, f"{whom} began {ended - began:.3f} s before {who} ended"


async def judged(operator, one, two):
    """Whoever is on record runs the shard under the epoch on record, and nobody else does."""
    shard = await settled(operator)
    owner, other = (one, two) if shard.executor == "one" else (two, one)
    await until(lambda: owner.runs and owner.executor.running()[KEY] == shard.epoch, SETTLED_S)
    assert not other.runs
    assert_one_at_a_time(one, two)
    return shard


@pytest.mark.parametrize(
    ("phase", "stands"),
    [
        pytest.param("preparing", ("two", "prepare"), marks=pytest.mark.slow),
        ("releasing", ("one", "stop")),
        pytest.param("granted", ("two", "start"), marks=pytest.mark.slow),
    ],
)
async def test_a_leader_killed_in_a_phase_leaves_one_owner(tmp_path, phase, stands):
    async with moving(tmp_path) as (nodes, operator, one, two):
        party = {"one": one, "two": two}[stands[0]]
        party.gates[stands[1]].clear()
        before = (await operator.shard(NAMESPACE, KEY)).epoch
        await operator.move_shard(NAMESPACE, KEY, "two", reason="test")
        await until(party.reached[stands[1]].is_set, SETTLED_S)
        if phase == "preparing":
            assert one.runs  # make before break: the source serves until the target is warm
        await nodes.kill(await nodes.leader())
        await asyncio.sleep(0.2)
        party.gates[stands[1]].set()
        shard = await judged(operator, one, two)
        assert shard.epoch > before or shard.executor == "one"


@pytest.mark.slow
async def test_a_leader_killed_while_a_stop_hangs_gives_the_shard_at_the_end_of_its_own_lease(
    tmp_path,
):
    async with moving(tmp_path) as (nodes, operator, one, two):
        one.gates["stop"].clear()
        await operator.move_shard(NAMESPACE, KEY, "two", reason="test")
        await until(one.reached["stop"].is_set, SETTLED_S)
        await asyncio.sleep(1.3)  # beyond the deadline: the release is overdue
        await nodes.kill(await nodes.leader())
        await until(lambda: two.runs, SETTLED_S)
        assert not one.runs
        assert one.shard.lease_left_s == 0.0
        one.spans[-1][2] = two.spans[-1][1]  # it hangs still, and may do nothing
        await judged(operator, one, two)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_leaders_killed_at_random_moments_of_handoffs_leave_one_owner_each_time(tmp_path):
    rng = random.Random(5)
    async with moving(tmp_path) as (nodes, operator, one, two):
        for _ in range(10):
            shard = await settled(operator)
            leader = await nodes.leader()
            target = "two" if shard.executor == "one" else "one"
            moving_there = asyncio.create_task(
                operator.move_shard(NAMESPACE, KEY, target, reason="test")
            )
            await asyncio.sleep(rng.uniform(*FROM_S))
            await nodes.kill(leader)
            with contextlib.suppress(ShardCoordinatorError):
                await moving_there
            await judged(operator, one, two)
            await nodes.start(leader)
            await nodes.ready([leader])
