"""The kit against three real nodes: leaders come and go, executors and routers do not notice."""

import asyncio
import time

from client import LeaseState, Operator, Router
from tests.client.conftest import NAMESPACE
from tests.client.fleet import Diary
from tests.waiting import until


async def test_leadership_goes_to_the_node_that_was_named(three_nodes):
    async with Operator(three_nodes.endpoints) as operator:
        before = await operator.cluster()
        target = next(node.node for node in before.nodes if node.node != before.leader)
        await operator.transfer_leadership(target)
        await operator.create_namespace("after", kind="open")
        await until(lambda: three_nodes.nodes[target].leader.is_leading)
        assert (await operator.cluster()).leader == target


async def test_a_lost_leader_stops_no_shard_and_no_look_up(three_nodes):
    diary, endpoints = Diary(), three_nodes.endpoints
    states = []
    async with (
        Operator(endpoints) as operator,
        Router(endpoints, namespace=NAMESPACE) as router,
        diary.executor(endpoints, NAMESPACE, "e1", on_lease=states.append) as executor,
    ):
        # A lease that outlives an election by far: two cores may be busy with other tests.
        await operator.change_policy(NAMESPACE, {"lease_ttl_s": 6.0})
        await operator.declare_shards(NAMESPACE, ["a", "b"])
        await until(lambda: len(executor.running()) == 2 and len(router) == 2)
        await asyncio.sleep(0.5)  # a heartbeat under the new lease
        leader = (await operator.cluster()).leader
        await three_nodes.stop(leader)
        stopped_at = time.monotonic()
        assert (await router.lookup("c", timeout_s=10)).executor == "e1"
        assert time.monotonic() - stopped_at < 5
        await until(lambda: set(executor.running()) == {"a", "b", "c"})
        await until(lambda: executor.lease_state is LeaseState.CONNECTED)
        assert LeaseState.LOST not in states
        assert [line for line in diary.lines if line[1] == "stop"] == []
        await until(lambda: router.owner("c") is not None)
        assert not router.is_stale
