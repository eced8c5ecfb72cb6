"""What happens in the demo, in order, and what is measured on the way.

Decides phases and their bounds. How the parts are run is in `stage`, what is judged afterwards in
`summary`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from bench.demo.fleet import NotStarted
from bench.demo.lookups import Crash, Outage
from bench.demo.scene import Balance
from bench.demo.stage import EXECUTORS, LEASE_S, NAMESPACE, Stage
from bench.demo.why import moves_of
from client import TimedOut
from client.clock import lease_now_s
from client.views import ShardView

SECONDS_DEFAULT: Final = 60.0
SECONDS_MIN: Final = 40.0
"""Starts and faults take about 20 s whatever happens; the rest is needed to see a balance."""
FAULTS_S: Final = 18.0
"""What draining, killing and watching take, with some air for a busy machine."""
FREE_MIN_S: Final = 12.0
"""A balance is to be seen even when starting took long; the faults then have less air."""
HASH_SHARE: Final = 0.5
"""Of the time between start and faults: seeing the load under hash placement. The rest is for
balancing."""
CALM_S: Final = 3.0
"""No pass with a move, and none under way, for so long: three passes. It has settled."""
WATCH_S: Final = 2.0
"""How long routers go on after a fault, so that a late consequence is seen."""


@dataclass(slots=True)
class Findings:
    """What was measured while it ran."""

    before: Balance | None = None
    after: Balance | None = None
    balancing_from: float = 0.0
    drain_from: float = 0.0
    drains_started: int = 0
    drains_completed: int = 0
    drain_s: float | None = None
    settle_s: float | None = None
    has_settled: bool = False
    failover_s: float | None = None
    rejoin_s: float | None = None
    crashes: list[Crash] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    asked_at: float | None = None
    inspected: dict[str, ShardView] = field(default_factory=dict)
    """What `shardctl shard inspect` shows of each shard that had moved by `asked_at`."""


class Story:
    """One run. `findings` has what was measured, also when it ended early."""

    def __init__(self, stage: Stage, seconds: float) -> None:
        self.stage = stage
        self.findings = Findings()
        self._began_at = lease_now_s()
        self._seconds = seconds
        self._free_s = 0.0

    async def tell(self) -> None:
        """Everything, from the first process to the last look-up."""
        await self._open()
        await self._see_hashing()
        await self._balance()
        await self._drain_host()
        await self._kill_leader()
        await self._kill_executor()
        await self._ask_why()

    def _left_s(self, bound_s: float) -> float:
        """At most `bound_s`, and never beyond the time that was granted."""
        left = self._seconds - (lease_now_s() - self._began_at)
        return max(0.0, min(bound_s, left))

    def _phase(self, name: str, event: str = "") -> None:
        self.stage.scene.phase = name
        self.stage.scene.tell(event or name)

    # -- the phases -----------------------------------------------------------------------

    async def _open(self) -> None:
        fleet = self.stage.fleet
        self._phase("starting three nodes and eight executors")
        await self.stage.open()
        self.stage.scene.tell(f"nodes at {' '.join(fleet.nodes.urls)}")
        await fleet.start_executors(self._left_s(15.0))
        await fleet.place(self._left_s(10.0))
        await fleet.start_routers()
        self._free_s = max(FREE_MIN_S, self._left_s(self._seconds) - FAULTS_S)
        self.stage.scene.tell(
            f"{len(fleet.keys)} shards placed by hashing; routers ask for every owner"
        )

    async def _see_hashing(self) -> None:
        self._phase("hash placement, balancer off")
        await asyncio.sleep(self._left_s(self._free_s * HASH_SHARE))
        self.findings.before = await self.stage.balance()

    async def _balance(self) -> None:
        stage, findings = self.stage, self.findings
        self._phase("balancing", f"balancer on; spread is {self._spread(findings.before)}")
        findings.balancing_from = lease_now_s()
        await stage.fleet.operator.change_policy(NAMESPACE, {"balancer": {"mode": "on"}})
        deadline = lease_now_s() + self._left_s(self._free_s * (1.0 - HASH_SHARE))
        calm_from = lease_now_s()
        while lease_now_s() < deadline and not findings.has_settled:
            await asyncio.sleep(0.25)
            now = await stage.balance()
            is_calm = now.in_flight == 0 and now.last_pass is not None and now.last_pass.moves == 0
            if not is_calm:
                calm_from = lease_now_s()
            findings.has_settled = lease_now_s() - calm_from >= CALM_S
        findings.settle_s = calm_from - findings.balancing_from
        # The last word before the drain: the figure that counts.
        findings.after = await stage.balance()
        stage.scene.tell(f"{stage.fleet.moves} moves; spread is {self._spread(findings.after)}")

    async def _drain_host(self) -> None:
        stage, findings = self.stage, self.findings
        host = EXECUTORS["executor-2"]
        drained = [name for name, where in EXECUTORS.items() if where == host]
        shards = sum(stage.fleet.owned_by(name) for name in drained)
        self._phase("draining a host", f"drain {host}: {', '.join(drained)} with {shards} shards")
        findings.drain_from = lease_now_s()
        findings.drains_started += 1
        await stage.fleet.operator.drain_host(NAMESPACE, host, reason="demo: maintenance")
        target = f"host/{host}"
        drains = await stage.fleet.operator.drains(NAMESPACE)
        identity = next((drain.id for drain in drains if drain.target == target), None)
        if identity is None:
            raise NotStarted(f"no drain of {target} among {[drain.target for drain in drains]}")
        try:
            view = await stage.fleet.operator.wait_drained(
                NAMESPACE,
                identity,
                timeout_s=self._left_s(12.0),
                on_progress=lambda seen: self._draining(target, seen.state, seen.shards_left),
            )
        except TimedOut as fault:
            stage.scene.tell(f"the drain did not complete: {fault}")
            return
        findings.drains_completed += 1
        findings.drain_s = lease_now_s() - findings.drain_from
        stage.scene.tell(f"{host} is drained: {view.shards_moved} shards handed over")

    def _draining(self, target: str, state: str, left: int) -> None:
        self.stage.scene.drain = f"{target} {state}" + (f", {left} shards left" if left else "")

    async def _kill_leader(self) -> None:
        stage, findings = self.stage, self.findings
        leader = await stage.fleet.nodes.leader()
        self._phase("killing the leader", f"kill -9 {leader}, the leader")
        since = lease_now_s()
        await stage.fleet.nodes.kill(leader)
        try:
            await stage.fleet.nodes.first_write("demo-failover", self._left_s(10.0))
            findings.failover_s = lease_now_s() - since
        finally:
            findings.outages.append(Outage(since, lease_now_s()))
        stage.scene.tell(f"writes work again after {findings.failover_s:.2f} s")
        await asyncio.sleep(self._left_s(WATCH_S))
        await stage.fleet.nodes.start(leader)
        findings.rejoin_s = await stage.fleet.nodes.ready([leader], max(0.1, self._left_s(20.0)))
        stage.scene.tell(f"{leader} came back empty and is caught up")

    async def _kill_executor(self) -> None:
        stage, findings = self.stage, self.findings
        victims = [name for name, host in EXECUTORS.items() if host != EXECUTORS["executor-2"]]
        victim = max(victims, key=stage.fleet.owned_by)
        shards = stage.fleet.owned_by(victim)
        self._phase("killing an executor", f"kill -9 {victim} with {shards} shards")
        crash = Crash(victim, lease_now_s(), LEASE_S)
        findings.crashes.append(crash)
        await stage.fleet.processes.kill(victim)
        if not await stage.fleet.until(
            lambda: stage.fleet.owned_by(victim) == 0, self._left_s(10.0)
        ):
            raise NotStarted(
                f"{stage.fleet.owned_by(victim)} shards are still with {victim}, which died"
            )
        stage.scene.tell(f"its shards are owned again after {lease_now_s() - crash.at:.1f} s")
        await asyncio.sleep(self._left_s(WATCH_S))

    async def _ask_why(self) -> None:
        """Of each shard that has moved, as `shardctl shard inspect` does."""
        stage, findings = self.stage, self.findings
        findings.asked_at = lease_now_s()
        moved = moves_of(stage.fleet.tenures(), self._began_at, findings.asked_at)
        keys = sorted({move.key for move in moved})
        self._phase("asking why", f"inspect each of the {len(keys)} shards that have moved")
        for key in keys:
            findings.inspected[key] = await stage.fleet.operator.shard(NAMESPACE, key)

    @staticmethod
    def _spread(balance: Balance | None) -> str:
        if balance is None:
            return "unknown"
        return f"{balance.spread:.3f} (best possible {balance.best_possible:.3f})"
