"""The figures of a run as a table and a picture in `bench/README.md`.

Decides what is shown of them: every row that stands beside something. Must not know what is
measured; what a row means its bench says.
"""

import json
import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.chart import bars, save
from bench.rows import Row

RESULTS: Final = Path(__file__).with_name("results")
PICTURE: Final = "figures.svg"
BEGIN: Final = "<!-- figures: python -m bench -->"
END: Final = "<!-- end of figures -->"
LIBRARIES: Final = ("aiohttp", "uvloop", "msgspec", "pysyncobj")


@dataclass(frozen=True, slots=True)
class Ended:
    """One bench that ran: its rows, and what it says of the run."""

    name: str
    rows: tuple[Row, ...]
    summary: dict[str, Any]
    at: float
    """Wall seconds of its end."""


def read(folder: Path, names: Iterable[str]) -> list[Ended]:
    """What was kept of these benches; those that never ran are left out."""
    found = []
    for name in names:
        path = folder / f"{name}.jsonl"
        if path.exists():
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            rows = tuple(Row(**line) for line in lines[:-1])
            found.append(Ended(name, rows, lines[-1], path.stat().st_mtime))
    return found


def write(folder: Path, names: tuple[str, ...]) -> Path:
    """Put the table where its marks are, and the picture beside it; the file that was written."""
    ended = read(RESULTS, names)
    save(folder / PICTURE, picture(ended))
    path = folder / "README.md"
    before, begun, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not begun or not closed:
        raise ValueError(f"{path} has no place for figures: {BEGIN} ... {END}")
    path.write_text(f"{before}{BEGIN}\n{table(ended)}\n{END}{after}", encoding="utf-8")
    return path


def table(ended: list[Ended]) -> str:
    """Each row that has a peer, and on what machine when."""
    lines = [
        "",
        f"{machine()}. A ratio says how many times better than what stands beside it.",
        "",
        "| bench | figure | value | beside | its value | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for one in ended:
        for row in one.rows:
            if row.peer is not None and row.peer_value is not None and row.ratio is not None:
                value, peer_value = shown(row.value, row.unit), shown(row.peer_value, row.unit)
                lines.append(
                    f"| `{one.name}` | {row.name} | {value} | {row.peer} | {peer_value}"
                    f" | {row.ratio:.3g} |"
                )
    for one in ended:
        at = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        told = "every bar held" if one.summary.get("ok") else missed(one.summary)
        skipped = "".join(f"; skipped: {why}" for why in one.summary.get("skipped", {}).values())
        load = one.summary.get("load_average", "unknown")
        command = f"bench.{one.name} {one.summary.get('arguments', '')}".rstrip()
        lines.append(f"\n`{command}`, {at}, load average {load}: {told}{skipped}.")
    return "\n".join([*lines, "", f"![Ratios]({PICTURE})", ""])


def missed(summary: dict[str, Any]) -> str:
    """Which bars were not reached."""
    return "missed " + "; ".join(summary.get("missed", [])) if summary.get("missed") else "broken"


def shown(value: float, unit: str) -> str:
    """A figure for people."""
    figure = f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
    return f"{figure} {unit}"


def machine() -> str:
    """Where this runs, and with what."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")),
        platform.machine(),
    )
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{os.cpu_count()} cores ({cpu}), {platform.system()}, Python {python}, {libraries}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def picture(ended: list[Ended]) -> str:
    """The ratio of every row that has one."""
    found = [
        (f"{one.name}: {row.name}", row.ratio)
        for one in ended
        for row in one.rows
        if row.ratio is not None and row.ratio > 0.0
    ]
    return bars("How many times better than what stands beside it", found)
