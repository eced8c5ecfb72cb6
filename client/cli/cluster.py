"""`shardctl cluster`: status, transfer-leader, move-member, check."""

import click

from client import calls, errors
from client.cli import output
from client.cli.session import Session, command, say
from client.connection import decoded_answer

# What probes of monitoring systems exit with.
_OK, _WARNING, _CRITICAL = 0, 1, 2


@click.group()
def cluster() -> None:
    """The coordinator's own nodes."""


@command(cluster, "status")
async def status(session: Session) -> None:
    """Show the leader, the term and every node."""
    body = await session.fetch(calls.cluster())
    if not session.is_table:
        session.say_shown(body, "cluster_id")
        return
    session.say_shown(body, "cluster_id", without=("nodes",))
    session.say_listed(body, output.NODES, before="\n")


@command(cluster, "transfer-leader", is_change=True)
@click.option("--to", metavar="NODE", help="The node that is to lead; else the best one.")
async def transfer_leader(session: Session, to: str | None) -> None:
    """Hand the leadership to another node."""
    call = calls.transfer_leadership(to)
    await session.change(call, "leader", f"leadership goes to {to or 'another node'}")


@command(cluster, "move-member", is_change=True)
@click.argument("node")
@click.option("--api", metavar="URL", required=True, help="Where its next process serves the API.")
@click.option("--raft", metavar="HOST:PORT", help="Where its Raft port will be, if elsewhere.")
async def move_member(session: Session, node: str, api: str, raft: str | None) -> None:
    """Tell where the next process of a stopped NODE is, before it is started."""
    call = calls.move_member(node, api, raft)
    await session.change(call, "leader", f"{node} is to be found at {raft or api}")


@command(cluster, "check")
async def check(session: Session) -> int:
    """Exit as probes do: 0 healthy, 1 a node is missing or an alarm is on, 2 no quorum."""
    call = calls.cluster()
    try:
        response = await session.operator.connection.fetch(
            call, timeout_s=session.settings.timeout_s
        )
        view = decoded_answer(call, response)
    except errors.ShardCoordinatorError as error:
        say(f"CRITICAL: {error}")
        return _CRITICAL
    if not view.has_quorum or view.leader is None:
        say(f"CRITICAL: no quorum, as {view.node} sees it")
        return _CRITICAL
    missing = [node.node for node in view.nodes if not node.is_reachable]
    if missing:
        say(f"WARNING: not reachable: {', '.join(missing)}; leader {view.leader}")
        return _WARNING
    if view.alarms:
        told = ", ".join(f"{one.alarm} of {one.namespace} {one.state}" for one in view.alarms)
        say(f"WARNING: {told}; leader {view.leader}")
        return _WARNING
    say(f"OK: {len(view.nodes)} nodes, leader {view.leader}, term {view.term}")
    return _OK
