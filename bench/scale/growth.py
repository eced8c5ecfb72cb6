"""How costs grow from a thousand shards to a million: a line through logarithms, and its slope.

Decides what is counted as a cost: processor time, in one process and without a network, of what a
leader does with every shard or every executor. Must not know what a cluster adds to it. The state
is one that was read from a snapshot, as on every node since its last restart: its records lie in
memory in the order of the table. `snapshot_scattered` is of records that lie in another order, the
worst that changes can make of it: the work is the same, and the rest is misses of the caches.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp, log
from typing import Final

from bench.planner import BEGAN_S, HEARD_S, NAME, Fleet, fleet_of
from bench.rows import progress
from coordinator.codec import decode_snapshot, encode_snapshot
from coordinator.core.commands import (
    Applied,
    AssignShards,
    CloseIncarnation,
    Command,
    ContinueEnding,
)
from coordinator.core.controller import Controller
from coordinator.core.controller.fleet import see
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.picture import taking_picture
from coordinator.core.planner import Aims, finished, plan_pass
from coordinator.core.rules.endings import AT_ONCE
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import BalancerMode, BalancerPolicy, CloseCause, Placement
from coordinator.garbage import Aside

SHARDS: Final = (1_000, 10_000, 100_000, 1_000_000)
ON_EXECUTORS: Final = 100
EXECUTORS: Final = (100, 1_000, 10_000)
WITH_SHARDS: Final = 100_000
ROUNDS: Final = 3
"""The best counts: other programs disturb a round, they never improve one."""


@dataclass(frozen=True, slots=True)
class Line:
    """cost = factor * size ** exponent."""

    factor: float
    exponent: float


def fitted(sizes: Sequence[int], costs: Sequence[float]) -> Line:
    """The line through the logarithms that is off by the least squares."""
    xs, ys = [log(size) for size in sizes], [log(cost) for cost in costs]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    slope /= sum((a - x) ** 2 for a in xs)
    return Line(exp(y - slope * x), slope)


def by_shards(largest: int) -> dict[str, list[tuple[int, float]]]:
    """Cost by number of shards, of everything that looks at all of them."""
    found: dict[str, list[tuple[int, float]]] = {}
    for shards in (one for one in SHARDS if one <= largest):
        progress(f"{shards} shards on {ON_EXECUTORS} executors")
        fleet = fleet_of(shards, ON_EXECUTORS, BalancerPolicy(mode=BalancerMode.OFF))
        with _set_aside():
            costs = {"snapshot_scattered": _best(lambda of=fleet.state: _snapshot(of))}
        fleet = _read_back(fleet)
        with _set_aside():
            costs |= _costs(fleet)
        for name, cost in costs.items():
            found.setdefault(name, []).append((shards, cost))
    return found


@contextmanager
def _set_aside() -> Iterator[None]:
    """What there is, as a node sets it aside: the collector does not walk through it."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _read_back(fleet: Fleet) -> Fleet:
    """The same on a node that was restarted."""
    state = decode_snapshot(encode_snapshot(fleet.state.image()))
    return Fleet(state, state.namespaces[NAME], fleet.loads)


def _snapshot(state: ClusterState) -> None:
    for _ in encode_snapshot(state.image()):
        pass


def by_executors() -> dict[str, list[tuple[int, float]]]:
    """Cost by number of executors, of what a leader does at each step."""
    found: dict[str, list[tuple[int, float]]] = {}
    for executors in EXECUTORS:
        progress(f"{WITH_SHARDS} shards on {executors} executors")
        fleet = _read_back(fleet_of(WITH_SHARDS, executors, BalancerPolicy()))
        controller = _heard(fleet)
        mind = controller.mind(fleet.space, HEARD_S)
        mind.next_pass_at = mind.record.next_at = HEARD_S + 1e6
        with _set_aside():
            for name, work in (
                ("step", lambda c=controller, f=fleet: c.step(f.state, HEARD_S, 0)),
                ("see", lambda m=mind, f=fleet: see(f.space, m, HEARD_S)),
            ):
                found.setdefault(name, []).append((executors, _best(work)))
    return found


def _heard(fleet: Fleet) -> Controller:
    controller = Controller(fleet.state, BEGAN_S)
    fleet.hear(controller, HEARD_S - 4.0)
    fleet.hear(controller, HEARD_S - 2.0)
    return controller


def _costs(fleet: Fleet) -> dict[str, float]:
    controller = _heard(fleet)
    mind = controller.mind(fleet.space, HEARD_S)
    aims = Aims(start_gap=0.2, stop_gap=0.1, budget=100)

    def plan() -> object:
        picture = finished(taking_picture(fleet.space, mind, HEARD_S))
        return plan_pass(picture.seats, picture.holdings, aims)

    return {
        "heartbeats": min(_heartbeats_s(fleet, mind, HEARD_S + n + 1) for n in range(ROUNDS)),
        "plan": _best(plan),
        "snapshot": _best(lambda: _snapshot(fleet.state)),
        "loss": _loss_s(fleet),
    }


def _heartbeats_s(fleet: Fleet, mind: Mind, now: float) -> float:
    """One of every executor taken in, each just after it was decoded, which is not counted."""
    total_s = 0.0
    for executor in fleet.space.executors:
        beat = fleet.beat(executor, now)
        began = time.thread_time()
        mind.hear(fleet.space, beat)
        total_s += time.thread_time() - began
    return total_s


def _loss_s(fleet: Fleet) -> float:
    """Half of the executors lost, and their shards given to the others, some a command."""
    names = sorted(fleet.space.executors)
    others = names[len(names) // 2 :]
    aside = Aside(lambda: len(fleet.space.shards))
    began = time.thread_time()
    for name in names[: len(names) // 2]:
        _apply(
            fleet,
            aside,
            CloseIncarnation(
                namespace=NAME,
                executor=name,
                incarnation="1",
                cause=CloseCause.EXPIRED,
                placements=(),
                at_ms=0,
            ),
        )
        while name in fleet.space.executors:
            _apply(
                fleet,
                aside,
                ContinueEnding(
                    namespace=NAME, executor=name, incarnation="1", placements=(), at_ms=0
                ),
            )
    keys = list(fleet.space.vacant)
    for first in range(0, len(keys), AT_ONCE):
        some = enumerate(keys[first : first + AT_ONCE])
        homes = tuple(Placement(key, others[at % len(others)]) for at, key in some)
        assign = AssignShards(namespace=NAME, placements=homes, cause=Cause.PLACED, at_ms=0)
        _apply(fleet, aside, assign)
    return time.thread_time() - began


def _apply(fleet: Fleet, aside: Aside, command: Command) -> None:
    """As a node does it: what was written is set aside now and then."""
    outcome = fleet.state.apply(command)
    if not isinstance(outcome, Applied):
        raise TypeError(outcome)
    aside.wrote(max(1, outcome.count))


def _best(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)
