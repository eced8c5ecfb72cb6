"""Smoothing and balancing together, over eight weeks of real hourly load."""

import gzip
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.load import LoadBook
from coordinator.core.planner import Hold, Piece, Seat, hash_place, waterfill
from tests.core.planner_fleets import SNAPSHOTS, settle

EXECUTORS = [f"e{at}" for at in range(10)]
HOURS = 1344
WINDOW = 24  # hours over which an executor's load is judged: one turn of the daily rhythm
COOLDOWN_H = 18  # a quarter of the horizon


def flights() -> dict[str, list[float]]:
    """Departures by shard and hour."""
    series: dict[str, list[float]] = {}
    with gzip.open(SNAPSHOTS / "nyc_flights_hourly_8weeks.csv.gz", "rt") as lines:
        next(lines)
        for line in lines:
            key, cells = line.rstrip("\n").split(",")
            series[key] = [0.0] * HOURS
            for cell in cells.split():
                hour, count = cell.split(":")
                series[key][int(hour)] = float(count)
    return series


def replayed(horizon_h: float, *, is_balanced: bool) -> tuple[float, int]:
    """Mean excess of the hottest executor over the best possible, and moves in all."""
    series = flights()
    where = hash_place(series, EXECUTORS)
    book = LoadBook(horizon_h, 1.0)
    seats = [Seat(executor) for executor in EXECUTORS]
    moved_at: dict[str, int] = {}
    window = dict.fromkeys(series, 0.0)
    excess, moves = [], 0
    for hour in range(HOURS):
        owned: dict[str, dict[str, float | None]] = {executor: {} for executor in EXECUTORS}
        for key, loads in series.items():
            owned[where[key]][key] = loads[hour]
            window[key] += loads[hour] - (loads[hour - WINDOW] if hour >= WINDOW else 0.0)
        for executor, loads_now in owned.items():
            book.fold(executor, loads_now, loads_now.keys(), float(hour))
        if hour >= WINDOW:
            on = dict.fromkeys(EXECUTORS, 0.0)
            for key, load in window.items():
                on[where[key]] += load
            excess.append(max(on.values()) / waterfill(window, len(EXECUTORS)).max - 1.0)
        if not is_balanced:
            continue
        pieces: dict[str, list[Piece]] = {executor: [] for executor in EXECUTORS}
        for key, load in book.means().items():
            is_resting = hour - moved_at.get(key, -COOLDOWN_H) < COOLDOWN_H
            hold = Hold.COOLDOWN if is_resting else None
            if not book.is_settled(key, WINDOW):
                hold = Hold.UNMEASURED
            pieces[where[key]].append(Piece(key, load, hold))
        plan = settle(seats, pieces, start_gap=0.2, stop_gap=0.1, budget=3)
        for move in plan.moves:
            where[move.key] = move.target
            moved_at[move.key] = hour
        moves += len(plan.moves)
    return sum(excess) / len(excess), moves


def test_a_dozen_moves_in_eight_weeks_hold_a_periodic_load_near_the_best_possible() -> None:
    hash_excess, _ = replayed(72.0, is_balanced=False)
    excess, moves = replayed(72.0, is_balanced=True)
    assert hash_excess > 0.5
    assert excess < 0.075
    assert moves < 20


@st.composite
def oscillations(draw: st.DrawFn) -> tuple[list[float], list[int], float, int]:
    """Loads of shards, the step at which each begins its swing, how far, and its period."""
    loads = draw(st.lists(st.floats(0.1, 10.0), min_size=3, max_size=24))
    period = draw(st.integers(2, 12))
    begins = draw(st.lists(st.integers(0, period - 1), min_size=len(loads), max_size=len(loads)))
    return loads, begins, draw(st.sampled_from([0.2, 0.6, 1.0])), period


@settings(max_examples=12, deadline=None)
@given(oscillations(), st.integers(2, 5))
def test_loads_that_swing_about_their_mean_are_settled_once_and_then_left_alone(
    swing: tuple[list[float], list[int], float, int], executors: int
) -> None:
    loads, begins, amplitude, period = swing
    names = EXECUTORS[:executors]
    keys = [f"s{at}" for at in range(len(loads))]
    where = {key: names[at % executors] for at, key in enumerate(keys)}
    horizon, cooldown = 4.0 * period, float(period)  # a quarter of the horizon, as by default
    book = LoadBook(horizon, 1.0)
    moved_at: dict[str, list[int]] = {key: [] for key in keys}
    steps = 30 * period
    for step in range(steps):
        report: dict[str, dict[str, float | None]] = {name: {} for name in names}
        for key, load, begin in zip(keys, loads, begins, strict=True):
            up = (step + begin) % period < (period + 1) // 2
            report[where[key]][key] = load * (1.0 + (amplitude if up else -amplitude))
        for name, held in report.items():
            book.fold(name, held, held.keys(), float(step))
        pieces: dict[str, list[Piece]] = {name: [] for name in names}
        for key in keys:
            rests = any(step - at < cooldown for at in moved_at[key][-1:])
            load = book.smoothed(key) or 0.0
            pieces[where[key]].append(Piece(key, load, Hold.COOLDOWN if rests else None))
        if step >= 2 * period:  # as a new leader, it listens first
            plan = settle([Seat(n) for n in names], pieces, start_gap=0.2, stop_gap=0.1, budget=4)
            for move in plan.moves:
                where[move.key] = move.target
                moved_at[move.key].append(step)
    for ats in moved_at.values():
        assert all(b - a >= cooldown for a, b in pairwise(ats))
    assert sum(map(len, moved_at.values())) <= 2 * len(keys)
    assert not any(at > steps // 2 for ats in moved_at.values() for at in ats)
