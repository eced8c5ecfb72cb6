"""What benches of scale and soak make of figures: slopes, growth, and loops that stand still."""

import math
import random
from pathlib import Path

import msgspec
import pytest

from bench.rows import Row
from bench.scale.__main__ import bars_of, judged
from bench.scale.growth import fitted
from bench.scale.node import Change, Note
from bench.scale.notes import Notebook, lag_of
from bench.scale.run import Size
from bench.soak.flatness import trend


def note(at: float, *stalls_ms: float, looks: int = 100) -> Note:
    return Note(
        at=at,
        stalls_ms=list(stalls_ms),
        walls_ms=[2 * one for one in stalls_ms],
        looks=looks,
        cpu_s=0.0,
        memory_mb=50.0,
        blocks=1_000,
        descriptors=30,
        is_leading=False,
        applied=1,
        snapshot=0,
        shards=5,
        changes=[Change(at, 2, 0)],
    )


def test_turns_that_took_no_time_count_for_the_percentile_and_are_not_written_down():
    lag = lag_of([note(0.0, 40.0, 5.0), note(0.5, looks=200)])
    assert (lag.p99, lag.max, lag.wall_max) == (0.0, 40.0, 80.0)
    assert lag_of([note(0.0, *[5.0] * 10)]).p99 == 5.0


def test_notes_are_read_as_they_come_and_half_a_line_later(tmp_path: Path):
    path = tmp_path / "n1.notes"
    book = Notebook(path)
    assert book.last is None
    first, second = (msgspec.json.encode(note(at)) + b"\n" for at in (1.0, 2.0))
    path.write_bytes(first + second[:20])
    assert [one.at for one in book.read()] == [1.0]
    path.write_bytes(first + second)
    assert [one.at for one in book.read()] == [1.0, 2.0]
    assert [one.at for one in book.between(1.5, 3.0)] == [2.0]
    assert [one.at for one in book.changes(2.0)] == [2.0]


def test_growth_is_the_slope_through_logarithms():
    sizes = (1_000, 10_000, 100_000)
    assert fitted(sizes, [0.5 * size for size in sizes]).exponent == pytest.approx(1.0)
    assert fitted(sizes, [size * math.log(size) for size in sizes]).exponent > 1.05
    assert fitted(sizes, [3.0] * 3).factor == pytest.approx(3.0)


def test_what_is_above_its_bar_or_was_not_measured_is_said():
    bars = {"lag": 20.0, "memory": 600.0, "absent": 1.0}
    rows, broken = judged([Row("lag", 21.0, "ms"), Row("memory", 500.0, "MB")], bars)
    assert [one.split(":")[0] for one in broken] == ["lag", "absent"]
    assert [round(row.ratio or 0.0, 2) for row in rows] == [0.95, 1.2]
    assert any("catch_up_lag_max" in name for name in bars_of(Size(10, 2, "open")))


def test_noise_is_flat_and_a_leak_is_not():
    chance = random.Random(1)
    noise = [(second, 60.0 + chance.gauss(0.0, 0.5)) for second in range(1_200)]
    assert trend(noise).is_flat(2.0, 10.0)
    leak = [(second, figure + second * 10.0 / 3_600.0) for second, figure in noise]
    assert trend(leak).per_hour == pytest.approx(10.0, abs=1.0)
    assert not trend(leak).is_flat(2.0, 20.0)
    falling = trend([(second, -second) for second in range(1_200)])
    assert falling.is_flat(0.0, 1.0)


def test_what_little_can_be_told_of_is_not_flat():
    chance = random.Random(2)
    wild = [(60.0 * minute, 60.0 + chance.gauss(0.0, 20.0)) for minute in range(20)]
    line = trend(wild)
    assert line.per_hour - line.error_per_hour < 0.0
    assert not line.is_flat(2.0, 10.0)


def test_an_interval_holds_the_true_slope_nineteen_times_in_twenty_also_when_minutes_are_alike():
    held = 0
    for seed in range(200):
        chance, level, points = random.Random(seed), 0.0, []
        for minute in range(20):
            level = 0.5 * level + chance.gauss(0.0, 0.3)
            points.append((60.0 * minute, 60.0 + 5.0 * minute / 60.0 + level))
        line = trend(points)
        held += abs(line.per_hour - 5.0) <= line.error_per_hour
    assert held >= 170  # the likeness is estimated from the same twenty minutes


def test_two_minutes_tell_nothing():
    assert trend([(second, float(second)) for second in range(100)]).is_flat(0.0, 1.0)
    assert trend([]).mean == 0.0
