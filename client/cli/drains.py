"""`shardctl drain`: list, show, wait."""

import click

from client import calls
from client.cli import output, waits
from client.cli.session import Session, command


@click.group()
def drain() -> None:
    """Drains of executors and hosts, and how far they are."""


@command(drain, "list", can_watch=True)
async def list_(session: Session) -> None:
    """List the drains of the namespace."""
    await session.list_(calls.drains(session.namespace), output.DRAINS)


@command(drain, "show", can_watch=True)
@click.argument("drain_id")
async def show(session: Session, drain_id: str) -> None:
    """Show a drain, its progress and what blocks it."""
    await session.show(calls.drain(session.namespace, drain_id), "id")


@command(drain, "wait")
@click.argument("drain_id")
@waits.timeout_option
async def wait(session: Session, drain_id: str, timeout_s: float) -> int:
    """Wait until every shard was acknowledged away."""
    return await waits.drained(session, drain_id, timeout_s)
