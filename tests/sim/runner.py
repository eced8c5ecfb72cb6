"""Runs many seeds, on several cores if asked, and keeps what was done in a file if asked.

Decides which seeds are left to run and what the summary says. Must not know what a seed does.
"""

import contextlib
import json
import logging
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from tests.sim.consensus import Outcome, run_seed

PROGRESS_S = 2.0


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked on the command line."""

    seeds: range
    without: tuple[str, ...] = ()
    jobs: int = 1
    resume: Path | None = None
    stops_at_failure: bool = False


def run(request: Request, progress: TextIO | None = None) -> dict[str, object]:
    """The summary of all seeds asked for, those of the resume file included."""
    started = time.monotonic()
    done = {o.seed: o for o in _read(request) if o.seed in request.seeds}
    left = [seed for seed in request.seeds if seed not in done]
    told = started
    with contextlib.closing(_outcomes(left, request)) as outcomes, _file(request.resume) as kept:
        for outcome in outcomes:
            done[outcome.seed] = outcome
            if kept is not None:
                kept.write(json.dumps({"without": request.without, **asdict(outcome)}) + "\n")
                kept.flush()
            if outcome.what is not None and progress is not None:
                print(f"seed {outcome.seed}: {outcome.what}", file=progress)
                print(f"  repeat: {repeat_command(outcome.seed, request.without)}", file=progress)
            if progress is not None and time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                print(f"{len(done)} of {len(request.seeds)} seeds", file=progress, flush=True)
            if outcome.what is not None and request.stops_at_failure:
                break
    return _summary(request, [done[seed] for seed in sorted(done)], time.monotonic() - started)


def repeat_command(seed: int, without: Sequence[str]) -> str:
    """The one command that repeats a seed."""
    left_out = "".join(f" --without {name}" for name in without)
    return f"python -m tests.sim --scope consensus --seeds {seed}-{seed}{left_out}"


def _summary(request: Request, outcomes: Sequence[Outcome], seconds: float) -> dict[str, object]:
    failures = [outcome for outcome in outcomes if outcome.what is not None]
    first = {"seed": failures[0].seed, "what": failures[0].what} if failures else None
    return {
        "scope": "consensus",
        "seeds": len(outcomes),
        "failed": len(failures),
        "first_failure": first,
        "crashes": sum(outcome.crashes for outcome in outcomes),
        "partitions": sum(outcome.partitions for outcome in outcomes),
        "moves": 0,
        "seconds": round(seconds, 2),
        "committed": sum(outcome.committed for outcome in outcomes),
        "terms": sum(outcome.terms for outcome in outcomes),
        "confirmed": sum(outcome.confirmed for outcome in outcomes),
        "without": list(request.without),
    }


def _outcomes(seeds: Iterable[int], request: Request) -> Iterator[Outcome]:
    one = partial(run_seed, without=request.without)
    if request.jobs == 1:
        # The nodes log each fault; a thousand seeds of it help nobody.
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield from map(one, seeds)
        finally:
            logging.disable(disabled)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(request.jobs, _silence) as pool:
        yield from pool.imap(one, seeds, chunksize=4)


def _silence() -> None:
    logging.disable(logging.CRITICAL)


def _read(request: Request) -> Iterator[Outcome]:
    path = request.resume
    if path is None or not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            kept = json.loads(line)
            if tuple(kept.pop("without")) == request.without:
                yield Outcome(**kept)
        except (ValueError, TypeError, KeyError):
            print(f"{path}: a line is not an outcome and is run again", file=sys.stderr)


@contextlib.contextmanager
def _file(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
    else:
        with path.open("a") as file:
            yield file
