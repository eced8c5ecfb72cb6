"""`python -m tests.sim`: seeded fault schedules against the whole cluster on a virtual clock."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.sim.runner import OtherSource, Request, repeat_command, run
from tests.sim.scopes import CONSENSUS, SCOPES
from tests.sim.shrink import shrink


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not A-B") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} holds no seed")
    return seeds


def _unknown(without: Sequence[str], known: Sequence[str]) -> str | None:
    unknown = sorted(set(without) - set(known))
    return f"unknown {', '.join(unknown)}; one of {', '.join(known)}" if unknown else None


def _jobs(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("1 to 64")
    return int(text)


def _lines(text: str) -> tuple[int, ...]:
    parts = [] if text == "none" else text.split(",")
    if not all(part.isdigit() for part in parts):
        raise argparse.ArgumentTypeError("line numbers of a script, or none")
    return tuple(map(int, parts))


def _seconds(text: str) -> float:
    if not text.isdigit():
        raise argparse.ArgumentTypeError("whole seconds; 0 shrinks nothing")
    return float(text)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 only when every seed held; 2 for what cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--scope", choices=tuple(SCOPES), default=CONSENSUS.name)
    parser.add_argument("--seeds", type=_seeds, default=range(200), metavar="A-B")
    parser.add_argument("--json", action="store_true", help="the summary as a JSON line")
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep outcomes, skip kept ones")
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME[,NAME]", help="cures or rules"
    )
    parser.add_argument(
        "--only", type=_lines, metavar="N[,N]", help="these lines of the fault script of one seed"
    )
    parser.add_argument(
        "--shrink", type=_seconds, default=60.0, metavar="S", help="on the first seed that fails"
    )
    asked = parser.parse_args(arguments)
    if asked.only is not None and (len(asked.seeds) > 1 or asked.resume is not None):
        parser.error("--only is for one seed, and for none that is kept")
    named = (name for names in asked.without for name in names.split(",") if name)
    without = tuple(dict.fromkeys(named))
    if (unknown := _unknown(without, SCOPES[asked.scope].rules)) is not None:
        parser.error(f"--without: {unknown}")
    request = Request(
        asked.seeds, without, asked.jobs, asked.resume, only=asked.only, scope=asked.scope
    )
    try:
        summary = run(request, sys.stderr)
    except OtherSource as error:
        print(error, file=sys.stderr)
        return 2
    if asked.shrink and summary["first_failure"] is not None:
        _shrink(summary["first_failure"], request, asked.shrink)
    print(json.dumps(summary) if asked.json else _told(summary), flush=True)
    return 1 if summary["failed"] else 0


def _shrink(failure: Any, request: Request, seconds: float) -> None:
    """Tells the short script of this failure, and adds it to the summary."""
    logging.disable(logging.CRITICAL)
    seed = failure["seed"]
    try:
        short = shrink(
            seed,
            request.without,
            seconds=seconds,
            only=request.only,
            scope=SCOPES[request.scope],
        )
    finally:
        logging.disable(logging.NOTSET)
    repeat = repeat_command(seed, request.without, short.numbers, scope=request.scope)
    failure["repeat"] = repeat
    print(
        f"seed {seed} shrunk from {short.former} faults to {len(short.events)}:\n"
        + "".join(f"  {event}\n" for event in short.events)
        + f"  {short.what}\n  repeat: {repeat}",
        file=sys.stderr,
    )


def _told(summary: dict[str, object]) -> str:
    return "  ".join(f"{key}: {value}" for key, value in summary.items())


if __name__ == "__main__":
    sys.exit(main())
