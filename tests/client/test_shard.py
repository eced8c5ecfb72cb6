"""Handles of shards: permission and load, on a clock that the test sets."""

import threading

import pytest

from client.errors import LeaseLost
from client.lease import Lease
from client.shard import LOAD_MAX, LoadMeter, Shard, Tenure


class Clock:
    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def granted(now=0.0):
    clock, lease = Clock(now), Lease()
    lease.renew(now, 10.0, 2.0)
    tenure = Tenure("a", 5, lease, now)
    tenure.is_granted = True
    return Shard("jobs", tenure, clock), tenure, clock


def test_a_granted_shard_may_be_acted_on_until_its_lease_ends():
    shard, _, clock = granted()
    assert shard.may_act()
    shard.require_owned()
    clock.now = 9.9
    assert not shard.may_act()
    with pytest.raises(LeaseLost, match="jobs/a"):
        shard.require_owned()


def test_a_shard_that_is_being_stopped_may_not_be_acted_on_but_knows_its_time_left():
    shard, tenure, clock = granted()
    tenure.is_granted = False
    clock.now = 4.9
    assert not shard.may_act()
    assert shard.lease_left_s == pytest.approx(5.0)


def test_a_handle_shows_the_epoch_of_now():
    shard, tenure, _ = granted()
    assert (shard.namespace, shard.key, shard.epoch) == ("jobs", "a", 5)
    tenure.epoch = 9
    assert shard.epoch == 9
    assert repr(shard) == "<Shard jobs/a epoch=9>"


def test_counted_load_is_reported_as_its_mean_per_second():
    shard, tenure, _ = granted()
    shard.add_load(3.0)
    shard.add_load()
    assert tenure.meter.report(2.0, 1.0) == pytest.approx(2.0)


def test_a_level_is_weighted_by_how_long_it_stood():
    shard, tenure, clock = granted()
    shard.set_load(1.0)
    clock.now = 3.0
    shard.set_load(0.0)
    assert tenure.meter.report(4.0, 1.0) == pytest.approx(0.75)


def test_a_level_that_is_first_known_late_does_not_count_from_before():
    meter = LoadMeter(0.0)
    meter.set(0.5, 10.0)
    assert meter.report(12.0, 1.0) == pytest.approx(0.5)


def test_a_report_that_was_lost_is_covered_by_the_next():
    meter = LoadMeter(0.0)
    meter.add(4.0)
    assert meter.report(2.0, 1.0) == pytest.approx(2.0)
    meter.add(4.0)
    assert meter.report(4.0, 1.0) == pytest.approx(2.0)
    meter.acknowledge()
    assert meter.report(6.0, 1.0) == pytest.approx(0.0)


def test_load_counted_while_a_report_is_under_way_belongs_to_the_next():
    meter = LoadMeter(0.0)
    meter.add(2.0)
    meter.report(2.0, 1.0)
    meter.add(6.0)
    meter.acknowledge()
    assert meter.report(4.0, 1.0) == pytest.approx(3.0)


def test_too_short_a_window_is_no_news_and_loses_nothing():
    meter = LoadMeter(0.0)
    meter.add(4.0)
    assert meter.report(0.5, 1.0) is None
    meter.acknowledge()
    assert meter.report(2.0, 1.0) == pytest.approx(2.0)


def test_a_shard_whose_load_was_never_told_is_no_news():
    assert LoadMeter(0.0).report(5.0, 1.0) is None


def test_no_load_is_lost_between_threads():
    meter = LoadMeter(0.0)

    def count():
        for _ in range(10_000):
            meter.add(1.0)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.report(1.0, 0.5) == pytest.approx(40_000.0)


@pytest.mark.parametrize("load", [-0.1, float("nan"), float("inf"), 2 * LOAD_MAX])
def test_a_load_that_a_node_would_refuse_is_refused_here(load):
    shard, _, _ = granted()
    with pytest.raises(ValueError, match="load"):
        shard.add_load(load)
    with pytest.raises(ValueError, match="load"):
        shard.set_load(load)


def test_a_mean_above_what_a_node_takes_is_cut():
    meter = LoadMeter(0.0)
    for _ in range(3):
        meter.add(LOAD_MAX)
    assert meter.report(1.0, 0.5) == LOAD_MAX
