"""All that the nodes knew is lost: executors that lived on keep or get back every shard."""

import asyncio
import contextlib

import msgspec
import pytest

from client import LeaseState, Operator
from client.errors import ShardCoordinatorError
from coordinator.node import Node
from coordinator.policy import PolicyFields
from coordinator.settings import ApiSettings, NamespaceSettings, NodeSettings, Settings
from tests.client.conftest import POLICY, free_port
from tests.client.fleet import Diary
from tests.waiting import until
from tests.windows import close_window

KEYS = [f"k{number}" for number in range(6)]


@pytest.fixture
def diary():
    return Diary()


class Cold:
    """One node that can be lost with all that it knew, and started again at the same place."""

    def __init__(self, **options):
        self.lease_s = 1.0
        self._settings = Settings(
            node=NodeSettings(name="n1", peers={"n1": f"127.0.0.1:{free_port()}"}),
            api=ApiSettings(bind=f"127.0.0.1:{free_port()}"),
            **options,
        )
        self.endpoints = [f"http://{self._settings.api.bind}"]
        self.operator = Operator(self.endpoints)

    async def start(self):
        self.node = Node(self._settings)
        await self.node.start()
        if self._settings.namespaces:
            return
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(ShardCoordinatorError):
                    await self.operator.create_namespace(
                        "jobs", policy=POLICY | {"lease_ttl_s": self.lease_s}
                    )
                    return
                await asyncio.sleep(0.02)

    async def owners(self):
        return {one.key: (one.executor, one.epoch) async for one in self.operator.shards("jobs")}

    async def close(self):
        await self.operator.close()
        await self.node.stop()


@pytest.fixture
async def cold():
    one = Cold()
    yield one
    await one.close()


@pytest.mark.parametrize(
    ("lease_s", "gone_s"),
    [
        pytest.param(0.8, 1.6, id="after two leases"),
        pytest.param(2.5, 0.0, id="within a lease", marks=pytest.mark.slow),
    ],
)
async def test_total_loss_moves_no_shard(cold, diary, lease_s, gone_s):
    cold.lease_s = lease_s
    await cold.start()
    await close_window([cold.node], "jobs")  # of the first cluster: nobody was there before

    def executor(name):
        return diary.executor(cold.endpoints, "jobs", name)

    async with executor("e1") as one, executor("e2") as two:
        await cold.operator.declare_shards("jobs", KEYS)
        await until(lambda: len(one.running()) + len(two.running()) == len(KEYS), within_s=10)
        before = {"e1": one.running(), "e2": two.running()}
        assert all(before.values())
        lines = len(diary.lines)
        await cold.node.stop()
        await asyncio.sleep(gone_s)
        await cold.start()

        def back():
            after = {"e1": one.running(), "e2": two.running()}
            return all(
                after[name].keys() == held.keys()
                and all(after[name][key] > epoch for key, epoch in held.items())
                for name, held in before.items()
            )

        await until(back, within_s=10)
        owners = await cold.owners()
        assert {key: name for key, (name, _) in owners.items()} == {
            key: name for name, held in before.items() for key in held
        }
        stops = [line for line in diary.lines[lines:] if line[1] == "stop"]
        assert len(stops) == (len(KEYS) if gone_s else 0)


@pytest.mark.slow
async def test_executors_that_are_to_go_on_outlive_the_loss_of_all_nodes_without_a_stop(diary):
    lease_s = 0.8
    policy = POLICY | {"lease_ttl_s": lease_s, "on_lease_loss": "continue"}
    # As in a node's settings: a cluster that starts cold knows of it from the first moment.
    seeded = NamespaceSettings(kind="open", policy=msgspec.convert(policy, PolicyFields))
    cold = Cold(namespaces={"jobs": seeded})
    await cold.start()
    await close_window([cold.node], "jobs")
    async with diary.executor(cold.endpoints, "jobs", "e1") as one:
        await cold.operator.declare_shards("jobs", KEYS)
        await until(lambda: len(one.running()) == len(KEYS), within_s=10)
        before = one.running()
        await cold.node.stop()
        await until(lambda: one.lease_state is LeaseState.CONTINUED)
        await asyncio.sleep(2 * lease_s)
        shards = [shard for (name, _), shard in diary.shards.items() if name == "e1"]
        assert all(shard.may_act() for shard in shards)
        await cold.start()
        await until(lambda: all(one.running()[key] > before[key] for key in KEYS), within_s=10)
        assert all(shard.may_act() for shard in shards)
        assert one.lease_state is LeaseState.CONNECTED
        assert [line for line in diary.lines if line[1] == "stop"] == []
    await cold.close()
