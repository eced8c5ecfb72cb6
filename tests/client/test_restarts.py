"""Executors that come back under their name, against a real node: so do their shards."""

import asyncio
import contextlib
import sys
import time

import pytest

from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEASE_S = 8.0  # far beyond what a restart may take with a proof of death
KEYS = [f"k{number}" for number in range(8)]

PROCESS = """
import asyncio, sys
from client import Executor

async def main(url, namespace, folder):
    executor = Executor([url], namespace=namespace, name="e1", lock_dir=folder,
                        on_start=lambda _: None, on_stop=lambda _: None)
    async with executor:
        while True:
            print(*executor.running(), flush=True)
            await asyncio.sleep(0.05)

asyncio.run(main(*sys.argv[1:]))
"""


@contextlib.asynccontextmanager
async def process(cluster, namespace, folder):
    """The executor e1 in a process of its own, which ends with its pipe."""
    one = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROCESS, cluster.endpoints[0], namespace, str(folder)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            one.kill()
        await one.wait()
        one._transport.close()


async def line_with(one, count):
    async with asyncio.timeout(15):
        while len(keys := (await one.stdout.readline()).split()) < count:
            assert not one.stdout.at_eof()
        return {key.decode() for key in keys}


async def placed(operator, namespace):
    """Who owns what, in which epoch."""
    return {one.key: (one.executor, one.epoch) async for one in operator.shards(namespace)}


async def all_placed(operator, namespace):
    """The same, once every shard has an owner; each of two executors has some."""
    for _ in range(200):
        found = await placed(operator, namespace)
        owners = {who for who, _ in found.values()}
        if None not in owners:
            break
        await asyncio.sleep(0.02)
    assert owners == {"e1", "e2"}
    return found


def of(placement, executor):
    return {key: epoch for key, (who, epoch) in placement.items() if who == executor}


@pytest.fixture
def executor(cluster, namespace, diary):
    def made(name, **options):
        return diary.executor(cluster.endpoints, namespace, name, **options)

    return made


@pytest.mark.parametrize("is_proven", [True, False])
async def test_after_a_crash_a_proof_of_death_brings_the_shards_back_within_a_second(
    cluster, operator, namespace, executor, *, tmp_path, is_proven
):
    await operator.change_policy(namespace, {"lease_ttl_s": LEASE_S})
    await operator.declare_shards(namespace, KEYS[:4])
    async with process(cluster, namespace, tmp_path) as crashed:
        await line_with(crashed, 4)
        async with executor("e2") as other:
            await operator.declare_shards(namespace, KEYS)
            before = await all_placed(operator, namespace)
            own, kept = of(before, "e1"), of(before, "e2")
            await until(lambda: other.running() == kept)
            await line_with(crashed, len(own))
            crashed.kill()
            await crashed.wait()
            since = time.monotonic()
            async with executor("e1", lock_dir=tmp_path if is_proven else None) as again:
                if not is_proven:
                    await asyncio.sleep(0.8)
                    assert again.running() == {}
                    return
                await until(lambda: again.running().keys() == own.keys(), within_s=3)
                assert time.monotonic() - since < 1.0
                assert all(epoch > own[key] for key, epoch in again.running().items())
                assert other.running() == kept


async def test_two_live_processes_under_one_name_never_overlap_whatever_the_lock_says(
    cluster, operator, namespace, executor, tmp_path
):
    await operator.change_policy(namespace, {"lease_ttl_s": LEASE_S})
    await operator.declare_shards(namespace, KEYS[:4])
    async with process(cluster, namespace, tmp_path) as first:
        own = await line_with(first, 4)
        async with executor("e1", lock_dir=tmp_path) as second:
            # The first is told that it is superseded, stops, and says that it has.
            await until(lambda: set(second.running()) == own, within_s=LEASE_S / 2)
            assert await asyncio.wait_for(first.wait(), 5) != 0


async def test_who_comes_back_in_time_finds_its_shards_and_nothing_moved_meanwhile(
    operator, namespace, executor
):
    await operator.declare_shards(namespace, KEYS)
    async with executor("e2") as other:
        async with executor("e1", back_within_s=20.0, leave_timeout_s=5.0) as leaving:
            await until(lambda: len(other.running()) == 8)
            for key in KEYS[:4]:
                await operator.move_shard(namespace, key, "e1", reason="test")
            await until(lambda: len(leaving.running()) == 4)
            before = leaving.running()
        await asyncio.sleep(0.5)
        assert set(other.running()) == set(KEYS[4:])
        async with executor("e1") as back:
            await until(lambda: set(back.running()) == set(KEYS[:4]))
            assert all(back.running()[key] > before[key] for key in KEYS[:4])
            assert set(other.running()) == set(KEYS[4:])
