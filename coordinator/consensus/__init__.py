"""Consensus on bytes: PySyncObj made fast and safe. See `DESIGN.md` in this folder."""

from coordinator.consensus.confirming import Confirmation
from coordinator.consensus.contract import (
    ENTRY_BYTES_MAX,
    ApplyFailed,
    ConsensusConfig,
    ConsensusError,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    PeerCertificates,
    PeerStatus,
    ProbeTimeout,
    StateMachine,
    Status,
    TooLarge,
    TransferFailed,
    UnknownEntry,
)
from coordinator.consensus.node import ConsensusNode
from coordinator.consensus.survivor import force_new_cluster

__all__ = [
    "ENTRY_BYTES_MAX",
    "ApplyFailed",
    "Confirmation",
    "ConsensusConfig",
    "ConsensusError",
    "ConsensusNode",
    "NotLeader",
    "OutcomeUnknown",
    "Overloaded",
    "PeerCertificates",
    "PeerStatus",
    "ProbeTimeout",
    "StateMachine",
    "Status",
    "TooLarge",
    "TransferFailed",
    "UnknownEntry",
    "force_new_cluster",
]
