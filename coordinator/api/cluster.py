"""The cluster itself: its nodes, who leads, and handing the lead over."""

from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.records import (
    ClusterAnswer,
    DryRunAnswer,
    NodeView,
    TransferRequest,
)
from coordinator.api.problems import Refusal, invalid
from coordinator.api.query import boolean
from coordinator.consensus import PeerStatus, Status, TransferFailed


async def show(call: Call[None]) -> web.Response:
    """The cluster as this node sees it; answered in any state."""
    return _shown(call)


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
    return _shown(call)


def _shown(call: Call[Any]) -> web.Response:
    desk = call.desk
    status = desk.replica.consensus.status()
    own = NodeView(
        node=status.name,
        role=status.role,
        address=desk.settings.node.peers[status.name],
        api=desk.settings.api_url,
        is_reachable=True,
        last_heard_age_s=0.0,
        match_index=status.applied_index,
    )
    nodes = [own, *(_peer(peer, status) for peer in status.peers)]
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
            digest=desk.replica.digest() if boolean(call.query, "digest") else None,
            nodes=sorted(nodes, key=_name),
        )
    )


def _name(view: NodeView) -> str:
    return view.node


def _peer(peer: PeerStatus, status: Status) -> NodeView:
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
        api=peer.api_url,
        is_reachable=peer.connected,
        last_heard_age_s=peer.last_heard_age_s,
        match_index=peer.match_index,
    )
