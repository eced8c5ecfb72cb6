"""Long work in slices: a generator that says how much it has done since it last paused.

Decides only how that is counted. The unit is one shard looked at, some tenth of a microsecond, so
that a slice ends after the same work on every machine and in every run: a clock would make two
runs differ.
"""

from collections.abc import Generator
from typing import Final, TypeVar

from coordinator.core.planner.board import Board

_Result = TypeVar("_Result")

SEAT_WORK: Final = 5
"""To set up or sum up an executor's seat costs as much as to look at so many shards."""

Slices = Generator[int, None, _Result]
"""Each `next` does a little and gives how much it was; the result comes with the end."""


def finished(slices: Slices[_Result]) -> _Result:
    """The result, all slices at once."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: _Result = end.value
            return result


def metered(board: Board, pauses: Generator[None, None, _Result]) -> Slices[_Result]:
    """Slices from pauses: what was looked at on the board between them."""
    seen = board.work
    while True:
        try:
            next(pauses)
        except StopIteration as end:
            result: _Result = end.value
            return result
        yield board.work - seen
        seen = board.work
