"""`shardctl events`: list, watch, undo; the latter two by themselves as well."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, Unpack

import click
import msgspec

from client import calls, errors, views
from client.calls import EventFilters
from client.cli import asking, output
from client.cli.faults import printable
from client.cli.session import Session, command, note
from client.cli.times import MOMENT

F = TypeVar("F", bound=Callable[..., Any])

ORDERS_LOOKED_AT: Final = 200
"""How far back the newest order that can be taken back is looked for: an hour of a busy night."""


@click.group()
def events() -> None:
    """What happened: who came and went, what moved, who ordered it and why."""


def _filters(function: F) -> F:
    """Which events are asked for; those that meet all of it."""
    for option in (
        click.option("--limit", type=click.IntRange(1, 1000), help="At most so many a page."),
        click.option("--until", type=MOMENT, help="Up to then."),
        click.option("--since", type=MOMENT, help="From then on: 22:00, 10m (ago), or ISO."),
        click.option("--orders", is_flag=True, help="Only what somebody ordered."),
        click.option(
            "--host", "--hostname", "host", metavar="HOST", help="About this host or who is on it."
        ),
        click.option("--executor", metavar="NAME", help="About this executor."),
        click.option("--shard", "--shard-key", "shard", metavar="KEY", help="About this shard."),
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            metavar="KIND",
            help="As the list names it; repeatable.",
        ),
    ):
        function = option(function)
    return function


@command(events, "list")
@_filters
@click.option(
    "-w", "--watch", "follows", is_flag=True, help="Go on with what comes, until interrupted."
)
async def list_(
    session: Session, *, limit: int | None, follows: bool, **filters: Unpack[EventFilters]
) -> None:
    """List the newest events, oldest first."""
    if follows:
        await _follow(session, limit, filters)
    else:
        await session.list_(calls.events(session.namespace, limit=limit, **filters), output.EVENTS)


@command(events, "watch")
@_filters
async def watch(session: Session, *, limit: int | None, **filters: Unpack[EventFilters]) -> None:
    """Follow moves, drains, elections and orders as they come, until interrupted."""
    await _follow(session, limit, filters)


async def _follow(session: Session, limit: int | None, only: EventFilters) -> None:
    if session.settings.output == "json":
        raise click.UsageError("what is watched has no end: use -o jsonl")
    has_header = session.settings.has_header
    async for page in session.operator.watch_events(session.namespace, limit=limit, **only):
        _print(session, page, has_header=has_header)
        has_header = has_header and not page.events


def _print(session: Session, page: views.EventsPage, *, has_header: bool) -> None:
    if page.missed:
        note("shardctl: some events came too fast, or before this cluster, and are not kept")
    session.say_listed(msgspec.json.encode(page), output.EVENTS, has_header=has_header)


@command(events, "undo", is_change=True)
@click.argument("event", type=click.IntRange(min=1), required=False)
@click.option("--reason", default="", help="Why; it is kept and shown.")
@click.option("--force", is_flag=True, help="Although nobody has room for what it drains again.")
@asking.yes_option
async def undo(session: Session, *, event: int | None, reason: str, force: bool, yes: bool) -> None:
    """Take back an operator's order: EVENT as `events list -o wide` names it, or the newest."""
    if event is None:
        newest = await _newest_order(session)
        question = f"The newest order is {_words(newest)}."
        asking.confirm(question, "undo", is_sure=yes or session.is_dry_run)
        event = newest.id
    call = calls.undo(session.namespace, event, reason, force=force)
    told = f"event {event} is taken back by event"
    await session.change(call, "id", lambda done: f"{told} {done.id}: {_words(done)}")


async def _newest_order(session: Session) -> views.EventView:
    """The newest order that was not taken back; what takes back is not counted as one."""
    page = await session.operator.events(session.namespace, orders=True, limit=ORDERS_LOOKED_AT)
    undone = {one.undoes for one in page.events}
    orders = [one for one in page.events if one.undoes is None and one.id not in undone]
    if not orders:
        raise errors.NotFound("there is no order to take back", reason="event_not_found")
    newest = orders[-1]
    if not newest.can_undo:
        raise errors.Conflict(
            f"the newest order, {_words(newest)}, cannot be taken back", reason="conflict"
        )
    return newest


def _words(event: views.EventView) -> str:
    """An order in a few words."""
    about = event.shard or event.executor or event.host
    to = f" to {event.target}" if event.target else ""
    of = f" of {about}{to}" if about else ""
    why = f" ({event.reason})" if event.reason else ""
    return printable(f"{event.kind}{of}{why}, by {event.by or 'nobody'} at {event.at}")


SHORT: Final = (events.commands["undo"], events.commands["watch"])
"""The same as commands of their own."""
