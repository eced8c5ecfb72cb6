"""What a node tells Prometheus, read from the live state at each scrape."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from coordinator.clock import Clock
from coordinator.leadership import Leadership
from coordinator.metrics.families import Families
from coordinator.metrics.namespaces import add_executors, add_mind, add_tables
from coordinator.metrics.series import EXECUTORS_MAX, listed_executors, listed_namespaces
from coordinator.metrics.tables import METRICS, PREFIX
from coordinator.replica import Replica
from coordinator.settings import LimitSettings

__all__ = ["METRICS", "PREFIX", "NodeMetrics"]


class NodeMetrics(Collector):
    """One node's metrics; `render` gives a scrape its answer."""

    def __init__(
        self,
        replica: Replica,
        leader: Leadership,
        clock: Clock,
        limits: LimitSettings,
        *,
        waiters: Callable[[], int],
    ) -> None:
        self._replica = replica
        self._leader = leader
        self._clock = clock
        self._limits = limits
        self._waiters = waiters
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type: OpenMetrics where it is asked for, else the plain text."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Every metric as it is now."""
        families = Families()
        self._add_consensus(families)
        self._add_service(families)
        self._add_namespaces(families)
        return families.all()

    def _add_consensus(self, families: Families) -> None:
        status = self._replica.consensus.status()
        figures: dict[str, float | None] = {
            "raft_is_leader": self._leader.is_leading,
            "raft_term": status.term,
            "raft_has_quorum": status.has_quorum,
            "raft_is_quarantined": status.role == "quarantined",
            "raft_members": len(status.peers) + 1,
            "raft_peers_connected": sum(peer.connected for peer in status.peers),
            "raft_leader_contact_seconds": status.leader_contact_age_s,
            "raft_commit_index": status.commit_index,
            "raft_applied_index": status.applied_index,
            "raft_log_entries": status.log_entries,
            "raft_log_bytes": status.log_bytes,
            "raft_disk_fault": status.disk_fault is not None,
            "raft_certificate_left_seconds": status.certificate_left_s,
            "snapshot_bytes": status.snapshot_bytes,
            "snapshot_age_seconds": status.snapshot_age_s,
        }
        for name, figure in figures.items():
            if figure is not None:
                families.put(name, figure)

    def _add_service(self, families: Families) -> None:
        meters = self._replica.meters
        families.put("watch_waiters", self._waiters())
        families.put("watch_waiters_max", self._limits.watch_waiters)
        families.put("http_connections", meters.connections())
        families.put("http_connections_max", self._limits.connections)
        families.put("raft_leader_changes", meters.leaderships)
        families.put_each("log_lines", meters.log_lines)
        families.put_each("heartbeats", self._leader.heartbeats_total)
        for (route, code), count in sorted(meters.answered.items()):
            families.put("http_requests", count, route, str(code))
        families.put_each("http_turned_away", meters.turned_away)
        for route, durations in sorted(meters.requests.items()):
            families.put_times("http_request_seconds", durations, route)
        families.put_times("raft_commit_seconds", meters.commits)
        families.put_times("leader_step_seconds", meters.steps)
        families.put_times("loop_lag_seconds", meters.loop_lag)

    def _add_namespaces(self, families: Families) -> None:
        every = self._replica.state.namespaces
        some = listed_namespaces(every)
        families.put("namespaces", len(every))
        families.put("namespaces_unlisted", len(every) - len(some))
        now, at_ms = self._clock.monotonic(), self._clock.wall_ms()
        room = EXECUTORS_MAX
        for name, namespace in some:
            add_tables(families, name, namespace, at_ms)
            found = self._leader.view(name) if self._leader.is_leading else None
            if found is None:
                continue
            _, mind = found
            fleet = add_mind(families, name, namespace, mind, now)
            listed = listed_executors(namespace, room)
            room -= len(listed)
            add_executors(families, name, namespace, mind, fleet, listed=listed, now=now)
