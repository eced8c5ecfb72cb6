"""The demo's load is the real series, and every process replays the same hour."""

from bench.demo.workload import DAYS, Workload, read_series


def test_the_series_has_a_shard_per_carrier_and_destination_and_every_departure():
    series = read_series()
    assert len(series) == 243
    assert sum(sum(cells.values()) for cells in series.values()) == 51_870


def test_hours_of_the_day_follow_each_other_and_nights_are_left_out():
    workload = Workload({}, began_at=100.0, hour_s=1.0)
    hours = [workload.hour_at(100.5 + passed) for passed in range(31)]
    assert hours[:15] == list(range(6, 21))
    assert hours[15:30] == list(range(24 + 6, 24 + 21))
    assert hours[30] == 48 + 6


def test_the_replay_begins_again_after_the_last_day_and_stands_at_its_start_before_it():
    workload = Workload({}, began_at=0.0, hour_s=1.0)
    assert workload.hour_at(DAYS * 15 + 0.5) == 6
    assert workload.hour_at(-5.0) == 6


def test_every_replayed_hour_has_a_load_worth_balancing():
    workload = Workload(read_series(), began_at=0.0)
    busy = [
        sum(workload.load(key, workload.hour_at(passed + 0.5)) for key in workload.keys)
        for passed in range(DAYS * 15)
    ]
    assert min(busy) >= 15
