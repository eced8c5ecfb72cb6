"""The names, texts and labels of all metrics: docs, alerts and dashboards are held against them.

Decides names and units: seconds, bytes, and ratios of 0 to 1. Labels are namespaces, executors,
states, reasons and route templates, each bounded: never a shard key. Must not know where a figure
comes from.
"""

from collections.abc import Mapping
from typing import Final

PREFIX: Final = "shard_coordinator_"

Table = Mapping[str, tuple[str, tuple[str, ...]]]
"""Name without prefix -> what it says, and its labels."""

_OF: Final = ("namespace",)
_OF_EXECUTOR: Final = ("namespace", "executor")

NODE_GAUGES: Final[Table] = {
    "raft_is_leader": ("1 on the node that leads", ()),
    "raft_term": ("Raft's term", ()),
    "raft_has_quorum": ("1 while a majority of members is connected", ()),
    "raft_is_quarantined": ("1 while this node has lost its memory and takes no part", ()),
    "raft_members": ("Members of the cluster, this node included", ()),
    "raft_peers_connected": ("Other members that this node is linked to", ()),
    "raft_leader_contact_seconds": (
        "Seconds since the leader was heard; on the leader, since a majority was; none without one",
        (),
    ),
    "raft_commit_index": ("Index of the last committed entry this node knows", ()),
    "raft_applied_index": ("Index of the last entry in this node's state", ()),
    "raft_log_entries": ("Entries in the log", ()),
    "raft_log_bytes": ("Bytes of the entries in the log", ()),
    "raft_disk_fault": ("1 while this node's journal takes nothing", ()),
    "raft_certificate_left_seconds": (
        "How long this node's certificate for its peers is good for; none without one",
        (),
    ),
    "api_certificate_left_seconds": (
        "How long the certificate of this node's API is good for; none without one",
        (),
    ),
    "snapshot_bytes": ("Size of the last snapshot; 0 before the first", ()),
    "snapshot_age_seconds": ("Seconds since the last snapshot was made; none before the first", ()),
    "watch_waiters": ("Open long polls", ()),
    "watch_waiters_max": ("Open long polls that this node allows", ()),
    "http_connections": ("Open connections to the API", ()),
    "http_connections_held_back": (
        "Open connections that wait for a turn: callers of their address were refused often",
        (),
    ),
    "http_connections_max": ("Open connections to the API that this node allows", ()),
    "namespaces": ("Namespaces of the cluster", ()),
    "namespaces_unlisted": (
        "Those without metrics of their own, as there are too many: the newest ones",
        (),
    ),
}

NAMESPACE_GAUGES: Final[Table] = {
    "executors": ("Executors by standing", ("namespace", "state")),
    "shards": ("Shards by state", ("namespace", "state")),
    "shards_unassigned": ("Shards that wait for an owner", _OF),
    "shards_reserved": ("Those of them that are kept for an executor while it restarts", _OF),
    "shards_pinned": ("Shards that an operator pinned to an executor", _OF),
    "drains": ("Drains of executors and hosts that are not ended", _OF),
    "handoffs_open": ("Shards on their way from one executor to another", _OF),
    "mass_failure": ("1 while nothing is taken from silent executors", _OF),
    "claims_open": ("1 while executors say what they hold from before, and nobody is placed", _OF),
    "balance_paused": ("1 while an operator lets the balancer rest", _OF),
    "lease_seconds": ("How long an executor may act after a heartbeat", _OF),
    "shards_parked_for_poison": (
        "Shards that were present at too many crashes or failed starts",
        _OF,
    ),
    "shards_suspected_of_poison": (
        "Shards with as many crashes or failed starts as poison_threshold, and not parked",
        _OF,
    ),
}

LEADER_GAUGES: Final[Table] = {
    "executors_unlisted": ("Executors without metrics of their own, as there are too many", _OF),
    "executors_silent": ("Executors not heard for half a lease", _OF),
    "executors_saturated": ("Executors whose loop is late or whose backlog does not get less", _OF),
    "executors_needed": (
        "Fewest with which nobody needs to be above high_mark; none without it, or if none do",
        _OF,
    ),
    "heartbeat_age_max_seconds": ("Of the executor not heard for longest", _OF),
    "lease_left_min_ratio": (
        "What is left of the lease that ends first, as a share of a whole one",
        _OF,
    ),
    "shards_unassigned_for_seconds": (
        "Seconds since every shard had an owner or was parked; 0 while all have",
        _OF,
    ),
    "shards_unmeasured": ("Shards whose load nobody has measured yet", _OF),
    "shards_double_owned": ("Shards that two live executors say they hold", _OF),
    "shards_held_astray": ("Shards that a live executor says it holds and does not own", _OF),
    "handoff_oldest_seconds": (
        "Age of the oldest open handoff, as far as this leader knows; 0 without one",
        _OF,
    ),
    "fleet_load_max": ("Utilisation of the hottest executor", _OF),
    "fleet_load_mean": ("Load by capacity of the whole fleet", _OF),
    "fleet_load_min": ("Utilisation of the coldest executor", _OF),
    "fleet_load_floor": (
        "The least utilisation that the hottest could have, as of the last plan",
        _OF,
    ),
    "fleet_load_spread_ratio": ("Standard deviation by mean of the executors' utilisation", _OF),
    "fleet_best_possible_spread_ratio": (
        "The least spread any placement could have, as of the last plan",
        _OF,
    ),
    "fleet_spread_gap_ratio": ("The spread above the least that any placement could have", _OF),
    "fleet_static_hash_spread_ratio": (
        "The spread that static hashing would give, as a pass measured it last",
        ("namespace", "rule"),
    ),
    "balance_blocked": ("1 while the hottest executor cannot be relieved", ("namespace", "reason")),
    "executor_load": (
        "Utilisation of an executor; none while it is silent or none of its shards is measured",
        _OF_EXECUTOR,
    ),
    "executor_shards": ("Shards that an executor owns", _OF_EXECUTOR),
    "executor_heartbeat_age_seconds": ("Seconds since an executor was heard", _OF_EXECUTOR),
    "executor_loop_lag_seconds": (
        "How late an executor's event loop is, by its own word; none without one",
        _OF_EXECUTOR,
    ),
}

NODE_COUNTERS: Final[Table] = {
    "raft_leader_changes": ("Times that this node began to lead", ()),
    "log_lines": (
        "Lines of this node's log; left_out are repeats that were not written",
        ("level",),
    ),
    "heartbeats": ("Heartbeats answered by this node as leader", ("outcome",)),
    "http_requests": ("Requests answered", ("route", "code")),
    "http_turned_away": ("Requests that were not let in", ("reason",)),
}

LEADER_COUNTERS: Final[Table] = {
    "moves": ("Moves begun", ("namespace", "reason")),
    "moves_blocked": (
        "Passes after which the hottest executor could not be relieved",
        ("namespace", "reason"),
    ),
    "passes": (
        "Balancing passes by why they ended, or why none was made",
        ("namespace", "outcome"),
    ),
    "handoffs": (
        "Handoffs that are over, by whether the target got the shard",
        ("namespace", "outcome"),
    ),
    "lease_expirations": ("Executors that were lost: their leases ran out", _OF),
    "claims": ("Claims to shards from before, by what they came to", ("namespace", "outcome")),
    "shards_unowned_seconds": ("Seconds without an owner, of all shards together", _OF),
}

NODE_HISTOGRAMS: Final[Table] = {
    "raft_commit_seconds": ("From a proposal on this node to its outcome", ()),
    "loop_lag_seconds": ("How late this node's event loop was, looked at ten times a second", ()),
    "leader_step_seconds": ("How long one step of the leader held this node's loop", ()),
    "http_request_seconds": (
        "From a request's header to its answer; long polls are left out",
        ("route",),
    ),
}

LEADER_HISTOGRAMS: Final[Table] = {
    "plan_seconds": ("Balancing passes from first to last slice; 0 for a single slice", _OF),
    "handoff_seconds": ("From the start of a handoff to the target's ownership", _OF),
}

NOW: Final = "; on the leader"
"""What ends the texts of gauges that followers do not serve."""

SO_FAR: Final = "; since this node began to lead"
"""What ends the texts of sums that start again with each leader."""


def _ending(table: Table, end: str) -> Table:
    return {name: (text + end, labels) for name, (text, labels) in table.items()}


GAUGES: Final[Table] = {**NODE_GAUGES, **NAMESPACE_GAUGES, **_ending(LEADER_GAUGES, NOW)}
COUNTERS: Final[Table] = {**NODE_COUNTERS, **_ending(LEADER_COUNTERS, SO_FAR)}
HISTOGRAMS: Final[Table] = {**NODE_HISTOGRAMS, **_ending(LEADER_HISTOGRAMS, SO_FAR)}
OTHERS: Final[Table] = {"build_info": ("The software of this node", ("version",))}
METRICS: Final[Table] = {**GAUGES, **COUNTERS, **HISTOGRAMS, **OTHERS}
