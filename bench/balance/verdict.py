"""What the figures must be for the bench to succeed, and how they are summed up.

Decides bars and means over cases. Must not know how a row came about.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

from bench.balance.cases import METHODS, Row

RELATIVE: Final = 1.01
CLOSE: Final = 0.005
FAR: Final = 0.011
"""Within 1 % of the best spread and half a point on nearly all, and 1.1 points on all: where the
bound is zero only points can be judged."""
CLOSE_SHARE: Final = 0.95
NEAR_RATIO: Final = 1.25
"""Moves to bring the hottest near its bound, beside the fewest that a solver proves."""


def misses(rows: Sequence[Row], level: str) -> list[str]:
    """Every bar that does not hold, as a sentence; from hashing, as nobody's favour."""
    by_method = {
        method: [row for row in rows if row.method == method and row.start == "hash"]
        for method in METHODS
    }
    ours = by_method["ours"]
    if not ours:
        return []
    said = _beside_solver(rows) if level == "tight" else []
    if level == "tight":
        close = [row for row in ours if _is_within(row, CLOSE)]
        if len(close) < CLOSE_SHARE * len(ours):
            said.append(f"only {len(close)} of {len(ours)} within half a point of the bound")
        said += [
            f"{row.snapshot}/{row.executors}: spread {row.spread:.4f}, bound {row.bound:.4f}"
            for row in ours
            if not _is_within(row, FAR)
        ]
    if level == "default" and by_method["uber"]:
        uber = by_method["uber"]
        if _mean_excess(ours) >= _mean_excess(uber):
            said.append("no less excess than the Uber rule")
        if _moves(ours) >= _moves(uber):
            said.append("no fewer moves than the Uber rule")
        free = by_method["uber_unguarded"]
        if free and fmean(r.moved_load for r in ours) >= fmean(r.moved_load for r in free):
            said.append("no less load moved than by the Uber rule without its guard")
    return said


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Means for each start and method."""
    found: dict[str, object] = {"cases": len({(r.snapshot, r.executors, r.start) for r in rows})}
    for start in dict.fromkeys(row.start for row in rows):
        for method in METHODS:
            chosen = [row for row in rows if (row.start, row.method) == (start, method)]
            if chosen:
                found[f"{start}.{method}"] = _means(chosen)
    ratio = near_ratio(rows)
    if ratio is not None:
        found["moves_to_near_over_proven"] = round(ratio, 3)
    return found


def near_ratio(rows: Sequence[Row]) -> float | None:
    """Our moves to near the bound in all, over the fewest, where those are known; None without any.

    Known is what the solver found and proved to be the fewest: a proof cut short proves little.
    """
    ours, proven = 0, 0
    least = {
        _case(row): row.moves_to_near_proven
        for row in rows
        if row.moves_to_near_proven is not None and row.moves_to_near == row.moves_to_near_proven
    }
    for row in rows:
        fewest = least.get(_case(row), 0)
        if row.method == "ours" and fewest and row.moves_to_near is not None:
            ours, proven = ours + row.moves_to_near, proven + fewest
    return ours / proven if proven else None


def _beside_solver(rows: Sequence[Row]) -> list[str]:
    solved = {_case(row): row for row in rows if row.method == "solver"}
    said = []
    for row in rows:
        best = solved.get(_case(row)) if row.method == "ours" else None
        if best is not None and best.spread > CLOSE and row.spread > RELATIVE * best.spread:
            said.append(
                f"{row.snapshot}/{row.executors} from {row.start}: spread {row.spread:.4f}, "
                f"the solver's is {best.spread:.4f}"
            )
    ratio = near_ratio(rows)
    if ratio is not None and ratio > NEAR_RATIO:
        said.append(f"{ratio:.2f} times the fewest moves to near the bound")
    return said


def _case(row: Row) -> tuple[str, int, str]:
    return (row.snapshot, row.executors, row.start)


def _is_within(row: Row, points: float) -> bool:
    return row.spread <= RELATIVE * row.bound + points


def _mean_excess(rows: Sequence[Row]) -> float:
    return fmean(row.excess for row in rows)


def _moves(rows: Sequence[Row]) -> int:
    return sum(row.moves for row in rows)


def _means(rows: Sequence[Row]) -> dict[str, float]:
    excess = [row.excess for row in rows]
    return {
        "excess_mean": round(fmean(excess), 5),
        "excess_median": round(median(excess), 5),
        "excess_max": round(max(excess), 5),
        "moves": _moves(rows),
        "moves_share_mean": round(fmean(row.moves / max(1, row.shards) for row in rows), 5),
        "moved_load_mean": round(fmean(row.moved_load for row in rows), 5),
        "within_half_a_point": sum(_is_within(row, CLOSE) for row in rows),
        "cases": len(rows),
        "seconds": round(sum(row.seconds for row in rows), 3),
    }
