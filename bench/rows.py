"""The rows that every bench prints: one measured figure beside a peer's, from the same run.

Decides their shape and how they are shown. Must not know what is measured.
"""

import json
import math
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `ratio` says how many times better than the peer: above 1 is better."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """What a ratio must reach for the bench to succeed."""

    row: str
    ratio_min: float


def higher_is_better(name: str, value: float, unit: str, peer: str, peer_value: float) -> Row:
    """A rate beside a peer's rate."""
    return Row(name, value, unit, peer, peer_value, _quotient(value, peer_value))


def lower_is_better(name: str, value: float, unit: str, peer: str, peer_value: float) -> Row:
    """A duration beside a peer's duration."""
    return Row(name, value, unit, peer, peer_value, _quotient(peer_value, value))


def percentile(ordered: list[float], share: float) -> float:
    """The value below which this share of ascending values lies; nan when there is none."""
    if not ordered:
        return math.nan
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def missed(rows: Iterable[Row], bars: Iterable[Bar]) -> list[str]:
    """The bars that were not reached, as sentences; a figure that is absent misses its bar."""
    ratios = {row.name: row.ratio for row in rows}
    found = []
    for bar in bars:
        ratio = ratios.get(bar.row)
        if ratio is None or not ratio >= bar.ratio_min:
            shown = "nothing" if ratio is None else f"{ratio:.3g}"
            found.append(f"{bar.row}: {shown} where {bar.ratio_min:g} is to be reached")
    return found


def machine() -> dict[str, object]:
    """What a summary says of the machine: its processors, and how many programs wanted them."""
    return {"cpus": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)}


def publish(rows: Iterable[Row], summary: dict[str, object], *, as_json: bool) -> None:
    """Rows and the summary to stdout: JSON lines, the summary last, or a table for people."""
    if as_json:
        for row in rows:
            print(json.dumps(asdict(_rounded(row))))
        print(json.dumps(summary))
        return
    for row in rows:
        beside = ""
        if row.peer is not None and row.peer_value is not None and row.ratio is not None:
            beside = f"   {row.peer}: {row.peer_value:,.4g} {row.unit}   ratio {row.ratio:,.3g}"
        print(f"{row.name:34} {row.value:12,.4g} {row.unit:14}{beside}")
    print("  ".join(f"{key}={value}" for key, value in summary.items()))


def progress(text: str) -> None:
    """A line of progress, to stderr."""
    print(text, file=sys.stderr, flush=True)


def _quotient(upper: float, lower: float) -> float:
    return upper / lower if lower > 0.0 else math.nan


def _rounded(row: Row) -> Row:
    return replace(
        row,
        value=_four_digits(row.value),
        peer_value=None if row.peer_value is None else _four_digits(row.peer_value),
        ratio=None if row.ratio is None else _four_digits(row.ratio),
    )


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")
