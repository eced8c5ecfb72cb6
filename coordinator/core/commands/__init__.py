"""The closed set of replicated commands, and the two outcomes a command can have.

A command carries all that its rule needs, time and fresh ids included, so that every node
decides alike. Each names what it is based on (an incarnation, an epoch, a policy version)
and is refused when that is no longer so.
"""

from dataclasses import dataclass

from coordinator.core.commands.claims import AdoptClaims, CloseWindow
from coordinator.core.commands.cluster import (
    Bootstrap,
    CreateNamespace,
    DeleteNamespace,
    ForceNewCluster,
    MoveMember,
)
from coordinator.core.commands.executors import (
    CloseIncarnation,
    ContinueEnding,
    EndReservation,
    EvictExecutor,
    InheritShards,
    JoinExecutor,
    UpdateExecutor,
)
from coordinator.core.commands.handoffs import (
    AbortHandoffs,
    Acknowledge,
    AssignShards,
    FinishOverdue,
    MarkOverdue,
    MoveShard,
    StartHandoffs,
)
from coordinator.core.commands.loads import RecordLoads
from coordinator.core.commands.orders import (
    EndCordon,
    EndDrain,
    ExpireOrders,
    FinishDrains,
    PauseBalancer,
    ResumeBalancer,
    SetPolicy,
    SettleLease,
    StartCordon,
    StartDrain,
    UndoOrder,
)
from coordinator.core.commands.outages import (
    EndMassFailure,
    ProceedMassFailure,
    RaiseMassFailure,
)
from coordinator.core.commands.outcomes import (
    Applied,
    Outcome,
    Reason,
    Refused,
)
from coordinator.core.commands.shards import (
    DeclareShards,
    ForgetStrikes,
    NoteStrays,
    ParkPoison,
    ParkShard,
    PinShard,
    RetireShard,
    Stray,
    UnparkShard,
    UnpinShard,
)

__all__ = [
    "AbortHandoffs",
    "Acknowledge",
    "AdoptClaims",
    "Applied",
    "AssignShards",
    "Bootstrap",
    "CloseIncarnation",
    "CloseWindow",
    "ClusterCommand",
    "Command",
    "ContinueEnding",
    "CreateNamespace",
    "DeclareShards",
    "DeleteNamespace",
    "EndCordon",
    "EndDrain",
    "EndMassFailure",
    "EndReservation",
    "Entry",
    "EvictExecutor",
    "ExecutorCommand",
    "ExpireOrders",
    "FinishDrains",
    "FinishOverdue",
    "ForceNewCluster",
    "ForgetStrikes",
    "HandoffCommand",
    "InheritShards",
    "JoinExecutor",
    "MarkOverdue",
    "MoveMember",
    "MoveShard",
    "NamespaceCommand",
    "NoteStrays",
    "Once",
    "OrderCommand",
    "OutageCommand",
    "Outcome",
    "ParkPoison",
    "ParkShard",
    "PauseBalancer",
    "PinShard",
    "ProceedMassFailure",
    "RaiseMassFailure",
    "Reason",
    "RecordLoads",
    "Refused",
    "ResumeBalancer",
    "RetireShard",
    "SetPolicy",
    "SettleLease",
    "ShardCommand",
    "StartCordon",
    "StartDrain",
    "StartHandoffs",
    "Stray",
    "UndoOrder",
    "UnparkShard",
    "UnpinShard",
    "UpdateExecutor",
]

ExecutorCommand = (
    JoinExecutor
    | UpdateExecutor
    | InheritShards
    | EvictExecutor
    | CloseIncarnation
    | ContinueEnding
    | EndReservation
    | AdoptClaims
    | CloseWindow
)
HandoffCommand = (
    AssignShards
    | StartHandoffs
    | AbortHandoffs
    | MarkOverdue
    | FinishOverdue
    | Acknowledge
    | MoveShard
)
ShardCommand = (
    DeclareShards
    | RetireShard
    | ParkShard
    | ParkPoison
    | ForgetStrikes
    | NoteStrays
    | UnparkShard
    | PinShard
    | UnpinShard
    | RecordLoads
)
OutageCommand = RaiseMassFailure | ProceedMassFailure | EndMassFailure
OrderCommand = (
    SetPolicy
    | SettleLease
    | StartDrain
    | EndDrain
    | StartCordon
    | EndCordon
    | PauseBalancer
    | ResumeBalancer
    | FinishDrains
    | ExpireOrders
    | UndoOrder
)
NamespaceCommand = ExecutorCommand | HandoffCommand | ShardCommand | OutageCommand | OrderCommand
ClusterCommand = Bootstrap | ForceNewCluster | CreateNamespace | DeleteNamespace | MoveMember
Command = ClusterCommand | NamespaceCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """A command under an idempotency key: applied at most once, its outcome remembered."""

    key: str
    digest: str
    """Of the request: the same key with another digest is refused."""
    command: Command


Entry = Command | Once
