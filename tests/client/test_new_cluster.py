"""Other nodes answer, which remember nothing: what an executor says to them, and what it obeys."""

import asyncio

import pytest

from client import LeaseState
from client.testing import LocalCluster
from tests.client.seam import TTL_S, Seam, refusal
from tests.waiting import until


@pytest.fixture
async def seam(virtual_time):
    one = Seam(virtual_time)
    one.assign(a=(5, "run"), b=(6, "run"))
    return one


RECOVERING = refusal(503, "recovering", retry_after_s=0.01)


def new_cluster(seam):
    """Other nodes answer from now on; the window for claims is open."""
    seam.cluster, seam.revision = "c2", 3
    seam.refuse_polls = RECOVERING
    seam.duties = {}


async def test_what_runs_goes_on_through_the_window_and_gets_its_new_epoch_in_place(seam, diary):
    async with seam.executor(diary) as executor:
        await until(lambda: len(executor.running()) == 2)
        shard, incarnation = diary.shards["e1", "a"], executor.incarnation
        new_cluster(seam)
        seen, polls = len(seam.beats), len(seam.polls)
        await until(lambda: len(seam.beats) > seen + 5 and len(seam.polls) > polls + 5)
        claims = seam.beats[-1]
        assert {key: held["epoch"] for key, held in claims["shards"].items()} == {"a": 5, "b": 6}
        assert claims["incarnation"] == incarnation
        assert "joining" not in claims
        assert shard.may_act()
        seam.assign(a=(50, "run"), b=(60, "run"))
        seam.refuse_polls = None
        await until(lambda: executor.running() == {"a": 50, "b": 60})
        assert shard.epoch == 50
        assert shard.may_act()
        assert [line for line in diary.lines if line[1] == "stop"] == []


async def test_sets_of_the_cluster_that_was_are_not_obeyed_any_more(seam, diary):
    async with seam.executor(diary) as executor:
        await until(lambda: len(executor.running()) == 2)
        new_cluster(seam)
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) > seen + 2)
        seam.on_beat = lambda: setattr(seam, "cluster", "c2")
        former = seam._poll

        async def of_the_former(url):
            seam.cluster, seam.refuse_polls, seam.revision = "c1", None, 99
            try:
                return await former(url)
            finally:
                seam.cluster, seam.revision = "c2", 3

        seam._poll = of_the_former
        polls = len(seam.polls)
        await until(lambda: len(seam.polls) > polls + 3)
        assert executor.running() == {"a": 5, "b": 6}


async def test_the_loser_of_a_conflict_stops_when_its_set_says_so(seam, diary):
    async with seam.executor(diary) as executor:
        await until(lambda: len(executor.running()) == 2)
        shard = diary.shards["e1", "b"]
        new_cluster(seam)
        seam.assign(a=(50, "run"))
        seam.refuse_polls = None
        await until(lambda: executor.running() == {"a": 50})
        assert not shard.may_act()


async def test_what_was_given_up_for_want_of_a_lease_is_told_until_a_set_arrives(seam, diary):
    async with seam.executor(diary) as executor:
        await until(lambda: len(executor.running()) == 2)
        seam.is_down = True
        seam.clock.skip(2 * TTL_S)
        await until(lambda: executor.lease_state is LeaseState.LOST and not executor.running())
        new_cluster(seam)
        seam.is_down = False
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) > seen + 5)
        for beat in seam.beats[seen + 1 :]:
            assert (beat["shards"], beat["last_held"]) == ({}, {"a": 5, "b": 6})
        seam.assign(a=(50, "run"), b=(60, "run"))
        seam.refuse_polls = None
        await until(lambda: executor.running() == {"a": 50, "b": 60})
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) > seen + 2)
        assert "last_held" not in seam.beats[-1]


async def test_the_end_of_a_long_window_is_noticed_soon(seam, diary):
    seam.refuse_polls = RECOVERING
    async with seam.executor(diary) as executor:
        await until(lambda: len(seam.polls) > 30)
        seam.refuse_polls = None
        async with asyncio.timeout(0.3):
            await until(lambda: len(executor.running()) == 2)


async def test_a_lease_that_was_made_longer_by_order_is_waited_for_as_somebody_tells_of_it(diary):
    """Nobody hears the one that holds it: the cluster that knew how long it may act is gone."""
    async with (
        LocalCluster(shard_count=2, policy={"lease_ttl_s": 10.0}) as cluster,
        diary.executor(cluster.endpoints, "test", "e1") as one,
        diary.executor(cluster.endpoints, "test", "e2") as two,
    ):
        await cluster.place({"0": "e1", "1": "e2"})
        await cluster.operator().change_policy("test", {"lease_ttl_s": 40.0})
        await cluster.advance(5.0)
        cut_at, shard = cluster.now(), diary.shards["e2", "1"]
        cluster.cut("e2")
        await cluster.forget()
        await cluster.advance(1.0)
        while shard.may_act():
            assert cluster.owners().get("1") != "e1"
            assert one.owned("1") is None
            await cluster.advance(0.5)
        assert cluster.now() - cut_at > 30.0
        assert two.lease_state is LeaseState.LOST
        await cluster.until(lambda: one.owned("1"))
        assert cluster.now() - cut_at < 45.0
        cluster.heal("e2")
