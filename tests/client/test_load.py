"""The recorder: whose CPU it was. Shares add up to what the process used, whatever overlaps."""

import asyncio
import math
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.load import LoadRecorder


class Hands:
    """The two clocks of a recorder, moved by hand."""

    def __init__(self):
        self.now = 100.0
        self.cpu_s = 7.0
        self.recorder = LoadRecorder(clock=lambda: self.now, cpu_clock=lambda: self.cpu_s)

    def work(self, wall_s, cpu_s=0.0):
        self.now += wall_s
        self.cpu_s += cpu_s


# Multiples of a power of two, so that the clocks of the test themselves do not round.
seconds = st.integers(0, 40_000).map(lambda ticks: ticks / 1024)
steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "close", "look"]),
        st.integers(0, 5),
        seconds,
        seconds,
    ),
    max_size=60,
)


@given(steps)
def test_shares_add_up_to_what_the_process_used_and_follow_the_time_that_sections_were_open(steps):
    hands = Hands()
    opened = [0] * 6
    walls = [0.0] * 6
    used = looked_at = 0.0
    for what, shard, wall_s, cpu_s in [*steps, ("look", 0, 1.0, 3.0)]:
        hands.work(wall_s, cpu_s)
        used += cpu_s
        for one, count in enumerate(opened):
            walls[one] += count * wall_s
        if what == "open":
            hands.recorder.busy(f"s{shard}").__enter__()
            opened[shard] += 1
        elif what == "close" and opened[shard]:
            hands.recorder.busy(f"s{shard}").__exit__(None, None, None)
            opened[shard] -= 1
        elif what == "look":
            window = hands.recorder.window()
            total = sum(walls)
            assert math.isclose(window.cpu_s, used, abs_tol=1e-9)
            assert abs(sum(window.shares.values()) + window.unattributed_s - used) <= 1e-9 * (
                1.0 + used
            )
            for one, wall_s_of in enumerate(walls):
                share = window.shares.get(("", f"s{one}"), 0.0)
                expected = used * wall_s_of / total if total else 0.0
                assert math.isclose(share, expected, rel_tol=1e-6, abs_tol=1e-9)
            used, walls = 0.0, [0.0] * 6
            looked_at += window.wall_s
    assert math.isclose(looked_at, hands.now - 100.0, abs_tol=1e-6)


def test_a_window_in_which_nothing_ran_belongs_to_nobody():
    hands = Hands()
    hands.work(2.0, 0.5)
    window = hands.recorder.window()
    assert (window.cpu_s, window.wall_s, window.shares, window.unattributed_s) == (0.5, 2, {}, 0.5)


def test_a_section_that_is_open_over_several_windows_counts_in_each():
    hands = Hands()
    with hands.recorder.busy("a"):
        hands.work(1.0, 0.2)
        assert hands.recorder.window().shares == {("", "a"): pytest.approx(0.2)}
        hands.work(1.0, 0.4)
        assert hands.recorder.window().shares == {("", "a"): pytest.approx(0.4)}
    hands.work(1.0, 0.1)
    assert hands.recorder.window().shares == {("", "a"): 0.0}  # it ended at the very beginning
    assert hands.recorder.window().shares == {}


def test_namespaces_take_what_is_theirs_whoever_looks_first():
    hands = Hands()
    with hands.recorder.busy("a", "mail"):
        hands.work(3.0, 3.0)
    with hands.recorder.busy("a", "jobs"), hands.recorder.busy("b"):
        hands.work(1.0, 1.0)
    assert hands.recorder.take("mail") == pytest.approx({"a": 2.4, "b": 0.8})
    assert hands.recorder.take("jobs") == pytest.approx({"a": 0.8})
    assert hands.recorder.take("jobs") == {}


def test_a_section_ends_with_an_error_too():
    hands = Hands()

    def broken():
        with hands.recorder.busy("a"):
            hands.work(1.0, 1.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    hands.work(5.0)
    with hands.recorder.busy("b"):
        hands.work(1.0)
    assert hands.recorder.window().shares == pytest.approx({("", "a"): 0.5, ("", "b"): 0.5})


def test_handles_and_what_nobody_takes_are_bounded(monkeypatch):
    monkeypatch.setattr("client.load.HANDLES_MAX", 3)
    hands = Hands()
    with hands.recorder.busy("kept"):
        for number in range(10):
            with hands.recorder.busy(f"s{number}"):
                hands.work(0.0)
        hands.work(1.0, 1.0)
    assert len(hands.recorder._handles) <= 3
    assert hands.recorder.window().shares["", "kept"] == pytest.approx(1.0)
    for number in range(10):
        with hands.recorder.busy(f"s{number}", "nobody"):
            hands.work(1.0, 1.0)
        hands.recorder.take("jobs")
    assert len(hands.recorder._kept["nobody"]) == 3


def test_sections_are_bounded_where_nobody_takes_and_no_load_of_the_first_is_lost(monkeypatch):
    monkeypatch.setattr("client.load.HANDLES_MAX", 3)
    hands = Hands()
    for number in range(20):
        with hands.recorder.busy(f"s{number}", "jobs"):
            hands.work(1.0, 1.0)
    assert len(hands.recorder._handles) <= 3
    assert len(hands.recorder._busy) <= 3
    assert hands.recorder.take("jobs") == pytest.approx({"s0": 1.0, "s1": 1.0, "s2": 1.0})


async def test_tasks_that_interleave_on_one_loop_share_by_the_time_they_were_open():
    hands = Hands()

    async def work(key, turns):
        for _ in range(turns):
            with hands.recorder.busy(key):
                hands.work(0.25, 0.125)
            await asyncio.sleep(0)

    await asyncio.gather(work("light", 10), work("heavy", 30))
    assert hands.recorder.window().shares == pytest.approx(
        {("", "light"): 1.25, ("", "heavy"): 3.75}
    )


def test_the_real_clocks_agree_with_themselves():
    recorder = LoadRecorder()
    with recorder.busy("a"):
        burn(0.02)
    window = recorder.window()
    assert 0.0 < window.shares["", "a"] == pytest.approx(window.cpu_s)
    assert window.wall_s >= 0.02
    assert window.unattributed_s == 0.0


def test_threads_lose_no_time_to_each_other():
    hands = Hands()
    barrier = threading.Barrier(4)

    def enter(key):
        barrier.wait()
        for _ in range(2_000):
            with hands.recorder.busy(key), hands.recorder.busy("all"):
                pass

    threads = [threading.Thread(target=enter, args=(f"s{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hands.work(5.0, 1.0)
    assert all(handle._open == 0 for handle in hands.recorder._handles.values())
    with hands.recorder.busy("last"):
        hands.work(1.0)
    assert hands.recorder.window().shares["", "last"] == pytest.approx(1.0)


def burn(wall_s):
    end = time.perf_counter() + wall_s
    while time.perf_counter() < end:
        pass
