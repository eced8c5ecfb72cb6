"""Names and units of metrics, held against the rules of Prometheus."""

import re

from coordinator.metrics.tables import COUNTERS, GAUGES, HISTOGRAMS, METRICS, PREFIX

UNITS = {"seconds", "bytes", "ratio"}
COUNTED = {
    # What is counted needs no unit; what is measured names one.
    "raft_term", "raft_members", "raft_peers_connected", "raft_commit_index", "raft_applied_index",
    "raft_log_entries", "watch_waiters", "watch_waiters_max", "http_connections",
    "http_connections_held_back", "http_connections_max", "namespaces", "namespaces_unlisted",
    "executors", "executors_unlisted",
    "executors_silent", "executors_saturated", "executors_needed", "shards", "shards_unassigned",
    "shards_reserved", "shards_pinned", "shards_parked_for_poison", "shards_suspected_of_poison",
    "shards_double_owned", "shards_held_astray", "shards_unmeasured", "executor_shards",
    "drains", "handoffs_open",
}  # fmt: skip
FLAGS = {
    "raft_is_leader", "raft_has_quorum", "raft_is_quarantined", "raft_disk_fault", "mass_failure",
    "claims_open", "balance_paused", "balance_blocked",
}  # fmt: skip
LOADS = {"fleet_load_max", "fleet_load_mean", "fleet_load_min", "fleet_load_floor", "executor_load"}
"""In the unit of capacity, which is the user's."""


def test_every_gauge_has_a_unit_at_its_end_or_is_a_count_a_flag_or_a_load() -> None:
    measured = {name for name in GAUGES if name.rpartition("_")[2] in UNITS}
    assert measured | COUNTED | FLAGS | LOADS == set(GAUGES)
    assert not measured & (COUNTED | FLAGS | LOADS)


def test_a_flag_says_when_it_is_1_and_a_time_is_in_seconds() -> None:
    assert {name for name, (text, _) in GAUGES.items() if text.startswith("1 ")} == FLAGS
    for name, (text, _) in METRICS.items():
        assert not re.search(r"(?:^|_)(ms|millis|minutes|hours|percent|kb|mb)(?:_|$)", name), name
        assert not text.endswith("."), name


def test_counters_and_histograms_are_named_as_prometheus_wants_it() -> None:
    assert all(not name.endswith("_total") for name in COUNTERS), "the encoder puts it there"
    assert all(name.endswith("_seconds") for name in HISTOGRAMS)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*_", PREFIX)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in METRICS)


def test_labels_are_of_a_closed_set_and_none_is_a_shard() -> None:
    labels = {label for _, labels in METRICS.values() for label in labels}
    assert labels == {
        "namespace", "executor", "state", "reason", "outcome", "rule", "route", "code",
        "level", "version",
    }  # fmt: skip
