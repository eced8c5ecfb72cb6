"""Alerts on what really happens: the real coordinator and kit, on virtual time, go wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from client.executor import Executor
from client.shard import Shard
from client.testing import LocalCluster
from tests.metrics.test_alerts import promtool
from tests.system.recording import Recording

pytestmark = [promtool, pytest.mark.slow, pytest.mark.timeout(300)]

CALM: dict[str, object] = {"lease_ttl_s": 60, "heartbeat_interval_s": 20}


def quiet(_shard: Shard) -> None:
    """Nothing to do."""


@contextlib.asynccontextmanager
async def fleet(
    cluster: LocalCluster, count: int, **options: Any
) -> AsyncIterator[dict[str, Executor]]:
    async with contextlib.AsyncExitStack() as stack:
        made = {}
        for number in range(1, count + 1):
            name = f"e{number}"
            executor = cluster.executor(name, **{"on_start": quiet, "on_stop": quiet, **options})
            made[name] = await stack.enter_async_context(executor)
        yield made


async def test_a_fleet_that_is_well_fires_nothing_through_a_drain_and_a_move(
    tmp_path: Path,
) -> None:
    async with (
        LocalCluster(namespace="orders", shard_count=12, policy=CALM) as cluster,
        fleet(cluster, 4),
    ):
        recording = Recording(cluster)
        await recording.go_on(5)
        await cluster.operator().drain_executor("orders", "e1", reason="kernel")
        await cluster.until(lambda: "e1" not in cluster.owners().values())
        await recording.go_on(15)
        recording.demand(tmp_path)


async def test_shards_without_executors_are_unassigned(tmp_path: Path) -> None:
    async with LocalCluster(namespace="orders", shard_count=3) as cluster:
        recording = Recording(cluster)
        await recording.go_on(4)
        recording.demand(tmp_path, "Unassigned")


async def test_half_of_a_fleet_gone_silent_is_a_mass_failure(tmp_path: Path) -> None:
    async with (
        LocalCluster(namespace="orders", shard_count=8, policy=CALM) as cluster,
        fleet(cluster, 6),
    ):
        recording = Recording(cluster)
        await recording.go_on(2)
        for name in ("e1", "e2", "e3"):
            cluster.drop_heartbeats(name)
        await recording.go_on(4)
        recording.demand(tmp_path, "MassFailure", "HeartbeatsLate")
        for name in ("e1", "e2", "e3"):
            cluster.heal(name)


async def test_executors_lost_one_by_one_are_told_and_their_shards_are_not_unassigned(
    tmp_path: Path,
) -> None:
    async with (
        LocalCluster(
            namespace="orders", shard_count=12, policy={"poison_threshold": None}
        ) as cluster,
        fleet(cluster, 8),
    ):
        recording = Recording(cluster)
        await recording.go_on(2)
        for name in ("e1", "e2", "e3", "e4"):
            await cluster.expire(name)
            await recording.go_on(1)
        await recording.go_on(3)
        recording.demand(tmp_path, "ExecutorsLost")


async def test_a_stop_that_hangs_is_a_handoff_that_is_stuck(tmp_path: Path) -> None:
    stuck = asyncio.Event()

    async def hang(_shard: Shard) -> None:
        await stuck.wait()

    policy = {"handoff": {"release_timeout_s": 600}}
    async with (
        LocalCluster(namespace="orders", shard_count=2, policy=policy) as cluster,
        fleet(cluster, 2, on_stop=hang),
    ):
        recording = Recording(cluster)
        source = cluster.owners()["0"]
        target = "e2" if source == "e1" else "e1"
        await cluster.operator().move_shard("orders", "0", target, reason="test")
        await recording.go_on(5)
        recording.demand(tmp_path, "HandoffStuck")
        stuck.set()


async def test_a_shard_that_nobody_can_start_is_parked_and_told(tmp_path: Path) -> None:
    def start(shard: Shard) -> None:
        if shard.key == "3":
            raise ValueError("this tenant's data is broken")

    async with (
        LocalCluster(namespace="orders", shard_count=30, policy=CALM) as cluster,
        fleet(cluster, 3, on_start=start),
    ):
        recording = Recording(cluster)
        await recording.go_on(15)
        assert "3" not in cluster.owners()
        recording.demand(tmp_path, "Poison")


async def test_a_heavy_shard_and_a_mark_that_is_passed_are_told_as_what_they_are(
    tmp_path: Path,
) -> None:
    policy = CALM | {
        "balancer": {"mode": "on", "high_mark": 0.5, "smoothing_horizon_s": 120, "cooldown_s": 5},
    }
    loads = {str(number): 0.05 for number in range(9)} | {"0": 2.0}
    async with (
        LocalCluster(namespace="orders", shard_count=9, policy=policy, seed=1) as cluster,
        fleet(cluster, 3, loads=lambda: loads),
    ):
        recording = Recording(cluster)
        await recording.go_on(25)
        # More executors do not help: that is said, and no number of them is named.
        recording.demand(tmp_path, "BlockedByFloor")


async def test_a_fleet_too_small_for_its_load_is_told(tmp_path: Path) -> None:
    policy = CALM | {"balancer": {"mode": "on", "high_mark": 0.5, "smoothing_horizon_s": 120}}
    loads = {str(number): 0.1 for number in range(30)}
    async with (
        LocalCluster(namespace="orders", shard_count=30, policy=policy) as cluster,
        fleet(cluster, 4, loads=lambda: loads),
    ):
        recording = Recording(cluster)
        await recording.go_on(22)
        recording.demand(tmp_path, "CapacityShort")
