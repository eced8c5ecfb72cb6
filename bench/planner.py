"""How long a balancing pass takes, and how long it keeps the leader's loop from turning.

`python -m bench.planner [--json] [--largest N] [--rounds N]`. A namespace of 10,000 shards on 100
executors, of 100,000 on 1,000 and of a million on 1,000, loads with a heavy tail, placed by chance.
`pass` is a whole pass of the controller with a budget of one move in a hundred shards, whatever may
be in flight; `plan` is the part of it that looks for moves. `turn` is the longest turn of the loop
while the leader's own driver makes a pass under the default policy, heartbeats and all else kept
away. All times are of the processor: on a busy machine the clock says what others did. Exit status
0 only when all are within what is promised.
"""

import argparse
import asyncio
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast

from bench.rows import Bar, Row, lower_is_better, missed, progress, publish
from bench.snapshots.meter import Meter
from coordinator.core.commands import AbortHandoffs, Command, Outcome, StartHandoffs
from coordinator.core.controller import Beat, Controller, Pass
from coordinator.core.controller.picture import taking_picture
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Aims, finished, plan_pass
from coordinator.core.shard import Shard, ShardState
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    BalancerPolicy,
    Claim,
    Executor,
    ExecutorProfile,
    Namespace,
    NamespaceKind,
    Policy,
)
from coordinator.leader import LeaderLoop
from coordinator.meters import Meters
from coordinator.replica import Replica

PROMISES_S: Final = {
    (10_000, 100): 0.020,
    (100_000, 1_000): 0.150,
    (1_000_000, 1_000): 3.0,
}
TURN_S: Final = 0.010
"""Longer than that and a heartbeat's answer is felt to be late."""
NAME: Final = "load"
BEGAN_S: Final = 0.0
HEARD_S: Final = 2_000.0
"""By then a new leader has listened for long enough to move something."""


@dataclass(slots=True)
class ManualClock:
    """Time as it is told."""

    now: float = BEGAN_S

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return round(self.now * 1000)


@dataclass(slots=True)
class Alone:
    """What the leader's driver needs of a replica: entries are applied as they are proposed."""

    state: ClusterState
    on_leadership: Callable[[bool, int], None] = lambda _is_leader, _term: None
    waiting: list[Callable[[], None]] = field(default_factory=list)
    meters: Meters = field(default_factory=Meters)
    moves: int = 0

    @property
    def consensus(self) -> "Alone":
        return self

    def on_change(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def changed(self) -> None:
        for callback in self.waiting:
            callback()

    async def execute(self, command: Command) -> Outcome:
        await asyncio.sleep(0)
        outcome = self.state.apply(command)
        self.moves += len(getattr(command, "moves", ()))
        self.changed()
        return outcome


class Report(NamedTuple):
    """A shard in a heartbeat."""

    epoch: int
    load: float


@dataclass(slots=True)
class Fleet:
    """A leader's state with loads that everybody has just reported."""

    state: ClusterState
    space: NamespaceState
    loads: dict[str, float]

    def beat(self, executor: str, now: float) -> Beat:
        """One executor's heartbeat."""
        return Beat(
            executor=executor,
            incarnation="1",
            sequence=round(now * 1000),
            joining=False,
            profile=ExecutorProfile(),
            shards={key: Report(1, self.loads[key]) for key in self.space.owned(executor)},
            received_at=now,
            at_ms=0,
        )

    def hear(self, controller: Controller, now: float) -> None:
        """Every executor's heartbeat."""
        mind = controller.mind(self.space, now)
        for executor in self.space.executors:
            mind.hear(self.space, self.beat(executor, now))

    def undo_moves(self) -> None:
        """Give every shard in handoff back to its owner, for the next round."""
        shards = self.space.shards
        claims = tuple(Claim(key, shards[key].epoch) for key in self.space.in_flight)
        self.state.apply(AbortHandoffs(namespace=NAME, claims=claims, at_ms=0))


def fleet_of(shards: int, executors: int, balancer: BalancerPolicy) -> Fleet:
    """Shards placed by chance, with loads by Pareto's law: a few heavy ones, many light."""
    chance = random.Random(shards)
    policy = Policy(balancer=balancer)
    info = Namespace(
        name=NAME,
        kind=NamespaceKind.OPEN,
        shard_count=0,
        policy=policy,
        created_at_ms=0,
        created_revision=1,
        lease_bound_s=policy.lease_ttl_s,
    )
    space = NamespaceState(info, 1)
    names = [f"executor-{number:04}" for number in range(executors)]
    space.load_others(
        executors=[
            Executor(id=name, incarnation="1", profile=ExecutorProfile(), joined_at_ms=0)
            for name in names
        ]
    )
    space.load(
        Shard(
            key=f"shard-{number:07}",
            state=ShardState.OWNED,
            executor=chance.choice(names),
            epoch=number + 1,
        )
        for number in range(shards)
    )
    state = ClusterState()
    state.cluster_id = "bench"
    state.namespaces[NAME] = space
    loads = {key: chance.paretovariate(1.5) for key in space.shards}
    return Fleet(state, space, loads)


def pass_s(fleet: Fleet) -> tuple[float, float, int]:
    """Seconds of a whole pass, of its plan, and the moves that it made."""
    controller = Controller(fleet.state, BEGAN_S)
    fleet.hear(controller, HEARD_S - 4.0)
    fleet.hear(controller, HEARD_S - 2.0)
    mind = controller.mind(fleet.space, HEARD_S)
    picture = finished(taking_picture(fleet.space, mind, HEARD_S))
    budget = max(2, len(fleet.loads) // 100)
    began = time.thread_time()
    plan_pass(picture.seats, picture.holdings, Aims(start_gap=0.2, stop_gap=0.1, budget=budget))
    plan_s = time.thread_time() - began
    total_s = 0.0
    while mind.last_pass is None:
        began = time.thread_time()
        step = controller.step(fleet.state, HEARD_S, 0)
        if all(isinstance(one, StartHandoffs) for one in step.commands):
            total_s += time.thread_time() - began
            continue
        for command in step.commands:  # a duty that comes before a pass
            controller.learn(command, fleet.state.apply(command), fleet.state, HEARD_S)
    plan = mind.last_pass.plan
    return total_s, plan_s, 0 if plan is None else len(plan.moves)


def is_over(last: Pass | None, moves: int) -> bool:
    """Whether a pass was made and what it planned is carried out."""
    return last is not None and (last.plan is None or not last.plan.moves or moves > 0)


async def longest_turn_s(fleet: Fleet) -> tuple[float, int]:
    """Of the loop during a pass by the leader's own driver, and the moves that it made."""
    clock, replica = ManualClock(), Alone(fleet.state)
    loop = LeaderLoop(cast(Replica, replica), clock, {})
    replica.on_leadership(True, 1)
    await asyncio.sleep(0.05)
    controller = loop.current()
    clock.now = HEARD_S - 2.0
    fleet.hear(controller, clock.now)
    mind = controller.mind(fleet.space, clock.now)
    mind.next_pass_at = clock.now
    clock.now = HEARD_S - 1.9
    meter = Meter()
    looking = asyncio.create_task(meter.run())
    await asyncio.sleep(0.05)
    meter.take()
    replica.changed()
    async with asyncio.timeout(120):
        while not is_over(mind.last_pass, replica.moves):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    lag = meter.take()
    looking.cancel()
    await loop.stop()
    return lag.stall_max_ms / 1e3, replica.moves


def rows_of(shards: int, executors: int, promised_s: float, rounds: int) -> Iterator[Row]:
    """The figures of one size, the best round of each."""
    size = f"{shards}_on_{executors}"
    free = BalancerPolicy(max_in_flight=shards, max_in_flight_per_executor=shards)
    progress(f"{shards} shards on {executors} executors")
    fleet = fleet_of(shards, executors, free)
    gc.collect()
    gc.freeze()  # as a node sets aside what it holds
    tries = [pass_s(fleet) for _ in range(rounds)]
    best = min(tries)
    yield lower_is_better(f"pass_{size}", best[0], "s", "what is promised", promised_s)
    yield Row(f"plan_{size}", min(one[1] for one in tries), "s")
    yield Row(f"moves_{size}", best[2], "moves")
    turns = []
    for _ in range(rounds):
        fleet.space.info = replace(fleet.space.info, policy=Policy())
        gc.collect()  # the last round's mind: a leader lets go of it after its term
        turn_s, moves = asyncio.run(longest_turn_s(fleet))
        progress(f"longest turn {turn_s * 1e3:.1f} ms, {moves} moves")
        turns.append(turn_s)
        fleet.undo_moves()
    yield lower_is_better(f"turn_{size}", min(turns), "s", "what is promised", TURN_S)
    gc.unfreeze()


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench.planner", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines, the summary last")
    parser.add_argument("--largest", type=int, default=1_000_000, help="leave out larger ones")
    parser.add_argument("--rounds", type=int, default=3, help="the best one counts")
    options = parser.parse_args()
    rows: list[Row] = []
    for (shards, executors), promised_s in PROMISES_S.items():
        if shards <= options.largest:
            rows += rows_of(shards, executors, promised_s, options.rounds)
    bars = [Bar(row.name, 1.0) for row in rows if row.peer is not None]
    said = missed(rows, bars)
    summary: dict[str, Any] = {"missed": said}
    publish(rows, summary, as_json=options.json)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
