"""What a node tells Prometheus, read from the live state at each scrape.

Decides names, labels and units. Labels are namespaces, states, reasons and route templates: never
a shard key, whose number has no bound.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from coordinator import __version__
from coordinator.clock import Clock
from coordinator.core.controller import Mind
from coordinator.core.controller.fleet import see
from coordinator.core.controller.outage import is_silent
from coordinator.core.controller.poison import parked_for_poison, suspected_of_poison
from coordinator.core.controller.strays import strays
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import BlockedReason, fleet_figures
from coordinator.core.types import ShardState
from coordinator.leadership import Leadership
from coordinator.replica import Replica

PREFIX: Final = "shard_coordinator_"

GAUGES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "raft_is_leader": ("1 on the node that leads", ()),
    "raft_term": ("Raft's term", ()),
    "raft_has_quorum": ("1 while a majority of members is connected", ()),
    "raft_log_entries": ("Entries in the log", ()),
    "raft_disk_fault": ("1 while this node's journal takes nothing", ()),
    "executors": ("Executors by standing", ("namespace", "state")),
    "shards": ("Shards by state", ("namespace", "state")),
    "mass_failure": ("1 while nothing is taken from silent executors", ("namespace",)),
    "executors_silent": ("Executors not heard for half a lease; on the leader", ("namespace",)),
    "shards_unassigned": ("Shards that wait for an owner", ("namespace",)),
    "shards_reserved": (
        "Those of them that are kept for an executor while it restarts",
        ("namespace",),
    ),
    "claims_open": (
        "1 while executors say what they hold from before, and nobody is placed",
        ("namespace",),
    ),
    "shards_parked_for_poison": (
        "Shards that were present at too many crashes or failed starts",
        ("namespace",),
    ),
    "shards_suspected_of_poison": (
        "Shards with as many crashes or failed starts as poison_threshold, and not parked",
        ("namespace",),
    ),
    "shards_double_owned": (
        "Shards that two live executors say they hold; on the leader",
        ("namespace",),
    ),
    "shards_held_astray": (
        "Shards that a live executor says it holds and does not own; on the leader",
        ("namespace",),
    ),
    "fleet_load_max": ("Utilisation of the hottest executor; on the leader", ("namespace",)),
    "fleet_load_mean": ("Load by capacity of the whole fleet; on the leader", ("namespace",)),
    "fleet_load_min": ("Utilisation of the coldest executor; on the leader", ("namespace",)),
    "fleet_load_spread_ratio": (
        "Standard deviation by mean of the executors' utilisation; on the leader",
        ("namespace",),
    ),
    "fleet_static_hash_spread_ratio": (
        "The spread that static hashing would give, as a pass measured it last; on the leader",
        ("namespace", "rule"),
    ),
    "fleet_best_possible_spread_ratio": (
        "The least spread any placement could have, as of the last pass; on the leader",
        ("namespace",),
    ),
    "balance_blocked": (
        "1 while the hottest executor cannot be relieved; on the leader",
        ("namespace", "reason"),
    ),
    "executors_saturated": (
        "Executors whose loop is late or whose backlog does not get less; on the leader",
        ("namespace",),
    ),
    "watch_waiters": ("Open long polls", ()),
}
COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "moves": ("Moves begun since this node began to lead", ("namespace", "reason")),
    "lease_expirations": ("Incarnations closed since this node began to lead", ("namespace",)),
    "claims": (
        "Claims to shards from before, by what they came to, since this node began to lead",
        ("namespace", "outcome"),
    ),
    "heartbeats": ("Heartbeats answered by this node as leader", ("outcome",)),
    "http_requests": ("Requests answered", ("route", "code")),
}


class NodeMetrics(Collector):
    """One node's metrics; `render` gives a scrape its answer."""

    def __init__(
        self,
        replica: Replica,
        leader: Leadership,
        clock: Clock,
        *,
        waiters: Callable[[], int],
        answered: Mapping[tuple[str, int], int],
    ) -> None:
        self._replica = replica
        self._leader = leader
        self._clock = clock
        self._waiters = waiters
        self._answered = answered
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type: OpenMetrics where it is asked for, else the plain text."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Every metric as it is now."""
        yield InfoMetricFamily(
            f"{PREFIX}build", "The software of this node", value={"version": __version__}
        )
        gauges = {
            name: GaugeMetricFamily(PREFIX + name, text, labels=labels)
            for name, (text, labels) in GAUGES.items()
        }
        counters = {
            name: CounterMetricFamily(PREFIX + name, text, labels=labels)
            for name, (text, labels) in COUNTERS.items()
        }
        self._add_raft(gauges)
        gauges["watch_waiters"].add_metric((), self._waiters())
        for outcome, count in sorted(self._leader.heartbeats_total.items()):
            counters["heartbeats"].add_metric((outcome,), count)
        for (route, code), count in sorted(self._answered.items()):
            counters["http_requests"].add_metric((route, str(code)), count)
        for name, namespace in sorted(self._replica.state.namespaces.items()):
            _add_tables(gauges, name, namespace)
            if self._leader.is_leading and (found := self._leader.view(name)) is not None:
                self._add_mind(gauges, counters, name, *found)
        yield from gauges.values()
        yield from counters.values()

    def _add_raft(self, gauges: Mapping[str, GaugeMetricFamily]) -> None:
        status = self._replica.consensus.status()
        gauges["raft_is_leader"].add_metric((), self._leader.is_leading)
        gauges["raft_term"].add_metric((), status.term)
        gauges["raft_has_quorum"].add_metric((), status.has_quorum)
        gauges["raft_log_entries"].add_metric((), status.log_entries)
        gauges["raft_disk_fault"].add_metric((), status.disk_fault is not None)

    def _add_mind(
        self,
        gauges: Mapping[str, GaugeMetricFamily],
        counters: Mapping[str, CounterMetricFamily],
        name: str,
        namespace: NamespaceState,
        mind: Mind,
    ) -> None:
        now = self._clock.monotonic()
        silent = (is_silent(namespace, mind, one, now) for one in namespace.executors.values())
        gauges["executors_silent"].add_metric((name,), sum(silent))
        astray = strays(namespace, mind, now)
        doubles = {one.key for one in astray if one.other is not None}
        gauges["shards_double_owned"].add_metric((name,), len(doubles))
        gauges["shards_held_astray"].add_metric((name,), len({one.key for one in astray}))
        fleet = see(namespace, mind, now)
        capacities = {seat.executor: seat.capacity for seat in fleet.seats}
        figures = fleet_figures(fleet.loads, capacities)
        gauges["fleet_load_max"].add_metric((name,), figures.hottest_utilisation)
        gauges["fleet_load_mean"].add_metric((name,), figures.mean)
        gauges["fleet_load_min"].add_metric((name,), figures.coldest_utilisation)
        gauges["fleet_load_spread_ratio"].add_metric((name,), figures.spread)
        _add_balance(gauges, name, namespace, mind)
        for cause, count in sorted(mind.moves_total.items()):
            counters["moves"].add_metric((name, str(cause)), count)
        for standing, count in mind.claims.totals.items():
            if count:
                counters["claims"].add_metric((name, standing.value), count)
        counters["lease_expirations"].add_metric((name,), mind.expirations_total)


def _add_balance(
    gauges: Mapping[str, GaugeMetricFamily], name: str, namespace: NamespaceState, mind: Mind
) -> None:
    """What the last pass found, and who would do more if it could."""
    saturated = sum(mind.loads.is_saturated(one) for one in namespace.executors)
    gauges["executors_saturated"].add_metric((name,), saturated)
    if mind.yardstick is not None:
        hashed = gauges["fleet_static_hash_spread_ratio"]
        hashed.add_metric((name, "modulo"), mind.yardstick.modulo.spread)
        hashed.add_metric((name, "ring"), mind.yardstick.ring.spread)
    plan = None if mind.last_pass is None else mind.last_pass.plan
    if plan is not None:
        gauges["fleet_best_possible_spread_ratio"].add_metric((name,), plan.bound.spread)
        for reason in BlockedReason:
            is_so = plan.blocked is not None and plan.blocked.reason is reason
            gauges["balance_blocked"].add_metric((name, reason.value), is_so)


def _add_tables(
    gauges: Mapping[str, GaugeMetricFamily], name: str, namespace: NamespaceState
) -> None:
    standings = dict.fromkeys(("active", "cordoned", "draining", "drained"), 0)
    held = 0
    for executor in namespace.executors.values():
        standings[namespace.status_of(executor)] += 1
        held += len(namespace.owned(executor.id))
    for standing, count in standings.items():
        gauges["executors"].add_metric((name, standing), count)
    moving = dict.fromkeys((ShardState.PREPARING, ShardState.RELEASING), 0)
    for key in namespace.in_flight:
        moving[namespace.shards[key].state] += 1
    kept = sum(len(namespace.reserved(executor)) for executor in namespace.reservations)
    vacant = len(namespace.vacant) + kept
    states = {
        ShardState.VACANT: vacant,
        ShardState.OWNED: held - sum(moving.values()),
        ShardState.PARKED: len(namespace.shards) - held - vacant,
        **moving,
    }
    for state, count in states.items():
        gauges["shards"].add_metric((name, state.value), count)
    gauges["claims_open"].add_metric((name,), namespace.info.window is not None)
    gauges["shards_parked_for_poison"].add_metric((name,), parked_for_poison(namespace))
    gauges["shards_suspected_of_poison"].add_metric((name,), suspected_of_poison(namespace))
    gauges["shards_unassigned"].add_metric((name,), vacant)
    gauges["shards_reserved"].add_metric((name,), kept)
    alarm = namespace.info.mass_failure
    gauges["mass_failure"].add_metric((name,), alarm is not None and alarm.is_holding)
