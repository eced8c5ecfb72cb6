"""The namespace as the planner sees it: executors as seats, shards as pieces with their loads.

A shard in handoff counts where it is going, so that every plan is made for the end state.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.core.controller.mind import Mind
from coordinator.core.controller.newcomers import Filling, is_mixed, ramping
from coordinator.core.controller.tallies import moving_out
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import FleetFigures, Piece, Seat, fleet_figures
from coordinator.core.shard import Shard
from coordinator.core.types import Executor


@dataclass(frozen=True, slots=True)
class Fleet:
    """Seats, what each will hold once the open handoffs are through, and their loads."""

    seats: tuple[Seat, ...]
    loads: dict[str, float]
    counts: dict[str, int]
    median: float
    unmeasured: dict[str, int] = field(default_factory=dict)
    """How many of these have a load that nobody has measured yet: they count as the median."""
    newest: frozenset[str] = frozenset()
    """While a deploy is under way: the executors of the version that is rolled out."""
    ramping: dict[str, Filling] = field(default_factory=dict)
    """How much each newcomer may hold by now."""

    def place(self, shard: Shard, executor: str, load: float) -> None:
        """Count a shard where it will be: later placements see what the earlier ones bring."""
        before = shard.target or shard.executor
        if before is not None and before in self.loads:
            self.counts[before] -= 1
            self.loads[before] -= load
        self.counts[executor] += 1
        self.loads[executor] += load


def see(namespace: NamespaceState, mind: Mind, now: float) -> Fleet:
    """The fleet as it will stand once the open handoffs are through."""
    leaving = moving_out(namespace)
    tallies = mind.tallies.of_all(namespace, leaving)
    has_unmeasured = bool(namespace.vacant) or any(one.unmeasured for one in tallies.values())
    median = mind.loads.median() if has_unmeasured else 0.0
    executors = [namespace.executors[name] for name in sorted(namespace.executors)]
    silent = mind.leases.silent(namespace.info.policy.lease_ttl_s, now)
    seats = tuple(
        seat_of(namespace, record, leaving.get(record.id, 0), is_silent=record.id in silent)
        for record in executors
    )
    newest = namespace.info.newest_version if is_mixed(namespace, mind, now) else ""
    return Fleet(
        seats,
        loads={e: one.load + one.unmeasured * median for e, one in tallies.items()},
        counts={executor: one.count for executor, one in tallies.items()},
        median=median,
        unmeasured={executor: one.unmeasured for executor, one in tallies.items()},
        newest=frozenset(one.id for one in executors if newest and one.profile.version == newest),
        ramping=ramping(namespace, mind, now),
    )


@dataclass(frozen=True, slots=True)
class Shares:
    """Who counts when it is said how even the load lies, and how even it is."""

    loads: dict[str, float]
    """Of those that may be given shards, and of those that have load."""
    rooms: dict[str, float]
    """Their capacities."""
    open_rooms: dict[str, float]
    """Capacities of those alone that may be given shards."""
    figures: FleetFigures


def shares_of(fleet: Fleet) -> Shares:
    """One that may get nothing and holds nothing, as when it is drained, is no cold executor."""
    open_rooms = {seat.executor: seat.capacity for seat in fleet.seats if seat.is_open}
    loads = {e: load for e, load in fleet.loads.items() if e in open_rooms or load > 0}
    rooms = {seat.executor: seat.capacity for seat in fleet.seats if seat.executor in loads}
    return Shares(loads, rooms, open_rooms, fleet_figures(loads, rooms))


def seat_of(
    namespace: NamespaceState, executor: Executor, leaving: int, *, is_silent: bool
) -> Seat:
    """One executor as the planner sees it; a silent one is given nothing and not relieved.

    Nor is one relieved that leaves and will be back: its shards stay its own. `leaving` is how
    many shards it gives up just now.
    """
    return Seat(
        executor=executor.id,
        capacity=executor.profile.capacity,
        is_open=namespace.accepts(executor) and not is_silent,
        is_source=not is_silent
        and executor.predecessor is None
        and not executor.evicted
        and namespace.return_window_s(executor) <= 0.0,
        zone=executor.profile.zone,
        in_flight=leaving + len(namespace.incoming(executor.id)),
    )


def owed_pieces(fleet: Fleet, mind: Mind, shards: Iterable[Shard]) -> list[Piece]:
    """Shards that need an executor, kept away from those that could not start them lately."""
    open_names = {seat.executor for seat in fleet.seats if seat.is_open}
    return [
        Piece(
            shard.key,
            mind.load_of(shard, fleet.median),
            banned=mind.failures.bans(shard.key, open_names),
        )
        for shard in shards
    ]
