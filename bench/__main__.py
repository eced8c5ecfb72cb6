"""All benches, one after the other: `python -m bench [NAME ...] [--quick] [--keep]`.

Each is a process of its own that leaves its JSON lines in `bench/results/NAME.jsonl`. Then the
table and the picture in `bench/README.md` are made from all that lies there (`--keep` leaves them
as they are). Exit status 0 only when every bench reached its bars.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.report import RESULTS, write
from bench.rows import progress

BENCHES: Final[dict[str, tuple[str, ...]]] = {
    "consensus": (),
    "api": (),
    "peers": (),
    "fanout": (),
    "idle": (),
    "failover": (),
    "moves": (),
    "planner": (),
    "kit": (),
    "scale": ("--shards", "100000"),
    "soak": ("--minutes", "5"),
}
"""Those that need nothing but this checkout, in the order of the table; peers that are not
installed are skipped by each. `balance` and `replay` take folders of data, `demo` is for people."""

QUICK: Final[dict[str, tuple[str, ...]]] = {
    "consensus": ("--rounds", "1"),
    "api": ("--rounds", "1", "--seconds", "0.5"),
    "peers": ("--rounds", "1", "--seconds", "1"),
    "fanout": ("--routers", "1000", "--changes", "2"),
    "idle": ("--executors", "100", "--seconds", "5"),
    "scale": ("--shards", "2000", "--executors", "50", "--no-growth"),
    "soak": ("--minutes", "1"),
}
"""To see that everything runs; figures of such a run are worth little."""


def run(name: str, arguments: tuple[str, ...]) -> bool:
    """One bench, to its end; whether its bars held. Its figures are kept either way."""
    began = time.monotonic()
    progress(f"== bench.{name} {' '.join(arguments)}".rstrip())
    argv = [sys.executable, "-m", f"bench.{name}", "--json", *arguments]
    ended = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if ended.stdout.strip():
        RESULTS.mkdir(exist_ok=True)
        *rows, summary = ended.stdout.splitlines()
        told = json.dumps({**json.loads(summary), "arguments": " ".join(arguments)})
        kept = "\n".join([*rows, told, ""])
        (RESULTS / f"{name}.jsonl").write_text(kept, encoding="utf-8")
    progress(f"== bench.{name} ended with {ended.returncode} in {time.monotonic() - began:.0f} s")
    return ended.returncode == 0


def main() -> int:
    """Run what is asked for, then tell."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--quick", action="store_true", help="short rounds and small fleets")
    parser.add_argument("--keep", action="store_true", help="leave bench/README.md as it is")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in BENCHES]
    if unknown:
        parser.error(f"no bench is called {', '.join(unknown)}")
    table = QUICK if args.quick else BENCHES
    failed = [name for name in args.names or BENCHES if not run(name, table.get(name, ()))]
    if not args.keep:
        progress(f"written: {os.path.relpath(write(Path(__file__).parent, tuple(BENCHES)))}")
    if failed:
        progress(f"below their bars, or broken: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
