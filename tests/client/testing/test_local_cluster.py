"""The cluster that users test against: real decisions, their time, and each fault."""

import asyncio
import time

import pytest

import client
from client import IncarnationClosed, LeaseState, NoLeader, Operator, Router
from client.errors import Invalid, Unreachable
from client.testing import LocalCluster, TimeLimitReached
from tests.client.fleet import Diary


def executor(cluster, diary, name, **options):
    return diary.executor(cluster.endpoints, cluster.namespace, name, **options)


async def test_whatever_is_given_its_endpoints_reaches_it_without_a_port():
    diary = Diary()
    async with (
        LocalCluster(namespace="jobs") as cluster,
        Router(cluster.endpoints, namespace="jobs") as router,
        Operator(cluster.endpoints) as operator,
        executor(cluster, diary, "e1"),
    ):
        await cluster.declare("orders")
        assert diary.of("orders") == [("e1", "start")]
        assert cluster.owners() == {"orders": "e1"}
        owner = router.owner("orders")
        assert owner is not None
        assert (owner.executor, owner.address) == ("e1", "e1:80")
        view = await operator.shard("jobs", "orders")
        assert view.executor == "e1"
        assert (await router.lookup("new")).executor == "e1"


async def test_a_fixed_namespace_has_its_shards_from_the_start():
    diary = Diary()
    async with LocalCluster(shard_count=4) as cluster, executor(cluster, diary, "e1") as one:
        await cluster.settle()
        assert sorted(one.running()) == ["0", "1", "2", "3"]


async def test_a_minute_brings_its_heartbeats_and_takes_no_time():
    async with LocalCluster() as cluster, executor(cluster, Diary(), "e1") as one:
        wall, sent, began_at = time.monotonic(), cluster.wire.requests_total, cluster.now()
        await asyncio.sleep(60)
        assert cluster.now() - began_at == pytest.approx(60)
        assert cluster.wire.requests_total - sent > 30
        assert one.lease_state is LeaseState.CONNECTED
        assert time.monotonic() - wall < 30


async def test_a_shard_moves_by_handoff_and_never_overlaps():
    diary = Diary()
    async with (
        LocalCluster() as cluster,
        executor(cluster, diary, "e1"),
        executor(cluster, diary, "e2"),
    ):
        await cluster.place({"orders": "e1", "mail": "e2"})
        assert cluster.owners() == {"orders": "e1", "mail": "e2"}
        diary.lines.clear()
        before = diary.shards["e1", "orders"].epoch
        await cluster.move("orders", "e2")
        assert diary.of("orders") == [("e1", "stop"), ("e2", "start")]
        assert diary.shards["e2", "orders"].epoch > before
        assert diary.shards["e2", "orders"].may_act()
        assert not diary.shards["e1", "orders"].may_act()


async def test_what_is_pinned_comes_back():
    diary = Diary()
    async with (
        LocalCluster() as cluster,
        executor(cluster, diary, "e1"),
        executor(cluster, diary, "e2"),
    ):
        await cluster.place({"orders": "e1"}, is_pinned=True)
        await cluster.expire("e1")
        await cluster.until(lambda: cluster.owners() == {"orders": "e1"})


async def test_a_lease_that_expires_is_lost_before_its_shards_are_given_away():
    diary = Diary()
    states: list[LeaseState] = []
    async with (
        LocalCluster() as cluster,
        executor(cluster, diary, "e1", on_lease=states.append) as one,
        executor(cluster, diary, "e2"),
    ):
        await cluster.place({"orders": "e1"})
        before = one.incarnation
        diary.lines.clear()
        states.clear()
        await cluster.expire("e1")
        assert states[:2] == [LeaseState.SUSPENDED, LeaseState.LOST]
        assert diary.of("orders") == [("e1", "stop"), ("e2", "start")]
        assert cluster.owners() == {"orders": "e2"}
        await cluster.advance(10)
        assert one.lease_state is LeaseState.CONNECTED
        assert one.incarnation != before


async def test_lost_heartbeats_suspend_and_heal():
    async with LocalCluster() as cluster, executor(cluster, Diary(), "e1") as one:
        cluster.drop_heartbeats("e1")
        await cluster.advance(6)
        assert one.lease_state is LeaseState.SUSPENDED
        cluster.heal("e1")
        await cluster.until(lambda: one.lease_state is LeaseState.CONNECTED, within_s=5)


async def test_an_executor_that_is_cut_off_is_not_told_what_happens():
    diary = Diary()
    async with (
        LocalCluster() as cluster,
        executor(cluster, diary, "e1"),
        executor(cluster, diary, "e2"),
    ):
        await cluster.place({"orders": "e2"})
        diary.lines.clear()
        cluster.cut("e1")
        await cluster.operator().pin_shard("test", "orders", "e1", reason="test")
        await cluster.advance(5)
        assert diary.of("orders") == [("e2", "stop")]
        cluster.heal("e1")
        await cluster.until(lambda: ("e1", "start") in diary.of("orders"))


async def test_routers_go_on_while_the_coordinator_is_down_and_executors_stop_in_time():
    diary = Diary()
    async with (
        LocalCluster() as cluster,
        cluster.router() as router,
        executor(cluster, diary, "e1") as one,
    ):
        await cluster.declare("orders")
        cluster.down()
        with pytest.raises(Unreachable):
            await cluster.operator().shard("test", "orders")
        await cluster.advance(30)
        assert router.owner("orders") is not None
        assert router.is_stale
        assert one.lease_state is LeaseState.LOST
        assert not diary.shards["e1", "orders"].may_act()
        cluster.up()
        await cluster.until(one.running)
        await cluster.until(lambda: not router.is_stale)


async def test_an_election_moves_nothing_and_ends_no_lease():
    diary = Diary()
    async with LocalCluster() as cluster, executor(cluster, diary, "e1") as one:
        await cluster.declare("orders")
        election = asyncio.create_task(cluster.elect(1.5))
        await cluster.advance(0.5)
        with pytest.raises(NoLeader):
            await cluster.operator(timeout_s=0.5).drain_executor("test", "e1", reason="x")
        await election
        await cluster.advance(30)
        assert one.lease_state is LeaseState.CONNECTED
        assert diary.of("orders") == [("e1", "start")]


async def test_after_a_total_loss_shards_stay_where_they_are_under_higher_epochs():
    diary = Diary()
    async with LocalCluster() as cluster, executor(cluster, diary, "e1") as one:
        await cluster.declare("orders")
        before = one.running()["orders"]
        await cluster.forget()
        await cluster.advance(20)
        assert cluster.owners() == {"orders": "e1"}
        assert one.running()["orders"] > before
        assert diary.of("orders") == [("e1", "start")]


async def test_several_namespaces_share_a_cluster():
    diary = Diary()
    async with LocalCluster(namespace="jobs") as cluster:
        await cluster.create_namespace("mail", shard_count=2)
        async with (
            diary.executor(cluster.endpoints, "jobs", "a"),
            diary.executor(cluster.endpoints, "mail", "b"),
        ):
            await cluster.declare("orders")
            assert cluster.owners() == {"orders": "a"}
            assert cluster.owners("mail") == {"0": "b", "1": "b"}


async def test_the_balancer_works_when_it_is_switched_on():
    quick = {"mode": "on", "interval_s": 1, "cooldown_s": 0, "move_budget_ratio": 1}
    policy = {"initial_hold_s": 0, "join_ramp_ratio": 1, "balancer": quick}
    loads, diary = dict.fromkeys("01234567", 0.1), Diary()
    async with (
        LocalCluster(shard_count=8, policy=policy) as cluster,
        executor(cluster, diary, "e1", loads=lambda: loads),
    ):
        await cluster.settle()
        async with executor(cluster, diary, "e2", loads=lambda: loads):
            await cluster.until(lambda: list(cluster.owners().values()).count("e2") == 4)


async def test_the_same_seed_tells_the_same_story():
    async def story():
        diary = Diary()
        async with (
            LocalCluster(shard_count=6, seed=7) as cluster,
            cluster.executor("e1", on_start=_noted(diary), on_stop=_noted(diary)),
            cluster.executor("e2", on_start=_noted(diary), on_stop=_noted(diary)),
        ):
            began_at = cluster.now()
            await cluster.expire("e1")
            await cluster.elect()
            took_s = round(cluster.now() - began_at, 3)
            return [(what, key) for _, what, key in diary.lines], took_s, cluster.owners()

    assert await story() == await story()


def _noted(diary):
    async def note(shard):
        diary.note("any", str(shard.epoch), shard)

    return note


async def test_what_is_wrong_with_a_policy_is_said_and_the_loop_is_given_back():
    loop = asyncio.get_running_loop()
    with pytest.raises(Invalid):
        async with LocalCluster(policy={"lease_ttl_s": -1}):
            pass
    wall = time.monotonic()
    await asyncio.sleep(0.02)
    assert time.monotonic() - wall >= 0.015
    assert "time" not in vars(loop) or loop.time() > 0


async def test_after_it_nothing_answers_and_leases_are_judged_by_the_machine_again():
    async with LocalCluster() as cluster:
        endpoints = cluster.endpoints
        assert client.executor.lease_now_s() == cluster.now()
    assert abs(client.executor.lease_now_s() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 5
    with pytest.raises(Unreachable):
        async with Operator(endpoints, timeout_s=0.5) as operator:
            await operator.namespaces()


async def test_an_executor_that_is_superseded_ends_as_in_production():
    diary = Diary()
    async with LocalCluster() as cluster:
        with pytest.raises(IncarnationClosed):
            async with executor(cluster, diary, "e1"), executor(cluster, diary, "e1"):
                await cluster.advance(30)


async def test_after_a_block_beyond_the_lease_nothing_is_acted_on_and_lost_is_told_first():
    told, diary = [], Diary()
    async with (
        LocalCluster() as cluster,
        executor(cluster, diary, "e1", on_lease=told.append) as one,
    ):
        await cluster.declare("orders")
        shard = diary.shards["e1", "orders"]
        told.clear()
        diary.lines.clear()
        cluster.block(30)
        assert not shard.may_act()
        assert one.owned("orders") is None
        await cluster.settle()
        assert told[0] is LeaseState.LOST
        assert diary.of("orders")[0] == ("e1", "stop")
        await cluster.until(lambda: one.owned("orders"))


async def test_two_clusters_share_the_time_of_a_loop():
    async with LocalCluster() as one:
        async with LocalCluster() as other, executor(other, Diary(), "e1") as theirs:
            await one.advance(60)
            assert one.now() == other.now()
            assert theirs.lease_state is LeaseState.CONNECTED
        async with executor(one, Diary(), "e2") as ours:
            await one.advance(60)
            assert ours.lease_state is LeaseState.CONNECTED


async def test_what_needs_a_beginning_says_so():
    cluster = LocalCluster()
    with pytest.raises(RuntimeError, match="not started"):
        cluster.down()
    with pytest.raises(RuntimeError, match="not started"):
        cluster.block(1)
    cluster.abandon()


async def test_expiring_nobody_is_an_error_of_the_test():
    async with LocalCluster() as cluster:
        with pytest.raises(LookupError, match="no executor 'e9'"):
            await cluster.expire("e9")


async def test_what_does_not_come_in_time_fails_the_test():
    async with LocalCluster() as cluster:
        with pytest.raises(AssertionError, match="not within 5 s"):
            await cluster.until(lambda: False, within_s=5)


def test_a_test_that_waits_for_ever_ends():
    async def main():
        async with LocalCluster(time_limit_s=60) as cluster, executor(cluster, Diary(), "e1"):
            await asyncio.Event().wait()

    with pytest.raises(TimeLimitReached):
        asyncio.run(main())


async def test_latency_is_time_like_any_other():
    async with LocalCluster() as cluster:
        cluster.wire.latency_s = 0.2
        began_at = cluster.now()
        await cluster.operator().namespaces()
        assert cluster.now() - began_at == pytest.approx(0.2)
