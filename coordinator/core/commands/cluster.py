"""Commands that concern the whole cluster: its birth, its namespaces, its members."""

from dataclasses import dataclass

from coordinator.core.types import (
    NamespaceKind,
    Policy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """The first command of a cluster's life: names it and sets the epoch counter."""

    cluster_id: str
    epoch_base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceNewCluster:
    """The other members are lost for good: this state goes on as another cluster.

    Refused unless it is the state of the cluster that is named; the same again is no change.
    """

    cluster_id: str
    former_id: str
    epoch_base: int
    """Epochs are above it from now on: the lost members may have given some unseen."""
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespace:
    """Make a namespace; the same kind and count again is no change."""

    namespace: str
    kind: NamespaceKind
    shard_count: int
    policy: Policy
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteNamespace:
    """Forget a namespace; refused while executors live there unless forced."""

    namespace: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMember:
    """A member's next process is at another address; the one at the former counts no more."""

    node: str
    raft: str
    api: str
