"""`shardctl mass-failure`: status, proceed."""

import click

from client import calls, views
from client.cli.asking import confirm, yes_option
from client.cli.session import Session, command


@click.group("mass-failure")
def mass_failure() -> None:
    """Many executors silent at once: nothing is taken from them until they or you say so."""


@command(mass_failure, "status", can_watch=True)
async def status(session: Session) -> None:
    """Show whether a mass failure is on, since when, and who is silent."""
    await session.show(calls.mass_failure(session.namespace), "state")


@command(mass_failure, "proceed", is_change=True)
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@yes_option
async def proceed(session: Session, *, reason: str, yes: bool) -> None:
    """Give up the executors that are silent now; it holds for this outage only."""
    is_sure = yes or session.is_dry_run
    question = f"All that the silent executors of {session.namespace} hold will move."
    confirm(question, session.namespace, is_sure=is_sure)
    call = calls.proceed_mass_failure(session.namespace, reason)
    await session.change(call, "state", _told)


def _told(view: views.MassFailureView) -> str:
    if view.state == "none":
        return f"no mass failure is on in {view.namespace}: nobody was given up"
    return f"{view.given_up} silent executors of {view.namespace} are given up"
