"""What a recorder measures and what a process says of itself, as heartbeats carry it."""

import asyncio

import pytest

from client import LoadRecorder
from client.signals import Signals
from tests.client.seam import Seam
from tests.waiting import until


class Hands:
    """A recorder whose clocks the test moves."""

    def __init__(self, clock):
        self.cpu_s = 0.0
        self.recorder = LoadRecorder(clock=clock, cpu_clock=lambda: self.cpu_s)


@pytest.fixture
async def seam(virtual_time):
    one = Seam(virtual_time)
    one.assign(a=(5, "run"), b=(6, "run"))
    return one


def loads(beat):
    return {key: held.get("load") for key, held in beat["shards"].items()}


def reported(seam, since, key):
    """The loads that the beats after the first `since` told of a shard."""
    return [load for beat in seam.beats[since:] if (load := loads(beat).get(key)) is not None]


async def test_shards_report_their_share_of_the_cpu_in_cores_and_idle_ones_report_nothing(seam):
    hands = Hands(seam.clock)
    async with seam.executor(recorder=hands.recorder) as one:
        await until(lambda: len(one.running()) == 2)
        await until(lambda: seam.beats and loads(seam.beats[-1]) == {"a": 0.0, "b": 0.0})
        with hands.recorder.busy("a"):
            seam.clock.skip(2.0)
            hands.cpu_s += 1.0
        seen = len(seam.beats)
        await until(lambda: any(reported(seam, seen, "a")))
        busy = next(beat for beat in seam.beats[seen:] if loads(beat)["a"])
        assert loads(busy)["a"] == pytest.approx(0.5, rel=0.1)
        assert loads(busy)["b"] == 0.0


async def test_a_report_that_is_lost_loses_no_load(seam):
    hands = Hands(seam.clock)
    async with seam.executor(recorder=hands.recorder) as one:
        await until(lambda: len(one.running()) == 2)
        await until(lambda: loads(seam.beats[-1]) == {"a": 0.0, "b": 0.0})
        seam.is_down = True
        with hands.recorder.busy("a"):
            seam.clock.skip(1.0)
            hands.cpu_s += 1.0
        await asyncio.sleep(0.1)  # heartbeats that carry it find nobody
        assert hands.recorder.take("jobs") == {}
        seen = len(seam.beats)
        seam.is_down = False
        await until(lambda: any(reported(seam, seen, "a")))
        assert max(reported(seam, seen, "a")) > 0.5


async def test_executors_of_one_process_share_a_recorder(seam):
    hands = Hands(seam.clock)
    async with (
        seam.executor(recorder=hands.recorder) as one,
        seam.executor(name="e2", recorder=hands.recorder) as two,
    ):
        # The same namespace here, so one of them takes all: what it takes is counted once.
        await until(lambda: len(one.running()) == len(two.running()) == 2)
        await asyncio.sleep(0.05)
        with hands.recorder.busy("a"):
            seam.clock.skip(1.0)
            hands.cpu_s += 1.0
        seen = len(seam.beats)
        await until(lambda: any(reported(seam, seen, "a")))
        await asyncio.sleep(0.1)
        assert len([load for load in reported(seam, seen, "a") if load]) == 1


async def test_loads_come_from_one_place(seam):
    with pytest.raises(ValueError, match="not from both"):
        seam.executor(recorder=LoadRecorder(), loads=dict)


async def test_a_process_says_what_waits_in_it(seam):
    waiting = iter([3, 4.5])

    async with seam.executor(backlog=lambda: next(waiting)):
        await until(lambda: len(seam.beats) >= 4)
        told = [beat["process"].get("backlog") for beat in seam.beats]
    # After its second answer it raises: no news, and heartbeats go on.
    assert told[:2] == [3.0, 4.5]
    assert set(told[2:]) == {None}


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0, "many"])
def test_what_is_no_backlog_is_no_news(nonsense):
    signals = Signals(lambda: 1.0, lambda: nonsense)
    assert not isinstance(signals.read(2.0).backlog, float)


def test_signals_cover_the_time_since_the_last_report_that_arrived():
    now, cpu_s = 0.0, 10.0
    signals = Signals(lambda: now, cpu_clock=lambda: cpu_s)
    signals.observe_lag(0.2)
    now, cpu_s = 2.0, 11.0
    assert signals.read(now).cpu_cores == 0.5
    now, cpu_s = 4.0, 11.0  # that report was lost
    assert (signals.read(now).cpu_cores, signals.read(now).event_loop_lag_s) == (0.25, 0.2)
    signals.acknowledge()
    now, cpu_s = 5.0, 12.0
    assert (signals.read(now).cpu_cores, signals.read(now).event_loop_lag_s) == (1.0, 0.0)
