"""How far something is, on standard error: a bar on a terminal, lines elsewhere."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from client.cli.session import note

Show = Callable[[str, int, int], None]
"""What it is at, how much is done, and of how much."""


@contextlib.contextmanager
def progress(name: str) -> Iterator[Show]:
    """Shows each state that differs from the one before."""
    if not sys.stderr.isatty():
        last = ""

        def line(state: str, done: int, total: int) -> None:
            nonlocal last
            text = f"{name}: {state}, {done} of {total} moved"
            if text != last:
                note(text)
            last = text

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} moved"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task(name, total=None)

        def redraw(state: str, done: int, total: int) -> None:
            bars.update(bar, description=f"{name}: {state}", completed=done, total=total)

        yield redraw
