"""A leader's controller with executors around it, on a clock that only the test moves.

The state, the controller and the mind are the real ones; what is simulated is outside of them:
executors that beat, start, stop and acknowledge (or do not), and the driver that carries commands
to the state. Every tick checks that no two executors may act on one shard at the same time. Each
executor's clock runs at its own rate, within the bound that the leases allow for.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from coordinator.core import commands as c
from coordinator.core.controller import Beat, Controller, Mind, Need
from coordinator.core.controller.claim_book import chunks
from coordinator.core.controller.fleet import see
from coordinator.core.controller.joins import join_command
from coordinator.core.controller.losses import close_command
from coordinator.core.namespace import NamespaceState
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    Claim,
    CloseCause,
    ExecutorProfile,
    ExecutorStatus,
    NamespaceKind,
    Policy,
)
from tests.core.builders import EPOCH_BASE, NS, bootstrapped, close_window, create, declare

_Sent = TypeVar("_Sent")

TICK_S = 0.1
CLOCK_ERROR = 0.01
EPOCHS_OF_A_LIFE = 1_000_000
"""More than any test gives: a later cluster's epochs begin above those of the one before."""
WALL_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Held:
    """One line of a heartbeat."""

    epoch: int
    load: float | None


@dataclass
class Member:
    """One executor process, as correct as the client library, or broken where the test says so."""

    name: str
    host: str = ""
    rate: float = 1.0
    """How fast its clock runs; within the bound."""
    number: int = 1
    """Of its incarnation."""
    is_alive: bool = True
    is_cut_off: bool = False
    """Alive, and hears and reaches nobody."""
    hangs_on: set[str] = field(default_factory=set)
    """Shards whose stop (or warm-up) never ends."""
    fails_on: set[str] = field(default_factory=set)
    """Shards that it cannot start."""
    dies_of: set[str] = field(default_factory=set)
    """Shards whose start kills the process."""
    keeps: set[str] = field(default_factory=set)
    """Shards that it says it stopped, and goes on with: a faulty client."""
    restarts_after_s: float | None = None
    """A supervisor starts the process again so long after its death; None for never."""
    proves_death: bool = False
    """It then holds the lock file that its predecessor let go of."""
    died_at: float = 0.0
    deaths: int = 0
    status: ExecutorStatus = ExecutorStatus.ACTIVE
    back_within_s: float = 0.0
    version: str = ""
    capacity: float = 1.0
    predecessor_dead: str = ""
    joining: bool = True
    sequence: int = 0
    running: dict[str, int] = field(default_factory=dict)
    last_held: dict[str, int] = field(default_factory=dict)
    """What it gave up because its lease was lost, until it is told a set again."""
    stopped: set[tuple[str, int]] = field(default_factory=set)
    sent_at: float = float("-inf")
    """When its last acknowledged heartbeat was sent."""
    promised_s: float = 0.0
    ends_at: dict[str, float] = field(default_factory=dict)
    """Of each withheld shard: the end of the last lease that was promised for it."""
    next_beat_at: float = 0.0
    last_word: str = ""

    @property
    def incarnation(self) -> str:
        return f"{self.name}-{self.number}"

    @property
    def profile(self) -> ExecutorProfile:
        return ExecutorProfile(
            host=self.host or f"h-{self.name}",
            capacity=self.capacity,
            status=self.status,
            back_within_s=self.back_within_s,
            version=self.version,
        )

    @property
    def lease_end(self) -> float:
        return self.sent_at + self.promised_s * (1 - CLOCK_ERROR) / self.rate

    def may_act(self, key: str, now: float) -> bool:
        return self.is_alive and now < min(self.lease_end, self.ends_at.get(key, self.lease_end))

    def has_lease(self, now: float) -> bool:
        return self.may_act("", now)

    def say_leaving(self, back_within_s: float = 0.0) -> None:
        """From the next heartbeat on, which comes at once."""
        self.status, self.back_within_s = ExecutorStatus.LEAVING, back_within_s
        self.next_beat_at = 0.0

    def come_back(self, version: str = "") -> None:
        """A new process under the same name, after the one before has left."""
        self.status, self.back_within_s = ExecutorStatus.ACTIVE, 0.0
        self.version = version
        self.predecessor_dead = ""
        self._renew()

    def restart(self, *, is_proven_dead: bool = False) -> None:
        """The process ends and a new one begins under the same name."""
        self.predecessor_dead = self.incarnation if is_proven_dead else ""
        self._renew()

    def _renew(self) -> None:
        self.number += 1
        self.joining, self.is_alive = True, True
        self.running, self.ends_at, self.stopped = {}, {}, set()
        self.sent_at, self.sequence, self.next_beat_at = float("-inf"), 0, 0.0
        self.hangs_on = set()

    def die(self, now: float) -> None:
        """The process is gone at once, and all that ran in it."""
        self.is_alive, self.died_at = False, now
        self.deaths += 1
        self.running.clear()

    def lose(self) -> None:
        """Its lease is over: it stops everything, hung callbacks included."""
        self.last_held |= self.running
        self.running.clear()

    def told_closed(self, cause: str) -> None:
        self.last_word = cause
        self.lose()
        if cause == CloseCause.EXPIRED:
            self.predecessor_dead = ""
            self._renew()
        else:
            self.is_alive = False


class World:
    """Executors around one leader."""

    def __init__(
        self,
        executors: int = 3,
        shards: int = 12,
        *,
        policy: Policy | None = None,
        kind: NamespaceKind = NamespaceKind.FIXED,
        load: Callable[[str], float | None] = lambda _key: 1.0,
        is_recovering: bool = False,
    ) -> None:
        self.state: ClusterState = bootstrapped()
        count = shards if kind is NamespaceKind.FIXED else 0
        self.state.apply(create(kind, count, policy=policy or Policy()))
        if not is_recovering:
            close_window(self.state)
        if kind is NamespaceKind.OPEN:
            self.state.apply(declare(*map(str, range(shards))))
        self.now = 100.0
        self.load = load
        self.members: dict[str, Member] = {}
        self.controller: Controller | None = Controller(self.state, self.now)
        self.wake_at = self.now
        self.trouble: random.Random | None = None
        """Chance by which the outcome of a command stays unknown; None for never."""
        self.acks: list[c.Acknowledge] = []
        """All that was ever acknowledged, for repeating it late."""
        self.steps = 0
        self.busiest = 0
        """Most steps within one tick."""
        self.commands: list[tuple[float, c.Command, c.Outcome]] = []
        self.log: list[tuple[float, str, str | None]] = []
        """Each change of an owner: when, which shard, to whom."""
        self.lost = 0
        """How often all of the cluster's memory was lost."""
        self._owners: dict[str, str | None] = {}
        self._applied = -1
        for number in range(1, executors + 1):
            self.add(f"e{number}")

    # -- what tests read -----------------------------------------------------------------

    @property
    def space(self) -> NamespaceState:
        return self.state.namespaces[NS]

    @property
    def owners(self) -> dict[str, str | None]:
        return {key: shard.executor for key, shard in sorted(self.space.shards.items())}

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(self.space.owned(name)) for name in sorted(self.space.executors)}

    def status(self, name: str) -> str:
        return self.space.status_of(self.space.executors[name])

    def taken(self, since: float) -> set[str | None]:
        """Everyone who got a shard since then, None for a shard that lost its owner."""
        return {owner for at, _, owner in self.log if at > since}

    def runs(self, key: str) -> list[str]:
        """Who may act on a shard now."""
        return [
            one.name
            for one in self.members.values()
            if key in one.running and key not in one.keeps and one.may_act(key, self.now)
        ]

    def sent(self, kind: type[_Sent], since: float = 0.0) -> list[_Sent]:
        """The leader's commands of one kind."""
        return [one for at, one, _ in self.commands if isinstance(one, kind) and at >= since]

    def moved(self, since: float) -> list[str]:
        return [key for at, key, _ in self.log if at > since]

    def is_settled(self) -> bool:
        """Everything is owned and run by its owner, and nothing is under way."""
        return not self.space.in_flight and all(
            shard.fate is not None or (shard.executor is not None and self.runs(key))
            for key, shard in self.space.shards.items()
        )

    # -- what tests do -------------------------------------------------------------------

    def add(self, name: str, host: str = "") -> Member:
        # Clocks as far apart as the bound allows: the first is slow, the second fast, and so on.
        rate = (0.99, 1.01, 1.0)[len(self.members) % 3]
        member = Member(name, host=host, rate=rate)
        member.next_beat_at = self.now
        self.members[name] = member
        return member

    def order(self, command: c.Command) -> c.Outcome:
        """An operator's command, carried out at once."""
        outcome = self.state.apply(command)
        assert self.state.check_invariants() == []
        return outcome

    def leave(self, name: str) -> None:
        """The executor has stopped everything and is gone, as `Leadership.leave` takes it."""
        member, controller = self.members[name], self.controller
        assert controller is not None
        member.running.clear()
        member.is_alive = False
        mind = controller.mind(self.space, self.now)
        command = close_command(
            self.space,
            mind,
            see(self.space, mind, self.now),
            self.space.executors[name],
            cause=CloseCause.LEFT,
            now=self.now,
            at_ms=WALL_MS + round(self.now * 1000),
        )
        mind.leases.close(name, member.incarnation)
        controller.learn(command, self.order(command), self.state, self.now)

    def lose_cluster(self, *, back_after_s: float = 0.0) -> None:
        """Every node loses its memory; a cluster that knows nothing begins after a while."""
        info = self.space.info
        self.controller = None
        self.run(back_after_s)
        self.lost += 1
        self.state = bootstrapped(EPOCH_BASE + self.lost * EPOCHS_OF_A_LIFE)
        self.state.apply(create(info.kind, info.shard_count, policy=info.policy))
        self._owners = {}
        self.elect()

    def lose_leader(self) -> None:
        self.controller = None

    def elect(self) -> None:
        """A new leader with an empty mind."""
        self.controller = Controller(self.state, self.now)
        self.wake_at = self.now

    def run(self, seconds: float) -> "World":
        """Let time pass."""
        for _ in range(round(seconds / TICK_S)):
            self.tick()
        return self

    def run_until(self, condition: Callable[["World"], bool], within_s: float) -> float:
        """Let time pass until something holds; gives the seconds it took."""
        began = self.now
        while not condition(self):
            assert self.now - began < within_s, f"not within {within_s} s: {self.owners}"
            self.tick()
        return self.now - began

    def tick(self) -> None:
        self.now += TICK_S
        for member in list(self.members.values()):
            if member.is_alive and not member.is_cut_off:
                if self.controller is not None and self.now >= member.next_beat_at:
                    self._beat(self.controller, member)
                self._work(member)
            if not member.has_lease(self.now):
                member.lose()
            rests_s = member.restarts_after_s
            if rests_s is not None and not member.is_alive and self.now - member.died_at >= rests_s:
                member.restart(is_proven_dead=member.proves_death)
        if self.controller is not None and (
            self.now >= self.wake_at or self.state.next_revision != self._applied
        ):
            self._drive(self.controller)
        self._check()

    # -- the driver ----------------------------------------------------------------------

    def _drive(self, controller: Controller) -> None:
        """Step until nothing is left to do, as the leader's loop does."""
        steps = 0
        while True:
            steps += 1
            at_ms = WALL_MS + round(self.now * 1000)
            step = controller.step(self.state, self.now, at_ms)
            for command in step.commands:
                self._propose(controller, command)
            # Without commands and to be called at once: the next slice of a balancing pass.
            if not step.commands and step.wake_at > self.now:
                break
            assert steps < 50, f"a hot loop: {step.commands}"
        self.steps += steps
        self.busiest = max(self.busiest, steps)
        self.wake_at = step.wake_at
        self._applied = self.state.next_revision

    def _propose(self, controller: Controller, command: c.Command) -> None:
        """Commit a command; with trouble its outcome may stay unknown, done or not."""
        fortune = 1.0 if self.trouble is None else self.trouble.random()
        outcome = None
        if fortune > 0.1:
            outcome = self.state.apply(command)
            self.commands.append((self.now, command, outcome))
        controller.learn(command, outcome if fortune > 0.2 else None, self.state, self.now)

    def _beat(self, controller: Controller, member: Member) -> None:
        """One heartbeat, answered as the leader does."""
        policy = self.space.info.policy
        member.next_beat_at = self.now + policy.heartbeat_interval_s / member.rate
        member.sequence += 1
        mind = controller.mind(self.space, self.now)
        beat = Beat(
            executor=member.name,
            incarnation=member.incarnation,
            sequence=member.sequence,
            joining=member.joining,
            profile=member.profile,
            shards={key: Held(epoch, self.load(key)) for key, epoch in member.running.items()},
            predecessor_dead=member.predecessor_dead,
            last_held={k: e for k, e in member.last_held.items() if k not in member.running},
            received_at=self.now,
            at_ms=WALL_MS + round(self.now * 1000),
        )
        for _ in range(4):
            verdict = mind.judge(self.space, beat)
            if isinstance(verdict, c.Refused):
                member.told_closed(verdict.cause)
                return
            if verdict is None:
                if mind.hear(self.space, beat):
                    self._renewed(member)
                return
            if verdict is Need.WAIT:
                return
            if verdict is Need.CLAIM:
                self._adopt(controller, mind, beat)
                continue
            refused = self._admit(controller, member, beat, verdict)
            if refused is not None:
                member.told_closed(refused.cause)
                return

    def _adopt(self, controller: Controller, mind: Mind, beat: Beat) -> None:
        for chunk in chunks(mind.claims.owed(self.space, beat)):
            command = c.AdoptClaims(
                namespace=NS,
                executor=beat.executor,
                incarnation=beat.incarnation,
                claims=chunk,
                is_held=True,
                at_ms=beat.at_ms,
            )
            controller.learn(command, self.order(command), self.state, self.now)

    def _admit(
        self, controller: Controller, member: Member, beat: Beat, need: Need
    ) -> c.Refused | None:
        mind = controller.mind(self.space, self.now)
        if need is Need.UPDATE:
            self.order(
                c.UpdateExecutor(
                    namespace=NS,
                    executor=member.name,
                    incarnation=member.incarnation,
                    profile=member.profile,
                )
            )
            return None
        record = self.space.executors.get(member.name)
        if record is not None:
            mind.leases.close(record.id, record.incarnation)
        at_ms = WALL_MS + round(self.now * 1000)
        outcome = self.order(join_command(self.space, mind, beat, at_ms))
        if isinstance(outcome, c.Refused):
            if record is not None:
                mind.leases.reopen(record.id, record.incarnation)
            return outcome
        mind.joined(self.space, member.name, self.now)
        return None

    def _renewed(self, member: Member) -> None:
        # What was withheld once stays so for that epoch, whatever later answers leave out.
        for key in self.space.overdue_of(member.name):
            if key in member.running:
                member.ends_at.setdefault(key, member.lease_end)
        member.joining = False
        member.sent_at = self.now
        member.promised_s = self.space.info.policy.lease_ttl_s

    def _work(self, member: Member) -> None:
        """Start and stop what the set says, and say what was done."""
        # Without a leader nobody takes an acknowledgement; it is repeated until somebody does.
        if not member.has_lease(self.now) or self.controller is None:
            return
        # Nobody is told its set while claims are taken: what runs goes on, nothing starts.
        if self.space.info.window is not None:
            return
        member.last_held.clear()
        rows = self.space.assignments(member.name, member.incarnation)
        duties = {key: (epoch, duty) for key, epoch, duty in rows}
        released: list[Claim] = []
        prepared: list[Claim] = []
        failed: list[Claim] = []
        for key in [key for key in member.running if key not in duties]:
            if key not in member.hangs_on | member.keeps:
                del member.running[key]
        for key, (epoch, duty) in duties.items():
            claim = Claim(key, epoch)
            if duty == "prepare":
                if key not in member.hangs_on:
                    prepared.append(claim)
            elif duty == "release":
                if key not in member.running or key not in member.hangs_on:
                    if key not in member.keeps:
                        member.running.pop(key, None)
                    member.stopped.add((key, epoch))
                    released.append(claim)
            elif (
                (key, epoch) in member.stopped
                or member.running.get(key) == epoch
                or (key in member.running and key in member.hangs_on)
            ):
                continue
            elif key in member.dies_of:
                member.die(self.now)
                return
            elif key in member.fails_on:
                member.running.pop(key, None)
                member.stopped.add((key, epoch))
                failed.append(claim)
            else:
                member.running[key] = epoch
                member.ends_at.pop(key, None)
        if released or prepared or failed:
            self._acknowledge(member, released, prepared, failed)

    def _acknowledge(
        self,
        member: Member,
        released: Iterable[Claim],
        prepared: Iterable[Claim],
        failed: Iterable[Claim],
    ) -> None:
        said = c.Acknowledge(
            namespace=NS,
            executor=member.name,
            incarnation=member.incarnation,
            released=tuple(released),
            prepared=tuple(prepared),
            failed=tuple(failed),
            at_ms=0,
        )
        self.acks.append(said)
        self.order(said)

    # -- the checker ---------------------------------------------------------------------

    def _check(self) -> None:
        owners = self.owners
        for key, owner in owners.items():
            if owner != self._owners.get(key):
                self.log.append((self.now, key, owner))
            acting = self.runs(key)
            assert len(acting) <= 1, f"at {self.now:.1f} s {key!r} is run by {acting}"
        self._owners = owners


def settled(world: World, within_s: float = 60.0) -> World:
    """The world once everything is owned and run."""
    world.run_until(World.is_settled, within_s)
    return world


def quick(policy: Policy | None = None, **balancer: Any) -> Policy:
    """A policy whose loads and passes are quick enough for short tests."""
    base = policy or Policy()
    fields: dict[str, Any] = {
        "smoothing_horizon_s": 20.0,
        "interval_s": 1.0,
        "budget_window_s": 5.0,
    }
    fields |= {"move_budget_ratio": 0.2, "cooldown_s": 5.0}
    return replace(base, balancer=replace(base.balancer, **{**fields, **balancer}))
