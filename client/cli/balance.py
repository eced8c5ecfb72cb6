"""`shardctl balance`: status, plan, what-if, capacity, history, decision, pause, resume."""

from typing import Literal, cast

import click
import msgspec

from client import calls
from client.cli import output
from client.cli.namespaces import parsed_policy
from client.cli.output import Column, Shape, of
from client.cli.session import Session, command, note, say
from client.cli.times import DURATION
from client.operator_balance import CALCULATION_TIMEOUT_S

CAPACITY = Shape(
    "table",
    "executors",
    (
        of("executors"),
        of("mean"),
        of("best_possible", "BEST"),
        of("planned"),
        of("static_hash", "HASH"),
        of("moves"),
        of("is_enough", "ENOUGH"),
        of("spread", wide=True),
    ),
)
MOVES = Shape(
    "moved",
    "key",
    (
        of("key", "MOVE"),
        of("source", "FROM"),
        of("target", "TO"),
        of("load"),
        of("why"),
        of("reason", wide=True),
        of("gain", wide=True),
    ),
)
REJECTED = Shape(
    "rejected",
    "key",
    (
        of("key", "PASSED-OVER"),
        of("source", "FROM"),
        of("target", "TO"),
        of("load"),
        of("rule"),
        of("why"),
    ),
)
PASSES = Shape(
    "passes",
    "last_at",
    (
        of("last_at", "PASS"),
        of("count"),
        of("outcome"),
        of("moves"),
        of("decision"),
        of("blocked"),
        of("first_at", wide=True),
        of("why", wide=True),
    ),
)
DECISIONS = Shape(
    "decisions",
    "id",
    (
        of("id", "DECISION"),
        of("at"),
        of("moves"),
        of("hottest_before", "BEFORE"),
        of("hottest_predicted", "PREDICTED"),
        Column("MEASURED", lambda row: (row.get("realised") or {}).get("hottest")),
        of("dry_run", "DRY-RUN"),
        of("spread_before", wide=True),
        of("spread_predicted", wide=True),
        of("moved_load", wide=True),
    ),
)


@click.group()
def balance() -> None:
    """How level the load lies, and whether it is being levelled."""


@command(balance, "status", can_watch=True)
async def status(session: Session) -> None:
    """Show spread, best possible and each executor's share."""
    body = await session.fetch(calls.balance(session.namespace))
    if not session.is_table:
        session.say_shown(body, "mode")
        return
    session.say_shown(body, "mode", without=("executors", "dominant"))
    session.say_listed(body, output.SHARES, before="\n")
    dominant = msgspec.json.decode(body).get("dominant", [])
    if dominant:
        rows = [["DOMINANT-SHARD", "LOAD"]]
        rows += [[str(row["key"]), f"{row['load']:.4g}"] for row in dominant]
        say("\n" + output.aligned(rows))


@command(balance, "plan")
@click.option(
    "--level",
    type=click.Choice(["default", "level", "tight"]),
    default="default",
    show_default=True,
    help="How far it goes: the policy's own gaps, half of the usual ones, or all that is there.",
)
async def plan(session: Session, level: str) -> None:
    """Show what a pass would do now: each move and why, and what was passed over. Moves nothing."""
    made = cast("Literal['default', 'level', 'tight']", level)
    _told(session, await session.fetch(calls.balance_plan(session.namespace, made)), "stopped")


@command(balance, "what-if")
@click.option("--executors", type=click.IntRange(min=1), help="How many there are in all.")
@click.option("--without-host", "hosts", multiple=True, metavar="HOST", help="A host that is gone.")
@click.option("--without-executor", "gone", multiple=True, metavar="ID", help="One that is gone.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Of the policy, to try: balancer.stop_gap=0.05; repeatable.",
)
async def what_if(
    session: Session,
    executors: int | None,
    hosts: tuple[str, ...],
    gone: tuple[str, ...],
    settings: tuple[str, ...],
) -> None:
    """Show what the planner would do on another fleet, or with other settings. Moves nothing."""
    call = calls.what_if(
        session.namespace,
        executors=executors,
        without_hosts=hosts,
        without_executors=gone,
        policy=parsed_policy(settings) or None,
    )
    body = await session.fetch(call, at_least_s=CALCULATION_TIMEOUT_S)
    _told(session, body, "executors", within="plan")


@command(balance, "capacity")
@click.option("--executors", metavar="N-M", help="The numbers to show, such as 8-16.")
async def capacity(session: Session, executors: str | None) -> None:
    """Show how many executors it takes, and how hot the hottest would be with more or fewer."""
    call = calls.capacity(session.namespace, executors)
    body = await session.fetch(call, at_least_s=CALCULATION_TIMEOUT_S)
    if not session.is_table:
        session.say_shown(body, "needed")
        return
    session.say_shown(body, "needed", without=("table",))
    session.say_listed(body, CAPACITY, before="\n")
    if msgspec.json.decode(body).get("high_mark") is None:
        note(
            "nothing says how many are enough, as balancer.high_mark is not set: try"
            f" `shardctl namespace update {session.namespace} --set balancer.high_mark=0.75`"
        )


@command(balance, "history")
async def history(session: Session) -> None:
    """List what the balancer decided, predicted, and brought about; newest first."""
    body = await session.fetch(calls.balance_history(session.namespace))
    if session.is_table:
        session.say_listed(body, PASSES)
        say("\n" if msgspec.json.decode(body)["passes"] else "")
    session.say_listed(body, DECISIONS)


@command(balance, "decision")
@click.argument("decision_id", metavar="ID")
async def decision(session: Session, decision_id: str) -> None:
    """Show one decision: its moves and why, what was passed over, what came of it."""
    body = await session.fetch(calls.decision(session.namespace, decision_id))
    _told(session, body, "decision", within="plan")


def _told(session: Session, body: bytes, name: str, *, within: str = "") -> None:
    """An answer with a plan in it: figures, then moves, then what was passed over."""
    if not session.is_table:
        session.say_shown(body, name)
        return
    answer = msgspec.json.decode(body)
    made = answer[within] if within else answer
    lists = {field: made.pop(field) for field in ("moved", "rejected")}
    answer.pop("held", None)
    seats = answer.pop("executors", None) if within else None
    if isinstance(seats, int):
        answer = {"executors": seats, **answer}
    session.say_shown(msgspec.json.encode(answer), name)
    for shape in (MOVES, REJECTED):
        if lists[shape.field]:
            rows = msgspec.json.encode(lists)
            session.say_listed(rows, shape, before="\n")


@command(balance, "pause", is_change=True)
@click.option("--reason", required=True, help="Why; it is kept and shown.")
@click.option(
    "--for",
    "--expires-in",
    "expires_in_s",
    type=DURATION,
    metavar="DURATION",
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
