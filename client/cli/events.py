"""`shardctl events`: list, and watch."""

from collections.abc import Sequence

import click
import msgspec

from client import calls, views
from client.cli import output
from client.cli.session import Session, command, note, say


@click.group()
def events() -> None:
    """What happened: who came and went, what moved, who ordered it and why."""


@command(events, "list")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind; repeatable.")
@click.option("--shard", metavar="KEY", help="Only those about this shard.")
@click.option("--executor", metavar="ID", help="Only those about this executor.")
@click.option("--limit", type=click.IntRange(1, 1000), help="At most so many; 100 by default.")
@click.option("--watch", is_flag=True, help="Go on with what comes, until interrupted.")
async def list_(
    session: Session,
    kinds: Sequence[str],
    shard: str | None,
    executor: str | None,
    limit: int | None,
    *,
    watch: bool,
) -> None:
    """List the newest events, oldest first."""
    if not watch:
        call = calls.events(
            session.namespace, kinds=kinds, shard=shard, executor=executor, limit=limit
        )
        await session.list_(call, output.EVENTS)
        return
    if session.settings.output == "json":
        raise click.UsageError("what is watched has no end: use -o jsonl")
    has_header = session.settings.has_header
    pages = session.operator.watch_events(
        session.namespace, kinds=kinds, shard=shard, executor=executor, limit=limit
    )
    async for page in pages:
        _print(session, page, has_header=has_header)
        has_header = has_header and not page.events


def _print(session: Session, page: views.EventsPage, *, has_header: bool) -> None:
    if page.missed:
        note("shardctl: some events came too fast, or before this cluster, and are not kept")
    body = msgspec.json.encode(page)
    say(output.listed(body, output.EVENTS, session.settings.output, has_header=has_header))
