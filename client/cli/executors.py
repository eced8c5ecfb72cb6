"""`shardctl executor`: list, show, drain, undrain, cordon, uncordon, evict."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from client import calls
from client.call import Call
from client.calls import Verb
from client.cli import drains, output
from client.cli.session import Session, command, note

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def executor() -> None:
    """Processes that own and run shards, singly or by host."""


def _target(function: F) -> F:
    """An executor by name or option, or a host."""
    for option in (
        click.option("--hostname", metavar="HOST", help="Every executor on a host, also later."),
        click.option("--executor", "named", metavar="NAME", help="The same as the argument."),
        click.argument("name", required=False),
    ):
        function = option(function)
    return function


def _one_of(name: str | None, named: str | None, hostname: str | None) -> tuple[str, bool]:
    """The one target that was named, and whether it is a host."""
    given = [value for value in (name, named, hostname) if value]
    if len(given) != 1:
        raise click.UsageError("name one executor, or one host with --hostname")
    return given[0], hostname is not None


@command(executor, "list")
@click.option("--host", "--hostname", "host", help="Only those on this host.")
@click.option("--status", help="Only those that are active, cordoned, draining or drained.")
async def list_(session: Session, host: str | None, status: str | None) -> None:
    """List the executors of the namespace."""
    call = calls.executors(session.namespace, host=host, status=status)
    page = await session.list_(call, output.EXECUTORS)
    for one in page.returning:
        note(
            f"{one.executor} restarts: {one.shards} shards are kept for it, for {one.window_s:g} s"
        )


@command(executor, "show")
@click.option("--executor", "named", metavar="NAME", help="The same as the argument.")
@click.argument("name", required=False)
async def show(session: Session, name: str | None, named: str | None) -> None:
    """Show an executor."""
    target, _ = _one_of(name, named, None)
    await session.show(calls.executor(session.namespace, target), "executor")


@command(executor, "drain", is_change=True)
@_target
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@click.option("--force", is_flag=True, help="Although the others have no room for its load.")
@click.option("--wait", "waits", is_flag=True, help="Until every shard was acknowledged away.")
@drains.timeout_option
async def drain(
    session: Session,
    *,
    name: str | None,
    named: str | None,
    hostname: str | None,
    reason: str,
    force: bool,
    waits: bool,
    timeout_s: float,
) -> int:
    """Move every shard away by handoff and place nothing."""
    target, is_host = _one_of(name, named, hostname)
    make = calls.drain_host if is_host else calls.drain_executor
    answer = await session.change(
        make(session.namespace, target, reason, force=force), "id", f"{target} is being drained"
    )
    if answer is None or not waits:
        return 0
    return await drains.wait(session, answer.id, timeout_s)


def _simple(verb: Verb, done: str, text: str) -> None:
    async def body(
        session: Session, *, name: str | None, named: str | None, hostname: str | None, reason: str
    ) -> None:
        target, is_host = _one_of(name, named, hostname)
        make: Callable[[str, str, Verb, str], Call[Any]] = (
            calls.host_verb if is_host else calls.executor_verb
        )
        call = make(session.namespace, target, verb, reason)
        await session.change(call, "host" if is_host else "executor", f"{target} {done}")

    body.__doc__ = text
    reason = click.option("--reason", default="", help="Why; it is kept and shown.")
    command(executor, verb, is_change=True)(_target(reason(body)))


_simple("undrain", "is drained no longer", "End a drain: shards are placed again.")
_simple("cordon", "is cordoned", "Place nothing more; what is there stays.")
_simple("uncordon", "is cordoned no longer", "Place shards again.")


@command(executor, "evict", is_change=True)
@click.option("--executor", "named", metavar="NAME", help="The same as the argument.")
@click.argument("name", required=False)
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@click.option("--force", is_flag=True, help="Do not wait for its lease: two owners are possible.")
async def evict(
    session: Session, *, name: str | None, named: str | None, reason: str, force: bool
) -> None:
    """Close an executor's incarnation; its shards move when its lease has run out."""
    target, _ = _one_of(name, named, None)
    call = calls.evict_executor(session.namespace, target, reason, force=force)
    answer = await session.change(call, "executor", f"{target} is evicted")
    if answer is not None and answer.warning:
        click.echo(f"warning: {answer.warning}", err=True)
