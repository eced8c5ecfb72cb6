"""The page that lists all metrics is the tables, written out; `make rewrite` writes it anew."""

import os
from pathlib import Path

from coordinator.metrics.series import EXECUTORS_MAX, NAMESPACES_MAX
from coordinator.metrics.tables import COUNTERS, GAUGES, HISTOGRAMS, OTHERS, PREFIX, Table

PAGE = Path(__file__).parents[2] / "configs" / "METRICS.md"


def section(title: str, table: Table, ending: str = "") -> str:
    rows = [
        f"| `{PREFIX}{name}{ending}` | {', '.join(f'`{one}`' for one in labels)} | {text} |"
        for name, (text, labels) in table.items()
    ]
    return "\n".join([f"## {title}\n", "| name | labels | what it says |", "|---|---|---|", *rows])


def tables() -> str:
    parts = (
        section("Gauges", {**GAUGES, **OTHERS}),
        section("Counters", COUNTERS, "_total"),
        section("Histograms", HISTOGRAMS),
    )
    return "\n\n".join(parts) + "\n"


def test_the_page_lists_every_metric_as_it_is_served() -> None:
    preface, found, listed = PAGE.read_text().partition("## Gauges")
    if os.environ.get("REWRITE"):
        PAGE.write_text(preface + tables())
    else:
        assert found + listed == tables(), "write it anew by `make rewrite`"


def test_the_bounds_that_the_page_tells_are_those_in_force() -> None:
    text = PAGE.read_text()
    assert f"the {NAMESPACES_MAX} oldest namespaces" in text
    assert f"{EXECUTORS_MAX:,} executors" in text
