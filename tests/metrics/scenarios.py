"""For each alert the series that fire it: what a scrape says while the thing is going on.

`per_minute` is how a value grows; a counter that stands still is 0.
"""

from dataclasses import dataclass, field
from typing import Final

from coordinator.metrics.tables import PREFIX

P: Final = PREFIX
NS: Final = '{namespace="orders"}'


@dataclass(frozen=True)
class Fires:
    """The alert fires after so many minutes of these series, and not one minute before."""

    minutes: int
    """Of the rule's `for`, and of what it takes until a rate is known."""
    series: dict[str, float]
    """Series -> its value all the time."""
    growing: dict[str, float] = field(default_factory=dict)
    """Series -> how much it grows each minute."""
    labels: dict[str, str] = field(default_factory=dict)


def histogram(name: str, at_s: float, labels: str = "") -> dict[str, float]:
    """A histogram in which everything takes as long as this bucket's bound, or none for inf."""
    bounds_s = (0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
    lines = {
        f'{P}{name}_bucket{{{labels}le="{bound_s}"}}': 60.0 if at_s <= bound_s else 0.0
        for bound_s in bounds_s
    }
    return {**lines, f'{P}{name}_bucket{{{labels}le="+Inf"}}': 60.0}


IN_ORDERS: Final = {"namespace": "orders"}
ON_N1: Final = {"instance": "n1"}
_N1: Final = '{instance="n1"}'

SCENARIOS: Final = {
    "NoLeader": Fires(1, {f"{P}raft_is_leader{_N1}": 0, f'{P}raft_is_leader{{instance="n2"}}': 0}),
    "NodeDown": Fires(
        2,
        {'up{job="shard-coordinator",instance="n1"}': 0},
        labels={"job": "shard-coordinator", **ON_N1},
    ),
    "QuorumAtRisk": Fires(
        10,
        {
            f"{P}raft_has_quorum{_N1}": 1,
            f'{P}raft_has_quorum{{instance="n2"}}': 1,
            f"{P}raft_members{_N1}": 3,
            f'{P}raft_members{{instance="n2"}}': 3,
        },
    ),
    "LeaderFlapping": Fires(7, {}, growing={f"{P}raft_leader_changes_total{_N1}": 0.5}),
    "PeerUnlinked": Fires(
        5, {f"{P}raft_peers_connected{_N1}": 1, f"{P}raft_members{_N1}": 3}, labels=ON_N1
    ),
    "NodeBehind": Fires(1, {f"{P}raft_leader_contact_seconds{_N1}": 11}, labels=ON_N1),
    "Quarantined": Fires(2, {f"{P}raft_is_quarantined{_N1}": 1}, labels=ON_N1),
    "DiskFault": Fires(1, {f"{P}raft_disk_fault{_N1}": 1}, labels=ON_N1),
    "CertificateEnds": Fires(
        10, {f"{P}raft_certificate_left_seconds{_N1}": 6.9 * 86_400}, labels=ON_N1
    ),
    "LoopLate": Fires(
        6, {}, growing=histogram("loop_lag_seconds", 0.25, 'instance="n1",'), labels=ON_N1
    ),
    "CommitsSlow": Fires(
        6, {}, growing=histogram("raft_commit_seconds", 1.0, 'instance="n1",'), labels=ON_N1
    ),
    "NearLimit": Fires(
        5, {f"{P}watch_waiters{_N1}": 8_001, f"{P}watch_waiters_max{_N1}": 10_000}, labels=ON_N1
    ),
    "RequestsFailing": Fires(
        6,
        {},
        growing={
            f'{P}http_requests_total{{instance="n1",route="/leader",code="200"}}': 97,
            f'{P}http_requests_total{{instance="n1",route="/leader",code="503"}}': 3,
        },
        labels=ON_N1,
    ),
    "HeartbeatsRefused": Fires(
        6,
        {},
        growing={
            f'{P}heartbeats_total{{outcome="ok"}}': 90,
            f'{P}heartbeats_total{{outcome="incarnation_closed"}}': 10,
        },
    ),
    "TurnedAway": Fires(
        15,
        {},
        growing={f'{P}http_turned_away_total{{reason="rate"}}': 31},
        labels={"reason": "rate"},
    ),
    "ErrorsLogged": Fires(
        1, {}, growing={f'{P}log_lines_total{{instance="n1",level="error"}}': 1}, labels=ON_N1
    ),
    "VersionsMixed": Fires(
        120, {f'{P}build_info{{version="0.1.0"}}': 1, f'{P}build_info{{version="0.2.0"}}': 1}
    ),
    "SeriesLeftOut": Fires(15, {f"{P}namespaces_unlisted{_N1}": 3}),
    "DoubleOwned": Fires(0, {f"{P}shards_double_owned{NS}": 1}, labels=IN_ORDERS),
    "HeldAstray": Fires(2, {f"{P}shards_held_astray{NS}": 1}, labels=IN_ORDERS),
    "Unassigned": Fires(
        2,
        {f"{P}shards_unassigned{NS}": 5, f"{P}shards_reserved{NS}": 4},
        labels=IN_ORDERS,
    ),
    "MassFailure": Fires(0, {f"{P}mass_failure{NS}": 1}, labels=IN_ORDERS),
    "ExecutorsLost": Fires(3, {}, growing={f"{P}lease_expirations_total{NS}": 1}, labels=IN_ORDERS),
    "HeartbeatsLate": Fires(2, {f"{P}lease_left_min_ratio{NS}": 0.39}, labels=IN_ORDERS),
    "HandoffStuck": Fires(3, {}, growing={f"{P}handoff_oldest_seconds{NS}": 60}, labels=IN_ORDERS),
    "Poison": Fires(0, {f"{P}shards_parked_for_poison{NS}": 1}, labels=IN_ORDERS),
    "DrainLeftOver": Fires(24 * 60, {f"{P}drains{NS}": 1}, labels=IN_ORDERS),
    "BlockedByFloor": Fires(
        15,
        {f'{P}balance_blocked{{namespace="orders",reason="floor"}}': 1},
        labels=IN_ORDERS,
    ),
    "Blocked": Fires(
        30,
        {f'{P}balance_blocked{{namespace="orders",reason="pinned"}}': 1},
        labels={**IN_ORDERS, "reason": "pinned"},
    ),
    "CapacityShort": Fires(
        15,
        {
            f"{P}executors_needed{NS}": 9,
            f'{P}executors{{namespace="orders",state="active",instance="n1"}}': 8,
            f'{P}executors{{namespace="orders",state="active",instance="n2"}}': 8,
            f'{P}executors{{namespace="orders",state="draining",instance="n1"}}': 4,
        },
        labels=IN_ORDERS,
    ),
    "ExecutorsSaturated": Fires(15, {f"{P}executors_saturated{NS}": 1}, labels=IN_ORDERS),
    "Uneven": Fires(
        120,
        {f"{P}fleet_spread_gap_ratio{NS}": 0.31, f"{P}balance_paused{NS}": 0},
        labels=IN_ORDERS,
    ),
    "PauseLeftOver": Fires(8 * 60, {f"{P}balance_paused{NS}": 1}, labels=IN_ORDERS),
    "PlanOverrun": Fires(
        16,
        {},
        growing=histogram("plan_seconds", 10.0, 'namespace="orders",'),
        labels=IN_ORDERS,
    ),
}
