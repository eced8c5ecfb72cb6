"""`shardctl namespace`: list, show, create, update, delete."""

from typing import Any

import click
import msgspec

from client import calls, views
from client.cli import output
from client.cli.asking import confirm, yes_option
from client.cli.session import Session, command


@click.group()
def namespace() -> None:
    """Sharded services and their policies."""


def parsed_policy(settings: tuple[str, ...]) -> dict[str, Any]:
    """The nested policy in `balancer.mode=off` and the like; values are JSON or plain words."""
    policy: dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise click.UsageError(f"--set takes FIELD=VALUE, not {setting!r}")
        *parents, field = path.split(".")
        place = policy
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise click.UsageError(f"--set {setting}: {parent} has a value already")
        try:
            place[field] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            place[field] = text
    return policy


_SET = click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="Of the policy; repeatable."
)
_NAME = click.argument("name")


@command(namespace, "list")
async def list_(session: Session) -> None:
    """List every namespace."""
    await session.list_(calls.namespaces(), output.NAMESPACES)


@command(namespace, "show")
@_NAME
async def show(session: Session, name: str) -> None:
    """Show a namespace and its policy."""
    await session.show(calls.namespace(name), "namespace")


@command(namespace, "create", is_change=True)
@_NAME
@click.option("--kind", type=click.Choice(["open", "fixed"]), default=None)
@click.option("--shard-count", type=click.IntRange(min=1), help="Of a fixed namespace.")
@_SET
async def create(
    session: Session,
    name: str,
    kind: str | None,
    shard_count: int | None,
    settings: tuple[str, ...],
) -> None:
    """Make a namespace, or find it already so.

    With --shard-count its shards are numbered; without, they are named when they are first used.
    """
    chosen = kind or ("open" if shard_count is None else "fixed")
    call = calls.create_namespace(
        name,
        "fixed" if chosen == "fixed" else "open",
        shard_count,
        parsed_policy(settings) or None,
    )
    await session.change(call, "namespace", _told)


def _told(view: views.NamespaceView) -> str:
    there = f"namespace {view.namespace} is there"
    if not view.recovering:
        return there
    lease = f"{view.policy.lease_ttl_s:g} s"
    return f"{there}; nobody is placed for one lease ({lease}), as somebody may hold shards of it"


@command(namespace, "update", is_change=True)
@_NAME
@_SET
@click.option("--if-version", type=int, help="Only if the policy still has this version.")
@click.option("--reason", default="", help="Why; it is kept and shown.")
async def update(
    session: Session, name: str, settings: tuple[str, ...], if_version: int | None, reason: str
) -> None:
    """Change fields of the policy: --set balancer.mode=off --set lease_ttl_s=5."""
    if not settings:
        raise click.UsageError("nothing to change: name fields with --set FIELD=VALUE")
    if_match = "" if if_version is None else f'"{if_version}"'
    call = calls.change_policy(name, parsed_policy(settings), if_match, reason)
    await session.change(call, "namespace", f"the policy of {name} is changed")


@command(namespace, "delete", is_change=True)
@_NAME
@click.option("--force", is_flag=True, help="Although executors live in it.")
@yes_option
async def delete(session: Session, name: str, *, force: bool, yes: bool) -> None:
    """Forget a namespace and all its shards."""
    confirm(f"This forgets every shard of {name}.", name, is_sure=yes or session.is_dry_run)
    call = calls.delete_namespace(name, force=force)
    await session.change(call, "namespace", f"namespace {name} is deleted")
