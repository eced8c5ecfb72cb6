"""What a node tells Prometheus, read from the live state at each scrape.

Decides in which order and in how many turns of the loop: namespace by namespace, executors some at
a time, and a long text is written beside the loop. A scrape of a thousand executors must not cost
a leader its lead.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from prometheus_client import ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from coordinator.clock import Clock
from coordinator.leadership import Leadership
from coordinator.metrics.families import Families
from coordinator.metrics.namespaces import add_executors, add_mind, add_tables
from coordinator.metrics.series import EXECUTORS_MAX, listed_executors, listed_namespaces
from coordinator.metrics.tables import METRICS, PREFIX
from coordinator.replica import Replica
from coordinator.settings import LimitSettings

__all__ = ["METRICS", "PREFIX", "NodeMetrics"]

AT_ONCE: Final = 200
"""Executors between two turns of the loop: some milliseconds."""

WRITTEN_HERE_MAX: Final = 1_000
"""Samples written on the loop, in 10 ms; the text of more is made by a thread."""


class _Collected:
    """In a registry's place: what was collected before."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """What the encoder asks for."""
        return self._metrics


class NodeMetrics:
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
        self._process = ProcessCollector(registry=None)
        self._one_at_a_time = asyncio.Lock()

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type: OpenMetrics where it is asked for, else the plain text."""
        encoder: Any
        encoder, content_type = choose_encoder(accept)
        async with self._one_at_a_time:
            families = Families()
            self._add_consensus(families)
            self._add_service(families)
            await self._add_namespaces(families)
            collected = _Collected([*families.all(), *self._process.collect()])
            if families.samples <= WRITTEN_HERE_MAX:
                return encoder(collected), content_type
            return await asyncio.to_thread(encoder, collected), content_type

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
        families.put("http_connections_held_back", meters.held_back())
        families.put("http_connections_max", self._limits.connections)
        left_s = meters.api_certificate_left_s()
        if left_s is not None:
            families.put("api_certificate_left_seconds", left_s)
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

    async def _add_namespaces(self, families: Families) -> None:
        some = listed_namespaces(self._replica.state.namespaces)
        families.put("namespaces", len(self._replica.state.namespaces))
        families.put("namespaces_unlisted", len(self._replica.state.namespaces) - len(some))
        room = EXECUTORS_MAX
        for name in some:
            room -= await self._add_namespace(families, name, room)
            await asyncio.sleep(0)

    async def _add_namespace(self, families: Families, name: str, room: int) -> int:
        """One namespace, unless it went meanwhile; gives how many executors have series."""
        namespace = self._replica.state.namespaces.get(name)
        if namespace is None:
            return 0
        add_tables(families, name, namespace, self._clock.wall_ms())
        found = self._leader.view(name) if self._leader.is_leading else None
        if found is None:
            return 0
        now = self._clock.monotonic()
        seen = add_mind(families, name, *found, now)
        listed = listed_executors(namespace, room)
        families.put("executors_unlisted", len(namespace.executors) - len(listed), name)
        for first in range(0, len(listed), AT_ONCE):
            await asyncio.sleep(0)
            add_executors(families, seen, listed[first : first + AT_ONCE])
        return len(listed)
