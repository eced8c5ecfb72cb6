"""What the client kit costs in the process of its user: look-ups, busy sections, the import.

`python -m bench.kit [--json]`. Each figure stands beside its bar; look-ups and sections also beside
the cheapest thing that does the same: a dictionary look-up, an empty context manager. The best of
several rounds counts, as other programs only ever disturb one. Exit status 0 only when the bars
hold.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from bench.rows import Bar, Row, lower_is_better, machine, missed, publish
from client.load import LoadRecorder
from client.protocol import RoutedExecutor, RoutingAnswer
from client.table import RoutingTable

SHARDS: Final = 100_000
ROUNDS: Final = 300
"""Short rounds and many: one of them is left alone by everything else on the machine."""
CALLS: Final = 2_000
IMPORTS: Final = 10
BARS_S: Final = {"owner": 1e-6, "busy_section": 2e-6, "import_beside_aiohttp": 0.150}
BARS: Final = tuple(Bar(name, 1.0) for name in BARS_S)


def table() -> RoutingTable:
    """A table of many shards, each asked for once, as in a router that has run for a while."""
    made = RoutingTable()
    made.apply(
        RoutingAnswer(
            kind="snapshot",
            cursor="c:1",
            executors={f"e{number}": RoutedExecutor(f"10.0.0.{number}:1") for number in range(100)},
            owners={f"shard-{number}": (f"e{number % 100}", number) for number in range(SHARDS)},
        )
    )
    made.owners()
    return made


def best_s(once: Callable[[], object]) -> float:
    """Seconds of one call, in the best round."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            once()
        rounds.append((time.perf_counter() - began) / CALLS)
    return min(rounds)


def owner_s() -> float:
    """One look-up in the table."""
    routes = table()
    return best_s(lambda: routes.owner("shard-777"))


def lookup_s() -> float:
    """The same in a dictionary."""
    plain = {f"shard-{number}": number for number in range(SHARDS)}
    return best_s(lambda: plain.get("shard-777"))


def section_s() -> float:
    """One busy section that does nothing."""
    recorder = LoadRecorder()

    def once() -> None:
        with recorder.busy("shard-777"):
            pass

    return best_s(once)


def import_s() -> float:
    """Processor seconds of a fresh interpreter that has aiohttp already; the least of several.

    Not the difference of two whole imports: their noise on a busy machine is larger than that.
    """
    code = "import time, aiohttp; t = time.process_time(); import client; "
    code += "print(time.process_time() - t)"
    taken = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(IMPORTS)
    ]
    return min(taken)


def rows_of() -> list[Row]:
    """Each figure beside its bar, and beside the cheapest thing of its kind."""
    return [
        lower_is_better("owner", owner_s(), "s", "the bar", BARS_S["owner"]),
        Row("dict_get", lookup_s(), "s"),
        lower_is_better("busy_section", section_s(), "s", "the bar", BARS_S["busy_section"]),
        lower_is_better(
            "import_beside_aiohttp", import_s(), "s", "the bar", BARS_S["import_beside_aiohttp"]
        ),
    ]


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.kit", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    told = parser.parse_args()
    began = time.monotonic()
    rows = rows_of()
    faults = missed(rows, BARS)
    summary: dict[str, object] = {
        "ok": not faults,
        "shards": SHARDS,
        **machine(),
        "missed": faults,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(rows, summary, as_json=told.json)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
