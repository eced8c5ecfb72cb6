"""The cluster itself: its nodes, who leads, handing the lead over, and members that move."""

from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.dry_run_records import DryRunAnswer
from coordinator.api.operators.nodes import (
    ClusterAnswer,
    MemberRequest,
    NodeView,
    TransferRequest,
)
from coordinator.api.operators.orders import ordered
from coordinator.api.operators.outages import alarms_of
from coordinator.api.problems import Refusal, invalid
from coordinator.api.query import boolean
from coordinator.consensus import PeerStatus, Status, TransferFailed
from coordinator.core.commands import MoveMember
from coordinator.settings import split_address, url_fault


async def show(call: Call[None]) -> web.Response:
    """The cluster as this node sees it; answered in any state."""
    status = call.desk.replica.consensus.status()  # of the state that is hashed
    digest = await call.desk.replica.digest() if boolean(call.query, "digest") else None
    return _shown(call, status, digest)


async def transfer(call: Call[TransferRequest]) -> web.Response:
    """Hand leadership to a node, by default to the one that is most caught up."""
    status = call.desk.replica.consensus.status()
    target = call.body.to
    if target is not None and target not in call.desk.settings.node.peers:
        members = ", ".join(sorted(call.desk.settings.node.peers))
        raise invalid("to", f"{target!r} is no member of the cluster: {members}")
    if boolean(call.query, "dry_run"):
        return call.answer(
            DryRunAnswer(
                dry_run=True,
                would=f"hand leadership from {status.name} to {target or 'the best other node'}",
                resource=target or "",
                creates=False,
                shards=None,
            )
        )
    if target != status.name:
        try:
            await call.desk.replica.consensus.transfer_leadership(target)
        except TransferFailed as fault:
            raise Refusal("conflict", str(fault)) from None
    return _shown(call, call.desk.replica.consensus.status())


async def move_member(call: Call[MemberRequest]) -> web.Response:
    """The next process of a member is at another address; the former one counts no more."""
    body, status = call.body, call.desk.replica.consensus.status()
    if fault := url_fault(body.api):
        raise invalid("api", fault)
    if body.raft is not None:
        try:
            split_address(body.raft)
        except ValueError as fault:
            raise invalid("raft", str(fault)) from None
    raft = _movable(call, body.node, body.raft, status)
    return await ordered(
        call,
        MoveMember(node=body.node, raft=raft, api=body.api.rstrip("/")),
        lambda _: _shown(call, call.desk.replica.consensus.status()),
        would=f"find {body.node} at {raft}, and no longer where it was",
    )


async def remove_member(call: Call[None]) -> web.Response:
    """Refused, with what to do instead."""
    raise _static(call, call.path["node"][:63])


def _static(call: Call[Any], node: str) -> Refusal:
    members = ", ".join(sorted(call.desk.settings.node.peers))
    return Refusal(
        "conflict",
        f"{node!r} cannot join or leave: the members are {members} for as long as this cluster"
        " lives. A lost node is replaced by one of the same name, at the same address or at"
        " another (POST /v1/cluster/members)",
    )


def _movable(call: Call[Any], node: str, raft: str | None, status: Status) -> str:
    """Where the member will be; refuses what would put two processes or two members in one place.

    A member that is connected runs, so it is not the one to be replaced.
    """
    addresses = {peer.name: peer.address for peer in status.peers}
    if node != status.name and node not in addresses:
        raise _static(call, node)
    own = call.desk.settings.node.peers[status.name]
    now = addresses.get(node, own)
    if raft is None or raft == now:
        return now
    running = {status.name} | {peer.name for peer in status.peers if peer.connected}
    if node in running:
        raise Refusal(
            "conflict",
            f"{node} runs at {now} and is connected: stop it first, then tell where it will be",
        )
    for other, address in {**addresses, status.name: own}.items():
        if address == raft:
            raise Refusal("conflict", f"{raft} is the address of {other}")
    return raft


def _shown(call: Call[Any], status: Status, digest: str | None = None) -> web.Response:
    desk = call.desk
    own = NodeView(
        node=status.name,
        role=status.role,
        address=desk.settings.node.peers[status.name],
        api=desk.settings.api_url,
        is_reachable=True,
        last_heard_age_s=0.0,
        match_index=status.applied_index,
        formats=status.formats,
    )
    moved = desk.replica.state.moved
    known = {name: member.api for name, member in moved.items()}
    nodes = [own, *(_peer(peer, status, known.get(peer.name)) for peer in status.peers)]
    return call.answer(
        ClusterAnswer(
            cluster_id=desk.replica.state.cluster_id,
            node=status.name,
            leader=status.leader,
            leader_api=desk.leader_url,
            term=status.term,
            has_quorum=status.has_quorum,
            leader_contact_age_s=status.leader_contact_age_s,
            commit_index=status.commit_index,
            applied_index=status.applied_index,
            storage="journal" if status.storage == "journal" else "memory",
            storage_fault=status.disk_fault,
            log_entries=status.log_entries,
            log_bytes=status.log_bytes,
            snapshot_index=status.snapshot_index,
            snapshot_bytes=status.snapshot_bytes,
            snapshot_age_s=status.snapshot_age_s,
            digest=digest,
            format=status.format_in_force,
            alarms=[
                alarm
                for name, namespace in sorted(desk.replica.state.namespaces.items())
                if call.caller.namespaces.admits(name)
                for alarm in alarms_of(namespace)
            ],
            nodes=sorted(nodes, key=_name),
        )
    )


def _name(view: NodeView) -> str:
    return view.node


def _peer(peer: PeerStatus, status: Status, moved_to: str | None) -> NodeView:
    if peer.quarantined:
        role = "quarantined"
    elif peer.name == status.leader:
        role = "leader"
    else:
        role = "follower" if peer.connected else "unknown"
    return NodeView(
        node=peer.name,
        role=role,
        address=peer.address,
        api=peer.api_url if peer.connected else moved_to or peer.api_url,
        is_reachable=peer.connected,
        last_heard_age_s=peer.last_heard_age_s,
        match_index=peer.match_index,
        formats=peer.formats,
    )
