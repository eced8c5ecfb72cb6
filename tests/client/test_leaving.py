"""How executors leave: for good, for a moment, early, or before they were inside."""

import asyncio

import pytest

from tests.client.seam import Seam, refusal
from tests.waiting import until


@pytest.fixture
async def seam(virtual_time):
    return Seam(virtual_time)


async def test_who_leaves_for_a_moment_says_so_is_heard_and_hands_nothing_over(seam, diary):
    goodbyes = []

    def refuse_the_first():
        if seam.beats[-1].get("status") == "leaving":
            goodbyes.append(seam.beats[-1]["back_within_s"])
            seam.refuse_beats = refusal(503, "no_leader") if len(goodbyes) < 3 else None

    seam.on_beat = refuse_the_first
    seam.assign(a=(5, "run"))
    async with seam.executor(diary, back_within_s=20.0, leave_timeout_s=10.0) as executor:
        await until(executor.running)
        began = seam.clock()
    assert seam.clock() - began < 2.0
    assert goodbyes[:3] == [20.0] * 3  # tried until it was heard
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]
    assert seam.acks == []  # kept, not released
    assert len(seam.left) == 1


async def test_who_is_not_heard_leaves_all_the_same(seam, diary):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary, back_within_s=20.0, leave_timeout_s=0.5) as executor:
        await until(executor.running)
        seam.refuse_beats = refusal(503, "no_leader")
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]


async def test_an_executor_may_leave_before_its_body_ends(seam, diary):
    seam.assign(a=(5, "run"))
    async with seam.executor(diary, leave_timeout_s=5.0) as executor:
        await until(executor.running)
        await executor.leave(back_within_s=7.0)
        assert diary.of("a") == [("e1", "start"), ("e1", "stop")]
        assert not diary.shards["e1", "a"].may_act()
        await executor.leave()
        beats = len(seam.beats)
        await asyncio.sleep(0.1)
        assert len(seam.beats) == beats
    assert seam.beats[-1]["back_within_s"] == 7.0
    assert len(seam.left) == 1
    await executor.leave()


@pytest.mark.parametrize("back_within_s", [-1.0, 86_401.0, float("nan"), float("inf")])
async def test_a_return_that_no_coordinator_takes_is_refused_before_it_costs_anything(
    seam, diary, back_within_s
):
    with pytest.raises(ValueError, match="back within"):
        seam.executor(diary, back_within_s=back_within_s)
    async with seam.executor(diary) as executor:
        with pytest.raises(ValueError, match="back within"):
            await executor.leave(back_within_s=back_within_s)
        assert seam.left == []


async def test_an_executor_that_may_call_nothing_back_is_none(seam, diary):
    with pytest.raises(ValueError, match="at least one"):
        seam.executor(diary, max_concurrent_callbacks=0)


async def test_a_body_that_ends_while_somebody_leaves_waits_until_that_is_through(seam, diary):
    async def stop(shard):
        await asyncio.sleep(0.2)
        diary.note("e1", "stopped", shard)

    seam.assign(a=(5, "run"))
    async with seam.executor(diary, on_stop=stop, leave_timeout_s=5.0) as executor:
        await until(executor.running)
        seam.assign()
        leaving = asyncio.create_task(executor.leave())
        await until(lambda: not diary.shards["e1", "a"].may_act())
    # Whoever ends with the body, the process say, must not cut a stop short.
    assert diary.of("a") == [("e1", "start"), ("e1", "stopped")]
    assert len(seam.left) == 1
    await leaving


async def test_user_code_that_does_not_let_itself_be_cancelled_does_not_hold_up_leaving(
    seam, diary, caplog
):
    ends = asyncio.Event()

    asyncio.get_running_loop().call_later(10.0, ends.set)

    async def stubborn(_):
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                continue

    seam.assign(a=(5, "run"))
    began = seam.clock()
    async with seam.executor(diary, on_stop=stubborn, leave_timeout_s=0.2) as executor:
        await until(executor.running)
    assert seam.clock() - began < 4.0
    assert "tasks_left_behind" in caplog.text
    assert not diary.shards["e1", "a"].may_act()
    ends.set()


async def test_an_executor_that_was_cancelled_while_it_joined_stops_what_it_had_begun(seam, diary):
    seam.assign(a=(5, "run"))
    executor = seam.executor(diary)
    executor._join = asyncio.Event().wait  # what was given comes before who enters goes on
    entering = asyncio.create_task(executor.__aenter__())
    await until(executor.running)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert diary.of("a") == [("e1", "start"), ("e1", "stop")]
    assert not diary.shards["e1", "a"].may_act()
    assert len(seam.left) == 1
