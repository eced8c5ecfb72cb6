"""Runs many seeds, on several cores if asked, and keeps what was done in a file if asked.

Decides which seeds are left to run and what the summary says. Must not know what a seed does. A
file of outcomes belongs to one state of the source: its first line names it.
"""

import contextlib
import hashlib
import json
import logging
import multiprocessing
import subprocess
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

from tests.sim.scopes import CONSENSUS, SCOPES, Outcome, Scope

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRESS_S: Final = 2.0
BAR: Final = 24


class OtherSource(Exception):  # noqa: N818 - says what is wrong with the file
    """The kept outcomes are of another state of the source."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked on the command line."""

    seeds: range
    without: tuple[str, ...] = ()
    jobs: int = 1
    resume: Path | None = None
    stops_at_failure: bool = False
    only: tuple[int, ...] | None = None
    """Lines of the script; the others are left out."""
    scope: str = CONSENSUS.name

    def repeat(self, seed: int) -> str:
        """The one command that repeats a seed of this request."""
        return repeat_command(seed, self.without, self.only, scope=self.scope)


def run(request: Request, progress: TextIO | None = None) -> dict[str, object]:
    """The summary of all seeds asked for, those of the resume file included."""
    started = time.monotonic()
    kept = dict(_read(request)) if request.resume is not None else {}
    done = {seed: kept[seed] for seed in request.seeds if seed in kept}
    left = [seed for seed in request.seeds if seed not in done]
    bar = Bar(len(request.seeds), len(done), progress)
    with contextlib.closing(_outcomes(left, request)) as outcomes, _file(request) as file:
        for outcome, cpu_s in outcomes:
            done[outcome.seed] = (outcome, cpu_s)
            if file is not None:
                row = {"without": request.without, "cpu_s": cpu_s, **_fields(outcome)}
                file.write(json.dumps(row) + "\n")
                file.flush()
            if outcome.what is not None:
                bar.say(f"seed {outcome.seed}: {outcome.what}")
                bar.say(f"  repeat: {request.repeat(outcome.seed)}")
            bar.moved(len(done))
            if outcome.what is not None and request.stops_at_failure:
                break
    bar.end()
    ordered = [done[seed] for seed in sorted(done)]
    return _summary(request, ordered, time.monotonic() - started)


class Bar:
    """How far it is: one line that is written over on a terminal, else one from time to time."""

    def __init__(self, total: int, done: int, out: TextIO | None) -> None:
        self._total = total
        self._before = done
        self._out = out
        self._is_terminal = out is not None and out.isatty()
        self._started = self._told = time.monotonic()

    def text(self, done: int, elapsed_s: float) -> str:
        """The bar, the count, and how long it will take at this pace."""
        filled = BAR * done // self._total
        fresh = done - self._before
        left_s = elapsed_s / fresh * (self._total - done) if fresh else 0.0
        clock = f"{int(left_s) // 60}:{int(left_s) % 60:02}"
        return f"[{'#' * filled:{BAR}}] {done} of {self._total} seeds, {clock} left"

    def moved(self, done: int) -> None:
        """Tells it, not too often."""
        now = time.monotonic()
        if self._out is None or now - self._told < (0.2 if self._is_terminal else PROGRESS_S):
            return
        self._told = now
        end = "\r" if self._is_terminal else "\n"
        print(self.text(done, now - self._started), end=end, file=self._out, flush=True)

    def say(self, line: str) -> None:
        """A line that stays."""
        if self._out is not None:
            print(f"\x1b[K{line}" if self._is_terminal else line, file=self._out, flush=True)

    def end(self) -> None:
        """Leaves a clean line."""
        if self._is_terminal and self._out is not None:
            print("\x1b[K", end="", file=self._out, flush=True)


def repeat_command(
    seed: int,
    without: Sequence[str],
    only: Collection[int] | None = None,
    *,
    scope: str = CONSENSUS.name,
) -> str:
    """The one command that repeats a seed, or some lines of its script."""
    left_out = "".join(f" --without {name}" for name in without)
    lines = "" if only is None else f" --only {','.join(map(str, only)) or 'none'}"
    return f"python -m tests.sim --scope {scope} --seeds {seed}-{seed}{left_out}{lines}"


def _summary(
    request: Request, done: Sequence[tuple[Outcome, float]], seconds: float
) -> dict[str, object]:
    outcomes = [outcome for outcome, _ in done]
    failures = [outcome for outcome in outcomes if outcome.what is not None]
    first = {"seed": failures[0].seed, "what": failures[0].what} if failures else None

    def total(key: str) -> int:
        return sum(getattr(outcome, key, 0) for outcome in outcomes)

    return {
        "scope": request.scope,
        "seeds": len(outcomes),
        "failed": len(failures),
        "first_failure": first,
        "crashes": total("crashes"),
        "partitions": total("partitions"),
        "moves": total("moves"),
        "seconds": round(seconds, 2),
        **{key: total(key) for key in SCOPES[request.scope].counted},
        "cpu_s_per_seed": round(sum(cpu_s for _, cpu_s in done) / max(1, len(done)), 3),
        "without": list(request.without),
    }


def _timed(seed: int, request: Request) -> tuple[Outcome, float]:
    started = time.process_time()
    outcome = SCOPES[request.scope].run_seed(seed, request.without, request.only)
    return outcome, round(time.process_time() - started, 4)


def _outcomes(
    seeds: Iterable[int], request: Request
) -> Generator[tuple[Outcome, float], None, None]:
    one = partial(_timed, request=request)
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


# The file of outcomes.


def source(scope: Scope) -> dict[str, str]:
    """The commit, and a hash of all that an outcome depends on: equal hash, equal outcomes."""
    digest = hashlib.sha256()
    for place in scope.sources:
        path = ROOT / place
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        for file in files:
            if not file.name.startswith("test_"):
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    told = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"],  # noqa: S607 - git of the path is meant
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "scope": scope.name,
        "commit": told.stdout.strip() or "unknown",
        "source": digest.hexdigest()[:16],
    }


def _read(request: Request) -> Iterator[tuple[int, tuple[Outcome, float]]]:
    path = request.resume
    if path is None or not path.exists():
        return
    lines = path.read_text().splitlines()
    scope = SCOPES[request.scope]
    here = source(scope)
    head = _row(lines[0]) if lines else None
    if head is not None and head.get("source") != here["source"]:
        raise OtherSource(
            f"{path} holds outcomes of scope {head.get('scope', '?')} and commit "
            f"{head.get('commit', '?')}, whose source differs from the one here "
            f"({here['scope']}, {here['commit']}): check that commit out, or begin another file"
        )
    for line in lines[1:]:
        row = _row(line)  # the last line may be half: it is run again
        if row is not None and tuple(row.pop("without", ())) == request.without:
            cpu_s = float(row.pop("cpu_s"))
            outcome = scope.outcome(**row)
            yield outcome.seed, (outcome, cpu_s)


def _fields(outcome: Outcome) -> dict[str, Any]:
    return asdict(outcome)  # type: ignore[call-overload, no-any-return] # each is a dataclass


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


@contextlib.contextmanager
def _file(request: Request) -> Iterator[TextIO | None]:
    path = request.resume
    if path is None:
        yield None
        return
    with path.open("a+") as file:
        file.seek(0)
        text = file.read()
        if not text:
            file.write(json.dumps(source(SCOPES[request.scope])) + "\n")
        elif not text.endswith("\n"):
            file.write("\n")
        yield file
