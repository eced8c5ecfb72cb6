"""Smoothing and balancing together, over eight weeks of real hourly load."""

import gzip

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
