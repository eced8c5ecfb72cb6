"""`shardctl shard`: list, show, move, pin, unpin, drain, undrain, declare."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import click
import msgspec

from client import calls
from client.cli import output
from client.cli.faults import printable
from client.cli.session import Session, command, note, say
from client.cli.times import DURATION, MOMENT
from client.cli.waits import arrived, parked, wait_options
from client.operator import PAGE_LIMIT

HISTORY: Final = output.Shape(
    "history",
    "id",
    (
        output.of("at", "HISTORY"),
        output.of("kind"),
        output.of("executor", "FROM"),
        output.of("target", "TO"),
        output.of("cause"),
        output.of("by"),
        output.of("reason"),
        output.of("detail"),
    ),
)

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def shard() -> None:
    """Units of ownership: where they are, and why."""


def _target(function: F) -> F:
    """A shard by argument or option."""
    for option in (
        click.option("--shard-key", "named", metavar="KEY", help="The same as the argument."),
        click.argument("key", required=False),
    ):
        function = option(function)
    return function


def _one_of(key: str | None, named: str | None) -> str:
    given = [value for value in (key, named) if value]
    if len(given) != 1:
        raise click.UsageError("name one shard, as the argument or with --shard-key")
    return given[0]


@command(shard, "list", can_watch=True)
@click.option("--executor", help="Only those of this executor.")
@click.option("--state", help="Only those in this state.")
@click.option("--sort", type=click.Choice(["key", "load"]), help="By key, or heaviest first.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("--page", help="With -o json: the `next_page` of the page before.")
async def list_(
    session: Session,
    *,
    executor: str | None,
    state: str | None,
    sort: str | None,
    limit: int | None,
    page: str | None,
) -> None:
    """List the shards of the namespace; with -o json one page of them, as the API answers it."""
    rows: list[Any] = []
    while limit is None or len(rows) < limit:
        size = PAGE_LIMIT if limit is None else min(PAGE_LIMIT, limit - len(rows))
        call = calls.shards(
            session.namespace, executor=executor, state=state, sort=sort, limit=size, page=page
        )
        body = await session.fetch(call)
        answer = msgspec.json.decode(body)
        page = answer.get("next_page")
        if session.settings.output == "json":
            session.say_listed(body, output.SHARDS)
            note(f"there are more: --page {page}" if page else "")
            return
        rows += answer["shards"][:size]
        if page is None or not answer["shards"]:
            break
    session.say_listed(msgspec.json.encode({"shards": rows}), output.SHARDS)


@command(shard, "show", aliases=("inspect",), can_watch=True)
@_target
@click.option("--at", type=MOMENT, help="Also who owned it then: 03:10, 10m (ago), or ISO.")
async def show(session: Session, key: str | None, named: str | None, at: str | None) -> None:
    """Show a shard: owner, load, and why it is where it is. Never makes one."""
    body = await session.fetch(calls.shard(session.namespace, _one_of(key, named), at))
    if not session.is_table:
        session.say_shown(body, "key")
        return
    shard_view = msgspec.json.decode(body)
    if "then" in shard_view:
        say(output.aligned([["THEN", printable(shard_view["then"]["told"])]]) + "\n")
    session.say_shown(body, "key", without=_IN_WORDS)
    if "why_here" in shard_view:
        say("\n" + _explained(shard_view))
        session.say_listed(body, HISTORY, before="\n")


_IN_WORDS: Final = ("then", "why_here", "why_no_move", "why_not_there", "history")


def _explained(view: Mapping[str, Any]) -> str:
    """A shard in sentences."""
    where = view.get("executor") or view.get("state")
    against: dict[str, list[str]] = {}  # what stands against several is said once
    for other in view.get("why_not_there") or ():
        against.setdefault(other["why"], []).append(other["executor"])
    lines = [
        ["WHY-HERE", f"{where}: {view['why_here']}"],
        ["WHY-NO-MOVE", view.get("why_no_move", "")],
        *(["WHY-NOT", f"{', '.join(names)}: {why}"] for why, names in against.items()),
    ]
    return output.aligned([[title, printable(text)] for title, text in lines])


@command(shard, "move", is_change=True)
@_target
@click.option("--to", required=True, metavar="EXECUTOR", help="Where to.")
@click.option("--reason", default="", help="Why; it is kept and shown.")
@wait_options
async def move(
    session: Session,
    *,
    key: str | None,
    named: str | None,
    to: str,
    reason: str,
    waits: bool,
    timeout_s: float,
) -> int:
    """Move a shard now, by handoff. The balancer lets it rest for a cooldown: `pin` keeps it."""
    target = _one_of(key, named)
    call = calls.shard_verb(session.namespace, target, "move", {"to": to, "reason": reason})
    answer = await session.change(call, "key", f"{target} goes to {to}")
    if answer is None or not waits:
        return 0
    return await arrived(session, target, to, is_pin=False, timeout_s=timeout_s)


@command(shard, "pin", is_change=True)
@_target
@click.option("--to", "--executor", "to", required=True, metavar="EXECUTOR", help="Where it stays.")
@click.option("--reason", default="", help="Why; it is kept and shown.")
@click.option("--expires-in", "expires_in_s", type=DURATION, help="It ends by itself after that.")
@wait_options
async def pin(
    session: Session,
    *,
    key: str | None,
    named: str | None,
    to: str,
    reason: str,
    expires_in_s: float | None,
    waits: bool,
    timeout_s: float,
) -> int:
    """Keep a shard on an executor: the balancer never moves it."""
    target = _one_of(key, named)
    body = {"executor": to, "reason": reason, "expires_in_s": expires_in_s}
    call = calls.shard_verb(session.namespace, target, "pin", body)
    answer = await session.change(call, "key", f"{target} is pinned to {to}")
    if answer is None or not waits:
        return 0
    return await arrived(session, target, to, is_pin=True, timeout_s=timeout_s)


@command(shard, "drain", is_change=True)
@_target
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@wait_options
async def drain(
    session: Session,
    *,
    key: str | None,
    named: str | None,
    reason: str,
    waits: bool,
    timeout_s: float,
) -> int:
    """Park a shard: nobody runs it until `undrain`."""
    target = _one_of(key, named)
    call = calls.shard_verb(session.namespace, target, "drain", {"reason": reason})
    answer = await session.change(call, "key", f"{target} is parked")
    if answer is None or not waits:
        return 0
    return await parked(session, target, timeout_s)


def _simple(verb: Literal["unpin", "undrain"], done: str, text: str) -> None:
    async def body(session: Session, key: str | None, named: str | None, reason: str) -> None:
        target = _one_of(key, named)
        call = calls.shard_verb(session.namespace, target, verb, {"reason": reason})
        await session.change(call, "key", f"{target} {done}")

    body.__doc__ = text
    reason = click.option("--reason", default="", help="Why; it is kept and shown.")
    command(shard, verb, is_change=True)(_target(reason(body)))


_simple("unpin", "is pinned no longer", "Let the balancer move a shard again.")
_simple("undrain", "is parked no longer", "Let a parked shard run again.")


@command(shard, "declare", is_change=True)
@click.argument("keys", nargs=-1, required=True)
async def declare(session: Session, keys: tuple[str, ...]) -> None:
    """Make shards of an open namespace before they are first used."""
    call = calls.declare_shards(session.namespace, keys)
    await session.change(call, "created", f"{len(keys)} shards are declared")
