"""User code that is asked on the way: whatever it raises costs its own answer, nothing else.

A cancelled future that it waits for raises `CancelledError` there, and that must not end whoever
asked as if somebody had cancelled the executor.
"""

import asyncio

import pytest

from client import LeaseState
from client.assignments import AssignmentPolls
from tests.client.fleet import Diary
from tests.client.seam import Seam
from tests.waiting import until


@pytest.fixture
async def seam(virtual_time):
    one = Seam(virtual_time)
    one.assign(a=(5, "run"))
    return one


class Asked:
    """Raises what a cancelled future raises, each time."""

    def __init__(self):
        self.times = 0

    def plainly(self, *_):
        self.times += 1
        raise asyncio.CancelledError

    async def on_the_loop(self):
        self.plainly()


async def test_a_backlog_that_meets_a_cancelled_future_costs_no_heartbeat(seam):
    asked = Asked()
    async with seam.executor(backlog=asked.plainly, join_timeout_s=2.0):
        await until(lambda: len(seam.beats) > 5)
    assert asked.times > 5
    assert {beat["process"].get("backlog") for beat in seam.beats} == {None}


async def test_who_hears_of_the_lease_and_meets_a_cancelled_future_costs_no_heartbeat(seam):
    asked = Asked()
    async with seam.executor(on_lease=asked.plainly, join_timeout_s=2.0) as executor:
        await until(executor.running)
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) > seen + 5)
        assert executor.lease_state is LeaseState.CONNECTED
    assert asked.times


async def test_loads_that_meet_a_cancelled_future_are_asked_for_again(seam):
    asked = Asked()
    async with seam.executor(loads=asked.on_the_loop):
        await until(lambda: asked.times > 3)


async def test_a_task_of_the_executor_that_is_cancelled_from_within_ends_the_executor(
    seam, monkeypatch
):
    async def cancelled(_):
        raise asyncio.CancelledError

    monkeypatch.setattr(AssignmentPolls, "run", cancelled)
    with pytest.raises(RuntimeError, match="cancelled by what it called"):
        async with seam.executor():
            await asyncio.sleep(5)


async def test_a_fault_while_a_set_is_taken_in_ends_the_executor(seam):
    diary = Diary()
    executor = seam.executor(diary)

    async def live():
        async with executor:
            await until(executor.running)
            executor._parts.keeper._act = lambda _: 1 / 0  # a breach of ours: nothing is done
            seam.assign(a=(5, "release"))
            await asyncio.sleep(5)

    with pytest.raises(ZeroDivisionError):
        await live()
    assert not diary.shards["e1", "a"].may_act()
