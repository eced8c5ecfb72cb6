"""How links between members are kept: time-outs, bounds, and who may be at the other end.

Decides nothing by itself; the cures `own-links` and `closed-port` fill it in. The defaults are
what the library's own transport does.
"""

from dataclasses import dataclass

from coordinator.consensus.contract import PeerCertificates


@dataclass(slots=True)
class LinkPolicy:
    """Settings of all links of one node."""

    ping_interval_s: float = 3600.0
    """The library sends nothing on an idle link."""
    dead_after_s: float = 3.5
    redial_min_s: float = 5.0
    redial_max_s: float = 5.0
    is_loopback_only: bool = False
    certificates: PeerCertificates | None = None
    """Both ends show one; without them the port speaks plaintext."""
    checks_cluster: bool = False
    """Refuse a hello that means another node or belongs to another cluster."""
    checks_addresses: bool = False
    """Refuse a hello from where its speaker is not known to be: the former process of a member."""
    handshake_s: float = 3.0
    """A stranger must have said who it is by then."""
    connect_s: float = 1.0
    unidentified_max: int = 8
    """More than all peers at once; the oldest gives way."""
    buffered_bytes_max: int = 32 << 20
    """A peer that still does not read loses its link, and is caught up later."""
    congested_bytes: int = 8 << 20
    """From here on nothing is replicated to a peer until it has read: two of the largest frames."""
    backlog: int = 64
