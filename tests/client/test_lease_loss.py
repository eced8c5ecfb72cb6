"""Executors whose namespace lets them go on when no node can be reached, and when they do not."""

import asyncio
import contextlib

import pytest

from client import IncarnationClosed, LeaseState
from client.transport import Response
from tests.client.seam import TTL_S, Seam, refusal
from tests.waiting import until


@pytest.fixture
async def seam(virtual_time):
    one = Seam(virtual_time)
    one.on_lease_loss = "continue"
    one.assign(a=(5, "run"))
    return one


async def outage(seam, executor):
    """No node can be reached, and the lease runs out."""
    await until(executor.running)
    seam.is_down = True
    seam.clock.skip(0.3 * TTL_S)
    await asyncio.sleep(0.1)  # some tries fail
    seam.clock.skip(0.3 * TTL_S)
    await asyncio.sleep(0.1)
    seam.clock.skip(0.3 * TTL_S)


async def test_who_reaches_no_node_at_all_goes_on_and_says_so(seam, diary):
    states = []
    async with seam.executor(diary, leave_timeout_s=0.2, on_lease=states.append) as executor:
        await outage(seam, executor)
        await until(lambda: executor.lease_state is LeaseState.CONTINUED)
        seam.clock.skip(10 * TTL_S)
        await asyncio.sleep(0.1)
        shard = diary.shards["e1", "a"]
        assert shard.may_act()
        assert shard.lease_left_s == 0.0  # somebody else may have been given it by now
        assert states[-2:] == [LeaseState.SUSPENDED, LeaseState.CONTINUED]
        seam.is_down = False
        await until(lambda: executor.lease_state is LeaseState.CONNECTED)
        seam.assign(a=(5, "run"), b=(6, "run"))
        await until(lambda: len(executor.running()) == 2)
        assert diary.of("a") == [("e1", "start")]


async def test_who_goes_on_and_is_cancelled_again_and_again_while_it_leaves_acts_no_more(
    seam, diary
):
    async def stubborn(_):
        await asyncio.sleep(0.3)

    async def live():
        async with seam.executor(diary, leave_timeout_s=5.0, on_stop=stubborn) as executor:
            await outage(seam, executor)
            await until(lambda: executor.lease_state is LeaseState.CONTINUED)
            seam.clock.skip(10 * TTL_S)
            is_on.set()
            await asyncio.sleep(10)

    is_on = asyncio.Event()
    living = asyncio.create_task(live())
    async with asyncio.timeout(5):
        await is_on.wait()
    shard = diary.shards["e1", "a"]
    assert shard.may_act()
    for _ in range(20):
        living.cancel()
        await asyncio.sleep(0)
    with contextlib.suppress(asyncio.CancelledError):
        await living
    # Its lease is watched by nobody any more, and would go on for ever.
    assert not shard.may_act()


async def test_nothing_starts_while_it_goes_on_without_a_lease(seam, diary):
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await outage(seam, executor)
        await until(lambda: executor.lease_state is LeaseState.CONTINUED)
        seam.assign(a=(5, "run"), b=(6, "run"))
        seam.refuse_beats = refusal(503, "recovering")
        seam.is_down = False
        await asyncio.sleep(0.2)
        # A node that has no leader yet says nothing about who owns what.
        assert executor.lease_state is LeaseState.CONTINUED
        assert executor.running() == {"a": 5}


async def test_the_default_is_to_stop(seam, diary):
    seam.on_lease_loss = "stop"
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await outage(seam, executor)
        await until(lambda: executor.lease_state is LeaseState.LOST)
        await until(lambda: diary.of("a") == [("e1", "start"), ("e1", "stop")])


async def test_who_reaches_a_node_without_a_leader_stops(seam, diary):
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await until(executor.running)
        seam.refuse_beats = refusal(503, "no_leader")
        for _ in range(3):
            seam.clock.skip(0.3 * TTL_S)
            await asyncio.sleep(0.1)
        await until(lambda: executor.lease_state is LeaseState.LOST)
        assert not diary.shards["e1", "a"].may_act()


async def test_a_poll_that_is_answered_is_a_node_that_was_reached(seam, diary):
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await until(executor.running)
        ask = seam.request

        async def deaf_to_heartbeats(method, url, **options):
            seam.is_down = url.endswith("/heartbeat")
            try:
                return await ask(method, url, **options)
            finally:
                seam.is_down = False

        executor._parts.connection._transport.request = deaf_to_heartbeats
        for _ in range(4):
            seam.clock.skip(0.24 * TTL_S)
            await asyncio.sleep(0.3)
        await until(lambda: executor.lease_state is LeaseState.LOST)


async def test_a_new_cluster_that_does_not_know_the_namespace_yet_says_nothing(seam, diary):
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await outage(seam, executor)
        await until(lambda: executor.lease_state is LeaseState.CONTINUED)
        seam.clock.skip(TTL_S)
        unknown = refusal(404, "namespace_not_found")
        seam.refuse_beats = Response(404, {"x-cluster-id": "c2"}, unknown.body)
        seam.is_down = False
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) > seen + 3)
        assert executor.lease_state is LeaseState.CONTINUED
        # The cluster that granted the lease knows what it says: the namespace was deleted.
        seam.refuse_beats = Response(404, {"x-cluster-id": "c1"}, unknown.body)
        await until(lambda: executor.lease_state is LeaseState.LOST)


@pytest.mark.parametrize(
    "answer",
    [refusal(404, "namespace_not_found"), refusal(403, "forbidden")],
)
async def test_it_goes_on_no_longer_when_a_coordinator_says_otherwise(seam, diary, answer):
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await outage(seam, executor)
        await until(lambda: executor.lease_state is LeaseState.CONTINUED)
        shard = diary.shards["e1", "a"]
        seam.clock.skip(TTL_S)
        seam.refuse_beats = answer
        seam.is_down = False
        await until(lambda: executor.lease_state is LeaseState.LOST)
        assert not shard.may_act()
        await until(lambda: diary.of("a") == [("e1", "start"), ("e1", "stop")])


async def test_an_incarnation_that_was_closed_meanwhile_goes_on_no_longer(seam, diary):
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await outage(seam, executor)
        await until(lambda: executor.lease_state is LeaseState.CONTINUED)
        shard, first = diary.shards["e1", "a"], executor.incarnation
        seam.refuse_beats = refusal(409, "incarnation_closed", cause="expired")
        seam.is_down = False
        await until(lambda: executor.incarnation != first)
        assert not shard.may_act()
        seam.refuse_beats = None
        seam.assign(a=(9, "run"))
        await until(lambda: executor.running() == {"a": 9})


async def test_one_that_was_superseded_meanwhile_ends(seam, diary):
    async def body():
        async with seam.executor(diary, leave_timeout_s=0.2) as executor:
            await outage(seam, executor)
            await until(lambda: executor.lease_state is LeaseState.CONTINUED)
            seam.refuse_beats = refusal(409, "incarnation_closed", cause="superseded")
            seam.is_down = False
            await asyncio.sleep(10)

    with pytest.raises(IncarnationClosed):
        await body()
    assert not diary.shards["e1", "a"].may_act()


async def test_a_loop_that_stood_still_past_the_lease_does_not_go_on(seam, diary):
    async with seam.executor(diary, leave_timeout_s=0.2) as executor:
        await until(executor.running)
        seam.is_down = True
        seam.clock.skip(2 * TTL_S)
        await until(lambda: executor.lease_state is LeaseState.LOST)
