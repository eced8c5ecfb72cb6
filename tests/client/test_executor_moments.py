"""Executors at moments that a healthy coordinator rarely has, on a clock that the test sets."""

import asyncio
import re

import pytest

from client import IncarnationClosed, LeaseState
from client.lease import CLOCK_ERROR
from client.lifecycle import CallbackEnded
from client.transport import Response
from tests.client.seam import TTL_S, Seam, refusal
from tests.waiting import until


@pytest.fixture
async def seam(virtual_time):
    return Seam(virtual_time)


async def test_the_lease_counts_from_the_send_although_the_answer_comes_late(seam, diary):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        shard = diary.shards["e1", "a"]
        seam.answer_after_s = 3.0
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) >= seen + 3)
        assert 5.0 < shard.lease_left_s <= TTL_S * (1 - CLOCK_ERROR) - 3.0


async def test_only_the_first_heartbeats_of_an_incarnation_are_joining(seam, diary):
    seam.refuse_beats = refusal(503, "no_leader")
    executor = seam.executor(diary)
    entering = asyncio.create_task(executor.__aenter__())
    await until(lambda: len(seam.beats) >= 2)
    seam.refuse_beats = None
    await entering
    seen = len(seam.beats)
    await until(lambda: len(seam.beats) >= seen + 2)
    await executor.__aexit__(None, None, None)
    assert all(beat["joining"] for beat in seam.beats[:seen])
    assert not any(beat.get("joining") for beat in seam.beats[seen:])
    assert [beat["sequence"] for beat in seam.beats] == list(range(1, len(seam.beats) + 1))


async def test_an_expired_incarnation_joins_again_under_a_fresh_one(seam, diary):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        first, shard = executor.incarnation, diary.shards["e1", "a"]
        seam.refuse_beats = refusal(409, "incarnation_closed", cause="expired")
        await until(lambda: executor.incarnation != first)
        # By its own clock the lease would still hold: the coordinator knows better.
        assert not shard.may_act()
        assert shard.lease_left_s == 0.0
        seam.assign(a=(9, "run"))
        seam.refuse_beats = None
        await until(lambda: executor.running() == {"a": 9})
        fresh = next(b for b in seam.beats if b["incarnation"] == executor.incarnation)
        assert (fresh["joining"], fresh["sequence"], fresh["shards"]) == (True, 1, {})
        assert diary.of("a") == [("e1", "start"), ("e1", "stop"), ("e1", "start")]
        assert not shard.may_act()
        assert diary.shards["e1", "a"].may_act()


async def test_closed_incarnations_in_a_row_do_not_make_a_flood(seam, diary):
    async with seam.executor(diary):
        seam.refuse_beats = refusal(409, "incarnation_closed", cause="expired")
        seen = len(seam.beats)
        await asyncio.sleep(0.3)
        assert len(seam.beats) - seen < 150  # on average half an interval between them
        seam.refuse_beats = None


async def test_a_cause_that_is_not_known_ends_the_executor(seam, diary):
    async def body():
        async with seam.executor(diary):
            seam.refuse_beats = refusal(409, "incarnation_closed", cause="of tomorrow")
            await asyncio.sleep(10)

    with pytest.raises(IncarnationClosed):
        await body()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "unauthenticated"),
        (404, "namespace_not_found"),
        (409, "stale_sequence"),
        (422, "invalid"),
        (500, "internal"),
        (503, "recovering"),
    ],
)
async def test_once_joined_a_refused_heartbeat_is_tried_again(seam, diary, status, reason):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        seam.refuse_beats = refusal(status, reason)
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) >= seen + 3)
        seam.refuse_beats = None
        await until(lambda: executor.lease_state is LeaseState.CONNECTED)
        assert diary.of("a") == [("e1", "start")]


async def test_a_fault_within_the_kit_ends_the_executor_loudly(seam, diary):
    def broken():
        raise ZeroDivisionError

    async def body():
        async with seam.executor(diary) as executor:
            await until(executor.running)
            seam.on_beat = broken
            await asyncio.sleep(10)

    seam.assign(a=(5, "run"))
    with pytest.raises(ZeroDivisionError):
        await body()
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]


async def test_a_fault_where_callbacks_end_ends_the_executor_loudly(seam, diary, monkeypatch):
    async def body():
        async with seam.executor(diary) as executor:
            keeper = executor._parts.keeper
            feed = keeper.feed

            def failing(event):
                return 1 / 0 if isinstance(event, CallbackEnded) else feed(event)

            monkeypatch.setattr(keeper, "feed", failing)
            seam.assign(a=(5, "run"))
            await asyncio.sleep(10)

    with pytest.raises(ZeroDivisionError):
        await body()


async def test_an_executor_is_entered_once(seam, diary):
    async with seam.executor(diary) as executor:
        with pytest.raises(RuntimeError, match="once"):
            await executor.__aenter__()
    with pytest.raises(RuntimeError, match="once"):
        await executor.__aenter__()


# ------------------------------------------------------------------------------ time that jumps


async def test_a_start_that_waits_for_its_turn_never_begins_after_the_lease_is_lost(seam, diary):
    first_is_free = asyncio.Event()

    async def start(shard):
        diary.note("e1", "start", shard)
        await first_is_free.wait()

    seam.assign(a=(5, "run"), b=(6, "run"))
    async with seam.executor(diary, on_start=start, max_concurrent_callbacks=1):
        await until(lambda: diary.lines)
        seam.refuse_beats = refusal(503, "no_leader")
        seam.clock.skip(2 * TTL_S)
        first_is_free.set()
        await until(lambda: ("e1", "stop", "a") in diary.lines)
        await asyncio.sleep(0.05)
        assert diary.lines == [("e1", "start", "a"), ("e1", "stop", "a")]


async def test_a_callback_that_held_the_loop_past_the_lease_is_stopped_before_anything_starts(
    seam, diary
):
    async def start(shard):
        diary.note("e1", "start", shard)
        if len(diary.lines) == 1:
            seam.refuse_beats = refusal(503, "no_leader")
            seam.clock.skip(2 * TTL_S)  # as if it had blocked the loop for so long
            assert not shard.may_act()

    seam.assign(a=(5, "run"), b=(6, "run"))
    states = []
    executor = seam.executor(
        diary, on_start=start, max_concurrent_callbacks=1, on_lease=states.append
    )
    async with executor:
        await until(lambda: len(diary.lines) >= 2)
        assert diary.lines == [("e1", "start", "a"), ("e1", "stop", "a")]
        assert LeaseState.LOST in states
        seam.refuse_beats = None
        await until(lambda: set(executor.running()) == {"a", "b"})


async def test_a_shard_that_is_not_renewed_is_stopped(seam, diary):
    seam.assign(a=(5, "run"), b=(6, "run"))
    async with seam.executor(diary) as executor:
        await until(lambda: len(executor.running()) == 2)
        seam.not_renewed = ["a"]
        await until(lambda: set(executor.running()) == {"b"})
        await until(lambda: seam.acks)
        assert seam.acks[0]["released"] == [{"key": "a", "epoch": 5}]


# ------------------------------------------------------------------------------- polls and acks


async def test_acknowledgements_are_sent_again_until_they_are_answered(seam, diary):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        seam.refuse_acks = 2
        seam.assign(a=(5, "release"))
        await until(lambda: len(seam.acks) >= 3)
        assert seam.acks[0] == seam.acks[1] == seam.acks[2]
        assert seam.acks[0]["released"] == [{"key": "a", "epoch": 5}]


async def test_a_set_that_still_asks_for_a_release_is_answered_again(seam, diary):
    seam.assign(a=(5, "release"))
    async with seam.executor(diary):
        # Each poll that ends without news asks anew: a lost acknowledgement is made up for.
        await until(lambda: len(seam.acks) >= 2)
        assert diary.lines == []


async def test_the_first_poll_asks_for_the_whole_set_and_the_next_for_what_is_newer(seam, diary):
    async with seam.executor(diary):
        await until(lambda: len(seam.polls) >= 2)
        assert "after=" not in seam.polls[0]
        assert re.search(r"after=c1%3A1&wait=[345](\.\d+)?s$", seam.polls[1])  # of uneven lengths


async def test_after_a_lost_lease_the_whole_set_is_asked_for_again(seam, diary):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        seam.refuse_beats = refusal(503, "no_leader")
        seam.clock.skip(2 * TTL_S)
        await until(lambda: not executor.running())
        seen = len(seam.polls)
        seam.refuse_beats = None
        await until(executor.running)
        assert "after=" not in seam.polls[seen]
        assert seam.acks == []  # the epoch was not released: it runs again


async def test_sets_of_a_node_that_is_behind_are_asked_for_until_they_are_new_enough(seam, diary):
    seam.assign(a=(5, "run"))
    seam.polls_behind = 4
    async with seam.executor(diary) as executor:
        await until(executor.running)
        assert len(seam.polls) >= 5
        assert all("after=" not in url for url in seam.polls[:5])


@pytest.mark.parametrize(
    "refused",
    [
        refusal(404, "executor_not_found"),
        refusal(409, "incarnation_closed", cause="expired"),
        refusal(429, "too_many_waiters", retry_after_s=0.01),
        refusal(503, "recovering"),
        Response(200, {}, b'{"cursor": "nonsense", "assignments": []}'),
    ],
)
async def test_a_poll_that_is_refused_is_tried_again_and_stops_nothing(seam, diary, refused):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        seam.refuse_polls = refused
        seen = len(seam.polls)
        await until(lambda: len(seam.polls) >= seen + 3)
        assert executor.running() == {"a": 5}
        seam.refuse_polls = None
        seam.assign(a=(5, "run"), b=(6, "run"))
        await until(lambda: len(executor.running()) == 2)


@pytest.mark.parametrize(("status", "reason"), [(422, "invalid"), (409, "incarnation_closed")])
async def test_acknowledgements_that_are_refused_are_not_repeated_for_ever(
    seam, diary, status, reason
):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        seam.answer_acks = refusal(status, reason)
        seam.assign()
        await until(lambda: seam.acks)
        await asyncio.sleep(0.2)
        assert len(seam.acks) == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"lease_ttl_s": 99, "heartbeat_interval_s": 1, "cursor": "nonsense"}',
        b'{"lease_ttl_s": 1e9, "heartbeat_interval_s": 1, "cursor": "c1:9"}',
        b'{"lease_ttl_s": -1, "heartbeat_interval_s": 1, "cursor": "c1:9"}',
        b'{"lease_ttl_s": 0, "heartbeat_interval_s": 1, "cursor": "c1:9"}',
    ],
)
async def test_a_heartbeat_that_is_answered_with_nonsense_renews_nothing(seam, diary, body):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        seam.refuse_beats = Response(200, {}, body)
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) >= seen + 2)
        assert diary.shards["e1", "a"].lease_left_s < TTL_S
        seam.refuse_beats = None


# -------------------------------------------------------------------------------------- leaving


async def test_leaving_says_so_waits_for_releases_and_deregisters(seam, diary):
    seam.assign(a=(5, "run"))
    executor = seam.executor(diary, leave_timeout_s=10.0)
    await executor.__aenter__()
    await until(executor.running)
    leaving = asyncio.create_task(executor.__aexit__(None, None, None))
    await until(lambda: seam.beats[-1].get("status") == "leaving")
    await asyncio.sleep(0.05)
    assert executor.running() == {"a": 5}
    seam.assign(a=(5, "release"))
    await until(lambda: seam.acks)
    seam.assign()
    await leaving
    assert len(seam.left) == 1
    assert executor.incarnation in seam.left[0]


async def test_an_executor_whose_stop_hangs_does_not_say_that_it_is_gone(seam, diary):
    hung = asyncio.Event()

    async def hang(shard):
        diary.note("e1", "stop", shard)
        await hung.wait()

    seam.assign(a=(5, "run"))
    async with seam.executor(diary, on_stop=hang, leave_timeout_s=0.3) as executor:
        await until(executor.running)
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]
    assert seam.left == []


async def test_leaving_without_a_coordinator_ends_in_time(seam, diary):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary, leave_timeout_s=0.3) as executor:
        await until(executor.running)
        seam.refuse_beats = refusal(503, "no_leader")
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]


async def test_a_body_that_is_cancelled_leaves_in_order_and_stays_cancelled(seam, diary):
    async def body():
        async with seam.executor(diary):
            await asyncio.sleep(10)

    seam.assign(a=(5, "run"))
    task = asyncio.create_task(body())
    await until(lambda: diary.lines)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]
    assert len(seam.left) == 1


async def test_a_body_that_outlives_its_executors_end_hears_of_it_on_leaving(seam, diary):
    async def body():
        async with seam.executor(diary):
            seam.refuse_beats = refusal(409, "incarnation_closed", cause="superseded")
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                await asyncio.sleep(0)  # a body that goes on regardless

    with pytest.raises(IncarnationClosed):
        await body()
    assert asyncio.current_task().cancelling() == 0
    assert len(seam.left) == 1  # all has stopped: its successor need not wait for the lease
