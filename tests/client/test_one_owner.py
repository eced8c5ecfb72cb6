"""Executors that are cut off, hung and drained at random: at no instant may two act on a shard."""

import asyncio
import contextlib
import random
import time

import pytest

from client import ShardCoordinatorError
from tests.client.fleet import Cuttable, Diary
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS = [f"k{number}" for number in range(12)]
SECONDS = 5.0


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
            await asyncio.sleep(0.002)


async def disturb(rng, cables, operator, namespace):
    end = time.monotonic() + SECONDS
    names = sorted(cables)
    while time.monotonic() < end:
        match rng.randrange(4):
            case 0:
                cable = cables[rng.choice(names)]
                cable.is_cut = True
                asyncio.get_running_loop().call_later(
                    rng.choice([0.3, 1.0, 2.5]), setattr, cable, "is_cut", False
                )
            case 1 | 2:
                key, name = rng.choice(KEYS), rng.choice(names)
                with contextlib.suppress(ShardCoordinatorError):  # gone, or moving already
                    await operator.move_shard(namespace, key, name, reason="test")
            case _:
                host = f"host-{rng.choice(names)}"
                drain = await operator.drain_host(namespace, host, reason="test", force=True)
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                assert drain.id
                await operator.undrain_host(namespace, host)
        await asyncio.sleep(rng.uniform(0.0, 0.2))


@pytest.mark.parametrize("seed", [1, 2])
async def test_at_no_instant_two_executors_may_act_on_a_shard(cluster, namespace, operator, seed):
    rng = random.Random(seed)
    witness, diary = Witness(), Diary()
    cables = {name: Cuttable() for name in ("e1", "e2", "e3")}

    def executor(name):
        async def start(shard):
            witness.note(name, shard)
            await asyncio.sleep(rng.choice([0.0, 0.0, 0.05, 0.3]))

        async def stop(_):
            await asyncio.sleep(rng.choice([0.0, 0.0, 0.05, 2.0]))

        return diary.executor(
            cluster.endpoints,
            namespace,
            name,
            transport=cables[name],
            on_start=start,
            on_stop=stop,
        )

    await operator.declare_shards(namespace, KEYS)
    async with executor("e1") as e1, executor("e2") as e2, executor("e3") as e3:
        watching = asyncio.create_task(witness.watch())
        await disturb(rng, cables, operator, namespace)
        for cable in cables.values():
            cable.is_cut = False

        def everything_runs_once():
            running = [key for one in (e1, e2, e3) for key in one.running()]
            return sorted(running) == sorted(KEYS)

        await until(everything_runs_once, within_s=15)
        assert not watching.done(), watching.exception()
        watching.cancel()
    assert witness.looks > 200
    assert len(witness.seen) > len(KEYS)  # shards did change hands
