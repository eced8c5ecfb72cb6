"""Executors against a real node, on virtual time: joining, running, losing the lease, leaving."""

import asyncio
import os
import signal
import threading

import pytest

from client import IncarnationClosed, LeaseState, NotFound, TimedOut
from client.lives import START_TRIES_MAX
from client.testing import LocalCluster
from tests.client.conftest import POLICY, free_port
from tests.waiting import until

LEASE_S = POLICY["lease_ttl_s"]


@pytest.fixture
async def cluster():
    async with LocalCluster(namespace="jobs", policy=POLICY) as one:
        yield one


@pytest.fixture
def namespace(cluster):
    return cluster.namespace


@pytest.fixture
def operator(cluster):
    return cluster.operator()


@pytest.fixture
def start(cluster, namespace, diary):
    """An executor of this test's namespace that writes into its diary."""

    def made(name, **options):
        return diary.executor(cluster.endpoints, namespace, name, **options)

    return made


# ------------------------------------------------------------------------ joining and leaving


async def test_an_executor_runs_what_it_is_given_and_is_gone_after_it_left(
    start, diary, operator, namespace
):
    await operator.declare_shards(namespace, ["a", "b/ü"])
    async with start("e1", zone="z", capacity=2.0, version="1", labels={"k": "v"}) as executor:
        await until(lambda: set(executor.running()) == {"a", "b/ü"})
        view = await operator.executor(namespace, "e1")
        assert (view.host, view.address, view.zone) == ("host-e1", "e1:80", "z")
        assert (view.capacity, view.version, view.labels) == (2.0, "1", {"k": "v"})
        assert view.incarnation == executor.incarnation
        assert executor.lease_state is LeaseState.CONNECTED
        assert executor.status == "active"
        assert diary.shards["e1", "a"].may_act()
        assert diary.shards["e1", "a"].epoch == executor.running()["a"]
    assert sorted(diary.lines) == [
        ("e1", "start", "a"),
        ("e1", "start", "b/ü"),
        ("e1", "stop", "a"),
        ("e1", "stop", "b/ü"),
    ]
    assert not diary.shards["e1", "a"].may_act()
    with pytest.raises(NotFound):
        await operator.executor(namespace, "e1")


async def test_an_executor_that_leaves_hands_everything_over_first(
    start, diary, operator, namespace, cluster
):
    keys = [f"k{number}" for number in range(8)]
    await operator.declare_shards(namespace, keys)
    first = start("e1", leave_timeout_s=10.0)
    await first.__aenter__()
    await until(lambda: len(first.running()) == 8)
    async with start("e2") as second:
        began = cluster.now()
        await first.__aexit__(None, None, None)
        assert cluster.now() - began < 2.5  # by handoff, not for want of a taker
        await until(lambda: len(second.running()) == 8)
        for key in keys:
            assert diary.of(key) == [("e1", "start"), ("e1", "stop"), ("e2", "start")]


async def test_an_unknown_namespace_is_told_at_once(cluster, diary):
    with pytest.raises(NotFound) as missing:
        async with diary.executor(cluster.endpoints, "nowhere", "e1"):
            pytest.fail("entered")
    assert missing.value.reason == "namespace_not_found"


async def test_joining_ends_with_its_deadline_and_says_why(diary):
    nobody = [f"http://127.0.0.1:{free_port()}"]
    with pytest.raises(TimedOut, match=r"127\.0\.0\.1"):
        async with diary.executor(nobody, "jobs", "e1", join_timeout_s=0.3):
            pytest.fail("entered")


async def test_an_error_of_the_body_comes_out_after_everything_stopped(
    start, diary, operator, namespace
):
    await operator.declare_shards(namespace, ["a"])

    async def body():
        async with start("e1") as executor:
            await until(executor.running)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]


async def test_a_signal_ends_the_body(start):
    async with start("e1") as executor:
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(5):
            assert await executor.run_until_signalled() is signal.SIGTERM


# ---------------------------------------------------------------------------------- callbacks


async def test_plain_callbacks_run_in_threads(start, diary, operator, namespace):
    await operator.declare_shards(namespace, ["a"])
    plain = {
        "on_start": lambda shard: diary.note("e1", "start", shard),
        "on_stop": lambda shard: diary.note("e1", "stop", shard),
    }
    async with start("e1", **plain) as executor:
        await until(executor.running)
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]
    assert diary.threads == {"shard-callback"}


async def test_callbacks_that_hang_never_hold_up_heartbeats(start, operator, namespace):
    await operator.declare_shards(namespace, ["plain-1", "plain-2", "async-1"])
    release = threading.Event()
    states = []

    def hang(_):
        release.wait(10)

    async with start("e1", on_start=hang, on_lease=states.append, max_concurrent_callbacks=2):
        await asyncio.sleep(1.5 * LEASE_S)
        assert states == [LeaseState.CONNECTED]
        assert (await operator.executor(namespace, "e1")).heartbeat_age_s < 1.0
        release.set()


async def test_a_start_that_fails_is_tried_a_few_times_and_then_reported(
    start, operator, namespace
):
    await operator.declare_shards(namespace, ["bad", "good"])
    tries = []

    async def picky(shard):
        if shard.key == "bad":
            tries.append(shard.epoch)
            raise OSError("no disk")

    async with start("e1", on_start=picky) as executor:
        await until(lambda: len(tries) >= START_TRIES_MAX)
        await asyncio.sleep(0.1)
        assert tries[:START_TRIES_MAX] == [tries[0]] * START_TRIES_MAX
        assert set(executor.running()) == {"good"}


async def test_starts_and_stops_are_bounded(start, operator, namespace):
    await operator.declare_shards(namespace, [f"k{number}" for number in range(12)])
    under_way, most = set(), []

    async def slow(shard):
        under_way.add(shard.key)
        most.append(len(under_way))
        await asyncio.sleep(0.02)
        under_way.discard(shard.key)

    bounded = {"on_start": slow, "on_stop": slow, "max_concurrent_callbacks": 3}
    async with start("e1", **bounded) as executor:
        await until(lambda: len(executor.running()) == 12)
    assert len(most) == 24
    assert max(most) == 3


async def test_a_shard_is_prepared_at_its_target_before_it_is_released(
    start, diary, operator, namespace
):
    await operator.change_policy(namespace, {"handoff": {"warmup": True}})
    await operator.declare_shards(namespace, ["a"])

    async def prepare(shard):
        assert not shard.may_act()
        diary.note("e2", "prepare", shard)

    async with start("e1") as first:
        await until(first.running)
        async with start("e2", on_prepare=prepare) as second:
            await operator.move_shard(namespace, "a", "e2", reason="test")
            await until(second.running)
            assert diary.of("a") == [
                ("e1", "start"),
                ("e2", "prepare"),
                ("e1", "stop"),
                ("e2", "start"),
            ]


# ----------------------------------------------------------------------------------- the load


async def until_load(operator, namespace, load):
    async with asyncio.timeout(5):
        while True:
            view = await operator.shard(namespace, "a")
            if view.load == pytest.approx(load):
                return
            await asyncio.sleep(0.05)


async def test_the_load_of_handles_reaches_the_coordinator(start, diary, operator, namespace):
    await operator.declare_shards(namespace, ["a"])
    async with start("e1") as executor:
        await until(executor.running)
        diary.shards["e1", "a"].set_load(0.25)

        await until_load(operator, namespace, 0.25)


async def test_loads_may_come_from_one_function_instead(start, operator, namespace):
    await operator.declare_shards(namespace, ["a"])
    async with start("e1", loads=lambda: {"a": 0.5, "unknown": 1.0, "wrong": -1.0}) as executor:
        await until(executor.running)
        await until_load(operator, namespace, 0.5)


async def test_a_loads_function_that_hangs_or_raises_costs_news_and_no_heartbeat(start):
    release = threading.Event()

    def loads():
        release.wait(10)
        raise OSError("no figures")

    async with start("e1", loads=loads) as executor:
        await asyncio.sleep(1.2 * LEASE_S)
        assert executor.lease_state is LeaseState.CONNECTED
        release.set()


# ---------------------------------------------------------------------------------- the lease


async def test_a_cut_off_executor_has_stopped_before_another_one_starts(
    start, diary, operator, namespace, cluster
):
    await operator.declare_shards(namespace, ["a"])
    states = []
    async with start("e1", on_lease=states.append) as first:
        await until(first.running)
        shard, incarnation = diary.shards["e1", "a"], first.incarnation
        async with start("e2") as second:
            cluster.cut("e1")
            cut_at = cluster.now()
            await until(lambda: not shard.may_act())
            assert cluster.now() - cut_at < LEASE_S
            await until(second.running)
            assert diary.of("a") == [("e1", "start"), ("e1", "stop"), ("e2", "start")]
            assert first.lease_state is LeaseState.LOST
            assert not first.running()
            cluster.heal("e1")
            await until(lambda: first.lease_state is LeaseState.CONNECTED)
            assert first.incarnation != incarnation
            assert states == [
                LeaseState.CONNECTED,
                LeaseState.SUSPENDED,
                LeaseState.LOST,
                LeaseState.CONNECTED,
            ]
            assert (await operator.executor(namespace, "e1")).incarnation == first.incarnation


async def test_permission_ends_with_the_lease_although_the_stop_hangs(
    start, diary, operator, namespace, cluster
):
    await operator.declare_shards(namespace, ["a"])
    hung = asyncio.Event()

    async def hang(shard):
        diary.note("e1", "stop", shard)
        await hung.wait()

    async with start("e1", on_stop=hang) as first:
        await until(first.running)
        shard = diary.shards["e1", "a"]
        async with start("e2") as second:
            cluster.cut("e1")
            await until(second.running)
            assert not shard.may_act()
            assert shard.lease_left_s == 0.0
            cluster.heal("e1")
            await until(lambda: first.lease_state is LeaseState.CONNECTED)
            assert first.running() == {}  # what still stops belongs to the lost incarnation
        hung.set()


async def test_a_short_cut_stops_nothing(start, diary, operator, namespace, cluster):
    await operator.declare_shards(namespace, ["a"])
    states = []
    async with start("e1", on_lease=states.append) as executor:
        await until(executor.running)
        cluster.cut("e1")
        await until(lambda: executor.lease_state is LeaseState.SUSPENDED)
        assert diary.shards["e1", "a"].may_act()
        cluster.heal("e1")
        await until(lambda: executor.lease_state is LeaseState.CONNECTED)
        assert diary.of("a") == [("e1", "start")]


async def test_a_release_that_hangs_ends_with_the_lease_of_its_shard(
    start, diary, operator, namespace
):
    await operator.declare_shards(namespace, ["a", "b"])
    hung = asyncio.Event()

    async def hang(shard):
        diary.note("e1", "stop", shard)
        await hung.wait()

    async with start("e1", on_stop=hang) as first:
        await until(lambda: len(first.running()) == 2)
        async with start("e2") as second:
            await operator.move_shard(namespace, "a", "e2", reason="test")
            await until(second.running)
            assert not diary.shards["e1", "a"].may_act()
            assert diary.shards["e1", "b"].may_act()
            assert first.lease_state is LeaseState.CONNECTED
            hung.set()


async def test_a_stop_that_hangs_over_a_lease_that_was_lost_and_won_again_gives_the_shard_away(
    start, diary, operator, namespace, cluster
):
    await operator.change_policy(namespace, {"lease_ttl_s": 10.0, "heartbeat_interval_s": 1.0})
    await operator.declare_shards(namespace, ["a"])
    states, hung = [], asyncio.Event()

    async def hang(shard):
        diary.note("e1", "stop", shard)
        await hung.wait()

    async with start("e1", on_stop=hang, on_lease=states.append) as first:
        await until(first.running)
        shard, incarnation = diary.shards["e1", "a"], first.incarnation
        await cluster.advance(15.0)  # the first leases were the shorter ones
        cluster.cut("e1")
        await cluster.until(lambda: first.lease_state is LeaseState.LOST)
        cluster.heal("e1")  # within the second in which the coordinator still waits
        lease_ends_at = cluster.now() + shard.lease_left_s
        await cluster.until(lambda: first.lease_state is LeaseState.CONNECTED)
        assert first.incarnation == incarnation
        async with start("e2") as second:
            await cluster.until(second.running)
            # By then nothing of the lease was left under which it was stopped.
            assert cluster.now() > lease_ends_at
            assert shard.lease_left_s == 0.0
            assert first.incarnation == incarnation
            assert first.lease_state is LeaseState.CONNECTED
            hung.set()
            await cluster.settle()
        assert states.count(LeaseState.LOST) == 1


# ------------------------------------------------------------------------------------ the end


async def test_a_newer_process_under_the_same_name_ends_the_older_one_loudly(
    start, diary, operator, namespace
):
    await operator.declare_shards(namespace, ["a"])

    async def live():
        async with start("e1") as older:
            await asyncio.wait_for(asyncio.Event().wait(), 30)
        return older

    older = asyncio.create_task(live())
    await until(lambda: diary.lines)
    async with start("e1") as newer:
        with pytest.raises(IncarnationClosed) as closed:
            await older
        await until(newer.running)
    assert closed.value.cause == "superseded"
    assert [what for _, what in diary.of("a")] == ["start", "stop", "start", "stop"]


async def test_an_evicted_executor_ends_loudly_and_stops_everything(
    start, diary, operator, namespace
):
    await operator.declare_shards(namespace, ["a"])

    async def body():
        async with start("e1") as executor:
            await until(executor.running)
            await operator.evict_executor(namespace, "e1", reason="test")
            await asyncio.sleep(30)

    with pytest.raises(IncarnationClosed) as closed:
        await body()
    assert closed.value.cause == "evicted"
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]
    assert asyncio.current_task().cancelling() == 0


async def test_an_executor_keeps_its_status_in_sight(start, operator, namespace):
    async with start("e1") as executor:
        await operator.cordon_executor(namespace, "e1", reason="test")
        await until(lambda: executor.status == "cordoned")
        await operator.uncordon_executor(namespace, "e1")
        await until(lambda: executor.status == "active")
