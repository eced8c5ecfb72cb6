"""As a user writes them with pytest-asyncio: the service is a fixture on top of the kit's.

Collected by `test_plugin.py` alone, in a pytest of its own.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest_asyncio

from client import Executor, Shard
from client.testing import LocalCluster


@pytest_asyncio.fixture
async def started(shard_cluster: LocalCluster) -> AsyncIterator[list[str]]:
    """Which shards a service has started."""
    keys: list[str] = []

    async def start(shard: Shard) -> None:
        keys.append(shard.key)

    async def stop(shard: Shard) -> None:
        keys.remove(shard.key)

    async with Executor(
        shard_cluster.endpoints, namespace="test", name="a", on_start=start, on_stop=stop
    ):
        yield keys


async def test_a_fixture_may_start_the_cluster(
    started: list[str], shard_cluster: LocalCluster
) -> None:
    await shard_cluster.declare("clicks")
    assert started == ["clicks"]


async def test_each_test_has_a_cluster_of_its_own(
    started: list[str], shard_cluster: LocalCluster
) -> None:
    assert started == []
    assert shard_cluster.owners() == {}


async def test_time_is_not_virtual_where_no_cluster_is_asked_for() -> None:
    wall = time.monotonic()
    await asyncio.sleep(0.02)
    assert time.monotonic() - wall >= 0.015
