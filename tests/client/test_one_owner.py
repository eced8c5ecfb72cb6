"""Executors that are cut off, hung and drained at random: at no instant may two act on a shard."""

import asyncio
import contextlib
import random

import pytest

from client import ShardCoordinatorError
from client.testing import LocalCluster
from tests.client.conftest import POLICY

KEYS = [f"k{number}" for number in range(12)]
NAMES = ("e1", "e2", "e3")
SECONDS = 10.0
LOOK_S = 0.005


class Witness:
    """Every handle that was ever given out, and who may act on what."""

    def __init__(self):
        self.handles = {}
        self.looks = 0
        self.seen = set()
        self.epochs = {}

    def note(self, executor, shard):
        self.handles.setdefault(shard.key, {})[executor, id(shard)] = shard
        assert shard.epoch >= self.epochs.get(shard.key, 0), "epochs only grow"
        self.epochs[shard.key] = shard.epoch

    async def watch(self):
        while True:
            for key, handles in self.handles.items():
                acting = [who for who, shard in handles.items() if shard.may_act()]
                assert len(acting) <= 1, f"{key}: {acting}"
                self.seen.update((key, who[0]) for who in acting)
            self.looks += 1
            await asyncio.sleep(LOOK_S)


async def disturb(rng, cluster):
    operator, namespace = cluster.operator(), cluster.namespace
    end = cluster.now() + SECONDS
    while cluster.now() < end:
        match rng.randrange(4):
            case 0:
                name = rng.choice(NAMES)
                cluster.cut(name)
                asyncio.get_running_loop().call_later(
                    rng.choice([0.3, 1.0, 2.5]), cluster.heal, name
                )
            case 1 | 2:
                key, name = rng.choice(KEYS), rng.choice(NAMES)
                with contextlib.suppress(ShardCoordinatorError):  # gone, or moving already
                    await operator.move_shard(namespace, key, name, reason="test")
            case _:
                host = f"host-{rng.choice(NAMES)}"
                drain = await operator.drain_host(namespace, host, reason="test", force=True)
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                assert drain.id
                await operator.undrain_host(namespace, host)
        await asyncio.sleep(rng.uniform(0.0, 0.2))


@pytest.mark.parametrize("seed", [1, 2])
async def test_at_no_instant_two_executors_may_act_on_a_shard(seed):
    rng = random.Random(seed)
    witness = Witness()

    def executor(cluster, name):
        async def start(shard):
            witness.note(name, shard)
            await asyncio.sleep(rng.choice([0.0, 0.0, 0.05, 0.3]))

        async def stop(_):
            await asyncio.sleep(rng.choice([0.0, 0.0, 0.05, 2.0]))

        return cluster.executor(name, on_start=start, on_stop=stop, leave_timeout_s=0.5)

    async with LocalCluster(policy=POLICY, seed=seed) as cluster:
        await cluster.declare(*KEYS)
        async with (
            executor(cluster, "e1") as e1,
            executor(cluster, "e2") as e2,
            executor(cluster, "e3") as e3,
        ):
            watching = asyncio.create_task(witness.watch())
            await disturb(rng, cluster)
            for name in NAMES:
                cluster.heal(name)

            def everything_runs_once():
                running = [key for one in (e1, e2, e3) for key in one.running()]
                return sorted(running) == sorted(KEYS)

            await cluster.until(everything_runs_once, within_s=15)
            assert not watching.done(), watching.exception()
            watching.cancel()
    assert witness.looks > SECONDS / LOOK_S / 2
    assert len(witness.seen) > len(KEYS)  # shards did change hands
