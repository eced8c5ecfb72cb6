"""A forked child has a copy of everything and may act on nothing."""

import os
import subprocess
import sys

from client.forks import give_up_in_child

FORKS = """
import asyncio, os, sys
sys.path.insert(0, ".")
from tests.client.fleet import Diary
from tests.waiting import until
from tests.client.seam import Seam

async def main():
    seam, diary = Seam(), Diary()
    seam.assign(a=(5, "run"))
    async with seam.executor(diary) as executor:
        await until(executor.running)
        shard = diary.shards["e1", "a"]
        assert shard.may_act()
        child = os.fork()
        if child == 0:
            os._exit(1 if shard.may_act() or shard.lease_left_s else 0)
        _, status = os.waitpid(child, 0)
        assert shard.may_act()
        return os.waitstatus_to_exitcode(status)

sys.exit(asyncio.run(main()))
"""


def test_a_forked_child_may_act_on_nothing():
    done = subprocess.run([sys.executable, "-c", FORKS], timeout=30, check=False)
    assert done.returncode == 0


class Owner:
    def __init__(self):
        self.has_given_up = False

    def give_up(self):
        self.has_given_up = True

    def fail(self):
        raise OSError("it cannot be closed")


def test_one_that_cannot_give_up_keeps_no_other_from_it():
    stuck, other = Owner(), Owner()
    give_up_in_child(stuck, Owner.fail)
    give_up_in_child(other, Owner.give_up)
    child = os.fork()
    if child == 0:
        os._exit(0 if other.has_given_up else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert not other.has_given_up


MEASURES = """
import os, signal, threading, time
from client import LoadRecorder
from client.keeper import ShardCallbacks, ShardKeeper
from client.lifecycle import AssignmentSet, Cursor, SetArrived
import asyncio

async def main():
    keeper = ShardKeeper(
        "jobs", ShardCallbacks(print, print), clock=time.monotonic, concurrency_max=1,
        acknowledge=print, may_go_on=bool, observe_state=bool, observe_fault=print)
    keeper.renew(time.monotonic(), 10.0, 2.0, Cursor("c", 1))
    keeper.feed(SetArrived(AssignmentSet(Cursor("c", 1), {"a": (5, "run")})))
    while (shard := keeper.owned("a")) is None:
        await asyncio.sleep(0.01)
    recorder = LoadRecorder()
    section = recorder.busy("a")
    with recorder._lock, shard._tenure.meter._lock:  # as another thread may just then
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            shard.add_load()
            with section, recorder.busy("b"):
                os._exit(0)
    with section:
        shard.add_load()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

import sys
sys.exit(asyncio.run(main()))
"""


def test_a_forked_child_that_measures_waits_for_no_thread_of_its_parent():
    done = subprocess.run([sys.executable, "-c", MEASURES], timeout=30, check=False)
    assert done.returncode == 0
