"""Makes the script of a failing seed short: leaves lines out as long as the run still fails.

Decides which lines to try without. Must not know what a line does. Any failure counts: what is
left fails by itself, and is told with its own text.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.sim.faults import Event
from tests.sim.scopes import CONSENSUS, Scope

TRIES_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class Short:
    """A script that fails, and as far as was tried no shorter one does."""

    what: str
    events: tuple[Event, ...]
    former: int
    """Lines before."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the lines that are left, as `--only` takes them."""
        return tuple(event.number for event in self.events)


def shorten(
    numbers: Sequence[int],
    fails: Callable[[Sequence[int]], bool],
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[int]:
    """Delta debugging: drops halves, then quarters, down to single lines."""
    left = list(numbers)
    size = max(1, len(left) // 2)
    while left:
        start, has_shrunk = 0, False
        while start < len(left):
            if not may_go_on():
                return left
            rest = left[:start] + left[start + size :]
            if fails(rest):
                left, has_shrunk = rest, True
            else:
                start += size
        if size == 1 and not has_shrunk:
            break
        size = max(1, size // 2)
    return left


def shrink(
    seed: int,
    without: Sequence[str] = (),
    *,
    seconds: float = 60.0,
    only: Sequence[int] | None = None,
    scope: Scope = CONSENSUS,
) -> Short:
    """The short script of a seed that fails; raises ValueError when it holds."""
    script = scope.script(seed, without, only)
    first = scope.run_seed(seed, without, only)
    if first.what is None:
        raise ValueError(f"seed {seed} holds")
    deadline_s = time.monotonic() + seconds
    found = {tuple(event.number for event in script): first.what}
    tries = 0

    def fails(numbers: Sequence[int]) -> bool:
        nonlocal tries
        tries += 1
        what = scope.run_seed(seed, without, numbers).what
        if what is not None:
            found[tuple(numbers)] = what
        return what is not None

    left = shorten(
        [event.number for event in script],
        fails,
        lambda: tries < TRIES_MAX and time.monotonic() < deadline_s,
    )
    kept = tuple(event for event in script if event.number in left)
    return Short(found[tuple(left)], kept, len(script))
