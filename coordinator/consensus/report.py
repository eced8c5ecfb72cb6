"""What a node tells of itself when asked.

Decides nothing; reads the replica and its links at one moment.
"""

from coordinator.consensus.contract import PeerStatus, Status
from coordinator.consensus.links import Links
from coordinator.consensus.replica import Replica

ROLES = ("follower", "candidate", "leader")


def describe(
    replica: Replica, links: Links | None, cluster_id: str | None, format_in_force: int
) -> Status:
    """The node's view of itself and its cluster."""
    replica.look_at_clock()
    engine, snapshots = replica.engine, replica.snapshots
    made_at_s = snapshots.made_at_s
    return Status(
        name=replica.name,
        role="quarantined" if replica.is_quarantined else ROLES[engine.role],
        term=engine.term,
        leader=replica.leader,
        has_quorum=replica.is_majority(len(replica.links) + 1),
        cluster_id=cluster_id,
        commit_index=engine.commit_index,
        applied_index=engine.applied_index,
        log_entries=len(engine.log),
        log_bytes=engine.log.size_bytes,
        snapshot_index=snapshots.index,
        snapshot_bytes=snapshots.size_bytes,
        snapshot_age_s=None if made_at_s is None else replica.now - made_at_s,
        leader_contact_age_s=replica.leader_contact_age_s,
        storage="journal" if engine.log.is_durable else "memory",
        disk_fault=replica.disk_fault,
        stepped_age_s=replica.now - replica.stepped_at,
        certificate_left_s=None if links is None else links.certificate_left_s,
        formats=replica.config.formats,
        format_in_force=format_in_force,
        peers=tuple(_describe_peer(replica, links, peer) for peer in replica.peers),
    )


def _describe_peer(replica: Replica, links: Links | None, peer: str) -> PeerStatus:
    engine = replica.engine
    match_index = engine.match_index.get(replica.members[peer]) if engine.is_leader else None
    hello = None if links is None else links.hello_of(peer)
    return PeerStatus(
        name=peer,
        address=replica.config.peers[peer] if links is None else links.addresses.of(peer),
        connected=peer in replica.links,
        api_url=None if links is None else links.api_urls.get(peer),
        match_index=match_index,
        last_heard_age_s=None if links is None else links.last_heard_age_s(peer),
        quarantined=replica.peer_is_quarantined(peer),
        formats=None if hello is None else hello.formats,
    )
