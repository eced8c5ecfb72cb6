"""As a user writes them: a service that knows nothing of tests, and what is tested of it.

Collected by `test_plugin.py` alone, in a pytest of its own.
"""

from typing import Self

import pytest

from client import Executor, Router, Shard
from client.testing import LocalCluster, LoneShard, freeze


class Counters:
    """A service that counts per shard, on whichever of its processes owns the shard."""

    def __init__(self, endpoints: list[str], name: str) -> None:
        self.counts: dict[str, int] = {}
        self.shards: dict[str, Shard] = {}
        self._executor = Executor(
            endpoints,
            namespace="counters",
            name=name,
            address=f"{name}:80",
            on_start=self.open,
            on_stop=self.close,
        )

    async def __aenter__(self) -> Self:
        await self._executor.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._executor.__aexit__(None, None, None)

    async def open(self, shard: Shard) -> None:
        self.shards[shard.key] = shard
        self.counts[shard.key] = 0

    def close(self, shard: Shard) -> None:  # a plain function: called in a thread
        del self.shards[shard.key]

    def count(self, key: str) -> int:
        self.shards[key].require_owned()
        self.counts[key] += 1
        return self.counts[key]


def where(router: Router, key: str) -> str:
    """Code that only asks for owners."""
    owner = router.owner(key)
    return "nowhere" if owner is None else owner.address


pytestmark = pytest.mark.shard_cluster(namespace="counters")


async def test_a_service_counts_what_it_owns(shard_cluster: LocalCluster) -> None:
    async with Counters(shard_cluster.endpoints, "a") as service:
        await shard_cluster.declare("clicks")
        assert [service.count("clicks"), service.count("clicks")] == [1, 2]


async def test_a_shard_that_moved_is_counted_elsewhere(shard_cluster: LocalCluster) -> None:
    async with (
        Counters(shard_cluster.endpoints, "a") as a,
        Counters(shard_cluster.endpoints, "b") as b,
    ):
        await shard_cluster.declare("clicks")
        to, source, target = ("a", b, a) if "clicks" in b.shards else ("b", a, b)
        await shard_cluster.move("clicks", to)
        assert target.count("clicks") == 1
        assert "clicks" not in source.shards


async def test_an_outage_of_ten_minutes_stops_the_service_and_it_comes_back(
    shard_cluster: LocalCluster,
) -> None:
    async with Counters(shard_cluster.endpoints, "a") as service:
        await shard_cluster.declare("clicks")
        shard_cluster.down()
        await shard_cluster.advance(600)
        assert not service.shards
        shard_cluster.up()
        await shard_cluster.until(lambda: "clicks" in service.shards)


async def test_an_executor_whose_heartbeats_are_lost_stops_before_another_starts(
    shard_cluster: LocalCluster,
) -> None:
    async with (
        Counters(shard_cluster.endpoints, "a") as a,
        Counters(shard_cluster.endpoints, "b") as b,
    ):
        await shard_cluster.declare("clicks")
        owner = shard_cluster.owners()["clicks"]
        await shard_cluster.expire(owner)
        assert "clicks" in (b if owner == "a" else a).shards


def test_callbacks_can_be_called_by_hand() -> None:
    service = Counters(["http://nobody.test"], "a")
    shard = LoneShard("clicks")
    service.shards["clicks"], service.counts["clicks"] = shard, 0
    assert service.count("clicks") == 1


def test_callers_need_no_cluster() -> None:
    router = freeze({"clicks": "a"}, addresses={"a": "10.0.0.1:80"})
    assert where(router, "clicks") == "10.0.0.1:80"
    assert where(router, "views") == "nowhere"
