"""`shardctl executor`: list, show, drain, undrain, cordon, uncordon, evict."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from client import calls
from client.call import Call
from client.calls import Verb
from client.cli import asking, output, waits
from client.cli.session import Session, command, note
from client.cli.times import DURATION
from client.cli.waits import drained, undrained

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def executor() -> None:
    """Processes that own and run shards, singly or by host."""


def _target(function: F) -> F:
    """An executor by name or option, or a host."""
    for option in (
        click.option(
            "--host",
            "--hostname",
            "hostname",
            metavar="HOST",
            help="Every executor on a host, also later.",
        ),
        click.option("--executor", "named", metavar="NAME", help="The same as the argument."),
        click.argument("name", required=False),
    ):
        function = option(function)
    return function


def _one_of(name: str | None, named: str | None, hostname: str | None) -> tuple[str, bool]:
    """The one target that was named, and whether it is a host."""
    given = [value for value in (name, named, hostname) if value]
    if len(given) != 1:
        raise click.UsageError("name one executor, or one host with --host")
    return given[0], hostname is not None


@command(executor, "list", can_watch=True)
@click.option("--host", "--hostname", "host", metavar="HOST", help="Only those on this host.")
@click.option("--status", help="Only those that are active, cordoned, draining or drained.")
async def list_(session: Session, host: str | None, status: str | None) -> None:
    """List the executors of the namespace."""
    call = calls.executors(session.namespace, host=host, status=status)
    page = await session.list_(call, output.EXECUTORS)
    for one in page.returning:
        note(
            f"{one.executor} restarts: {one.shards} shards are kept for it, for {one.window_s:g} s"
        )


@command(executor, "show", can_watch=True)
@click.option("--executor", "named", metavar="NAME", help="The same as the argument.")
@click.argument("name", required=False)
async def show(session: Session, name: str | None, named: str | None) -> None:
    """Show an executor."""
    target, _ = _one_of(name, named, None)
    await session.show(calls.executor(session.namespace, target), "executor")


_EXPIRES = click.option(
    "--expires-in", "expires_in_s", type=DURATION, help="It ends by itself after that: 2h."
)
_MAY_HAVE_REASON = click.option("--reason", default="", help="Why; it is kept and shown.")


@command(executor, "drain", is_change=True)
@_target
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@_EXPIRES
@click.option("--force", is_flag=True, help="Although the others have no room for its load.")
@asking.yes_option
@waits.wait_options
async def drain(
    session: Session,
    *,
    name: str | None,
    named: str | None,
    hostname: str | None,
    reason: str,
    expires_in_s: float | None,
    force: bool,
    yes: bool,
    waits: bool,
    timeout_s: float,
) -> int:
    """Move every shard away by handoff and place nothing."""
    target, is_host = _one_of(name, named, hostname)
    is_sure = yes or not force or session.is_dry_run
    asking.confirm("This drains it whatever room the others have.", target, is_sure=is_sure)
    make = calls.drain_host if is_host else calls.drain_executor
    call = make(session.namespace, target, reason, force=force, expires_in_s=expires_in_s)
    answer = await session.change(call, "id", lambda view: f"{target} is being drained: {view.id}")
    if answer is None or not waits:
        return 0
    return await drained(session, answer.id, timeout_s)


@command(executor, "undrain", is_change=True)
@_target
@_MAY_HAVE_REASON
@waits.wait_options
async def undrain(
    session: Session,
    *,
    name: str | None,
    named: str | None,
    hostname: str | None,
    reason: str,
    waits: bool,
    timeout_s: float,
) -> int:
    """End a drain: shards are placed again."""
    target, is_host = _one_of(name, named, hostname)
    call = _verb(session, target, "undrain", reason, is_host=is_host)
    answer = await session.change(call, _named(is_host=is_host), f"{target} is drained no longer")
    if answer is None or not waits:
        return 0
    return await undrained(session, target, is_host=is_host, timeout_s=timeout_s)


@command(executor, "cordon", is_change=True)
@_target
@_MAY_HAVE_REASON
@_EXPIRES
async def cordon(
    session: Session,
    *,
    name: str | None,
    named: str | None,
    hostname: str | None,
    reason: str,
    expires_in_s: float | None,
) -> None:
    """Place nothing more; what is there stays."""
    target, is_host = _one_of(name, named, hostname)
    call = _verb(session, target, "cordon", reason, is_host=is_host, expires_in_s=expires_in_s)
    await session.change(call, _named(is_host=is_host), f"{target} is cordoned")


@command(executor, "uncordon", is_change=True)
@_target
@_MAY_HAVE_REASON
async def uncordon(
    session: Session, *, name: str | None, named: str | None, hostname: str | None, reason: str
) -> None:
    """Place shards again."""
    target, is_host = _one_of(name, named, hostname)
    call = _verb(session, target, "uncordon", reason, is_host=is_host)
    await session.change(call, _named(is_host=is_host), f"{target} is cordoned no longer")


def _verb(
    session: Session,
    target: str,
    verb: Verb,
    reason: str,
    *,
    is_host: bool,
    expires_in_s: float | None = None,
) -> Call[Any]:
    make: Callable[..., Call[Any]] = calls.host_verb if is_host else calls.executor_verb
    return make(session.namespace, target, verb, reason, expires_in_s=expires_in_s)


def _named(*, is_host: bool) -> str:
    return "host" if is_host else "executor"


@command(executor, "evict", is_change=True)
@click.option("--executor", "named", metavar="NAME", help="The same as the argument.")
@click.argument("name", required=False)
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@click.option("--force", is_flag=True, help="Do not wait for its lease: two owners are possible.")
@click.option("--incarnation", help="Only if it has not restarted since: as `show` names it.")
@asking.yes_option
async def evict(
    session: Session,
    *,
    name: str | None,
    named: str | None,
    reason: str,
    force: bool,
    incarnation: str | None,
    yes: bool,
) -> None:
    """Close an executor's incarnation; its shards move when its lease has run out."""
    target, _ = _one_of(name, named, None)
    is_sure = yes or not force or session.is_dry_run
    asking.confirm("If it still runs, two owners act on its shards.", target, is_sure=is_sure)
    call = calls.evict_executor(
        session.namespace, target, reason, force=force, incarnation=incarnation
    )
    answer = await session.change(call, "executor", f"{target} is evicted")
    if answer is not None and answer.warning:
        click.echo(f"warning: {answer.warning}", err=True)
