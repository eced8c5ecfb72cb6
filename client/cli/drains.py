"""`shardctl drain`: list, show, wait; and how every command waits for a drain."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from client import calls, errors, views
from client.cli import faults, output
from client.cli.session import Session, command, note
from client.operator import WAIT_TIMEOUT_S

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def drain() -> None:
    """Drains of executors and hosts, and how far they are."""


def timeout_option(function: F) -> F:
    """`--timeout SECONDS` of commands that wait."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=WAIT_TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait; the drain goes on afterwards.",
    )(function)


async def wait(session: Session, drain_id: str, timeout_s: float) -> int:
    """Follow a drain on standard error until it is done; gives the exit status."""
    with _progress() as show:
        try:
            await session.operator.wait_drained(
                session.namespace, drain_id, timeout_s=timeout_s, on_progress=show
            )
        except errors.TimedOut as late:
            note(
                f"shardctl: {late.detail} — it goes on — follow it with `shardctl drain wait"
                f" {drain_id}`"
            )
            return faults.WAIT_TIMED_OUT
        except BaseException:
            note(f"drain {drain_id} goes on; follow it with `shardctl drain wait {drain_id}`")
            raise
    return faults.DONE


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[views.DrainView], None]]:
    """A bar on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():

        def line(view: views.DrainView) -> None:
            reasons = sorted({shard.reason for shard in view.blocked})
            why = f" ({', '.join(reasons)})" if reasons else ""
            note(
                f"drain {view.id}: {view.state}{why}, {view.shards_moved} moved,"
                f" {view.shards_left} left"
            )

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} moved"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("draining", total=None)

        def redraw(view: views.DrainView) -> None:
            progress.update(
                bar,
                description=view.state,
                completed=view.shards_moved,
                total=view.shards_moved + view.shards_left,
            )

        yield redraw


@command(drain, "list")
async def list_(session: Session) -> None:
    """List the drains of the namespace."""
    await session.list_(calls.drains(session.namespace), output.DRAINS)


@command(drain, "show")
@click.argument("drain_id")
async def show(session: Session, drain_id: str) -> None:
    """Show a drain, its progress and what blocks it."""
    await session.show(calls.drain(session.namespace, drain_id), "id")


@command(drain, "wait")
@click.argument("drain_id")
@timeout_option
async def wait_(session: Session, drain_id: str, timeout_s: float) -> int:
    """Wait until every shard was acknowledged away."""
    return await wait(session, drain_id, timeout_s)
