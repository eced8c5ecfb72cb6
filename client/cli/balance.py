"""`shardctl balance`: status, pause, resume."""

import click
import msgspec

from client import calls
from client.cli import output
from client.cli.session import Session, command, say


@click.group()
def balance() -> None:
    """How level the load lies, and whether it is being levelled."""


@command(balance, "status")
async def status(session: Session) -> None:
    """Show spread, best possible and each executor's share."""
    settings = session.settings
    body = await session.fetch(calls.balance(session.namespace))
    if settings.output not in {"table", "wide"}:
        say(output.shown(body, "mode", settings.output))
        return
    say(output.shown(body, "mode", settings.output, without=("executors", "dominant")))
    shares = output.listed(body, output.SHARES, settings.output, has_header=settings.has_header)
    if shares:
        say("\n" + shares)
    dominant = msgspec.json.decode(body).get("dominant", [])
    if dominant:
        rows = [["DOMINANT-SHARD", "LOAD"]]
        rows += [[str(row["key"]), f"{row['load']:.4g}"] for row in dominant]
        say("\n" + output.aligned(rows))


@command(balance, "pause", is_change=True)
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@click.option(
    "--for",
    "expires_in_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Resume by itself afterwards.",
)
async def pause(session: Session, reason: str, expires_in_s: float | None) -> None:
    """Make no voluntary moves."""
    call = calls.balance_verb(session.namespace, "pause", reason=reason, expires_in_s=expires_in_s)
    await session.change(call, "mode", f"balancing of {session.namespace} is paused")


@command(balance, "resume", is_change=True)
@click.option("--reason", default="", help="Why; it is kept and shown.")
async def resume(session: Session, reason: str) -> None:
    """Make voluntary moves again."""
    call = calls.balance_verb(session.namespace, "resume", reason=reason, expires_in_s=None)
    await session.change(call, "mode", f"balancing of {session.namespace} is resumed")
