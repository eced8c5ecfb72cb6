"""`python -m tests.sim`: seeded fault schedules against the whole cluster on a virtual clock."""

import argparse
import json
import sys
from pathlib import Path

from coordinator.consensus.node import CURES
from tests.sim.runner import Request, run

NAMES = [cure.name for cure in CURES]


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not A-B") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} holds no seed")
    return seeds


def _cures(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; one of {', '.join(NAMES)}")
    return names


def _jobs(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("1 to 64")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 only when every seed held; 2 for what cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--scope", choices=("consensus", "system"), default="consensus")
    parser.add_argument("--seeds", type=_seeds, default=range(200), metavar="A-B")
    parser.add_argument("--json", action="store_true", help="the summary as a JSON line")
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep outcomes, skip kept ones")
    parser.add_argument(
        "--without", type=_cures, action="append", default=[], metavar="CURE[,CURE]"
    )
    asked = parser.parse_args(arguments)
    if asked.scope == "system":
        print("the scope `system` is not built yet: only `consensus` is", file=sys.stderr)
        return 2
    without = tuple(dict.fromkeys(name for names in asked.without for name in names))
    summary = run(Request(asked.seeds, without, asked.jobs, asked.resume), sys.stderr)
    print(json.dumps(summary) if asked.json else _told(summary), flush=True)
    return 1 if summary["failed"] else 0


def _told(summary: dict[str, object]) -> str:
    return "  ".join(f"{key}: {value}" for key, value in summary.items())


if __name__ == "__main__":
    sys.exit(main())
