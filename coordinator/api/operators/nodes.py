"""The records of nodes and of their cluster: a part of what operators ask and are answered."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from coordinator.api.operators.news import AlarmView


class TransferRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hand leadership to a node; to the best one when none is named."""

    to: Annotated[str, Meta(min_length=1, max_length=63)] | None = None


class MemberRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the next process of a member is."""

    node: Annotated[str, Meta(min_length=1, max_length=63)]
    raft: Annotated[str, Meta(min_length=1, max_length=261)] | None = None
    """"host:port" of its Raft port; the present one when none is named."""
    api: Annotated[str, Meta(min_length=1, max_length=512)]
    """URL of its API."""


class NodeView(Struct, frozen=True, kw_only=True):
    """A node of the cluster, as the answering node sees it."""

    node: str
    role: str
    """leader, follower, candidate, quarantined; unknown of others that were not heard."""
    address: str
    api: str | None
    is_reachable: bool
    last_heard_age_s: float | None
    match_index: int | None
    """What the leader knows to be replicated there."""
    formats: tuple[int, int] | None
    """Oldest and newest format of commands that it reads; null while it is not connected."""


class ClusterAnswer(Struct, frozen=True, kw_only=True):
    """The cluster, as the answering node sees it."""

    cluster_id: str | None
    node: str
    leader: str | None
    leader_api: str | None
    term: int
    has_quorum: bool
    leader_contact_age_s: float | None
    commit_index: int
    applied_index: int
    storage: Literal["memory", "journal"]
    storage_fault: str | None
    """Why this node can keep nothing at the moment, and so takes no part."""
    log_entries: int
    log_bytes: int
    snapshot_index: int
    snapshot_bytes: int
    snapshot_age_s: float | None
    digest: str | None
    """Of the state at `applied_index`, if it was asked for: equal on all nodes at one index."""
    format: int
    """The newest format of commands that was used; a new one waits until all nodes read it."""
    alarms: list[AlarmView]
    """Of every namespace, by its name."""
    nodes: list[NodeView]
