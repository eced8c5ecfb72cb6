"""What a leader has learned of loads outlives it: three real processes, one of them killed."""

import asyncio
import contextlib

import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from client import Executor, Operator
from coordinator.core.controller.load_record import PERIOD_S
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NAMESPACE = "loads"
HEAVY, LIGHT, AFTER = 4.0, 1.0, 2.0
HORIZON_S = 60.0
LISTENS_S = HORIZON_S / 2
"""For so long a leader that knows nothing listens before it balances."""
POLICY = {
    "lease_ttl_s": 3.0,
    "heartbeat_interval_s": 0.5,
    "initial_hold_s": 0.5,
    "balancer": {"mode": "dry_run", "interval_s": 1.0, "smoothing_horizon_s": HORIZON_S},
}


async def nothing(_shard):
    pass


async def test_a_new_leader_knows_the_loads_that_the_former_one_learned(tmp_path):
    levels = {"heavy": HEAVY, "light": LIGHT}
    async with contextlib.AsyncExitStack() as stack:
        nodes = Nodes(tmp_path, await stack.enter_async_context(Processes(tmp_path)))
        stack.push_async_callback(nodes.close)
        await nodes.start_all()
        operator = await stack.enter_async_context(Operator(nodes.urls))
        await operator.create_namespace(NAMESPACE, kind="open", policy=POLICY)
        for number in (1, 2):
            await stack.enter_async_context(
                Executor(
                    nodes.urls,
                    namespace=NAMESPACE,
                    name=f"e{number}",
                    on_start=nothing,
                    on_stop=nothing,
                    loads=lambda: levels,
                    leave_timeout_s=0.5,
                )
            )
        await operator.declare_shards(NAMESPACE, levels)

        async def load_of(key):
            return (await operator.shard(NAMESPACE, key)).load

        async def is_balancing():
            view = await operator.balance(NAMESPACE)
            return view.last_pass is not None and view.skipped is None

        await until(is_balancing, LISTENS_S + 30.0)
        await asyncio.sleep(PERIOD_S)  # from one record of all loads to the next
        before = {key: await load_of(key) for key in levels}
        assert before == {"heavy": pytest.approx(HEAVY), "light": pytest.approx(LIGHT)}

        # Whoever knows only what is said from now on thinks that both are alike.
        levels.update(heavy=AFTER, light=AFTER)
        await nodes.kill(await nodes.leader())
        await nodes.first_write("after")
        async with asyncio.timeout(LISTENS_S / 2):
            await until(is_balancing)
        assert await load_of("heavy") > (HEAVY + AFTER) / 2
        assert await load_of("light") < (LIGHT + AFTER) / 2
