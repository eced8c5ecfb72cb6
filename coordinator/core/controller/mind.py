"""What a leader remembers of one namespace beyond the replicated state: soft, rebuilt each term.

Leases, smoothed loads, cooldowns, deadlines of open handoffs. A new leader starts with an empty
mind and grants everyone a full lease before it takes anything away. All times are monotonic
seconds of the leader.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from coordinator.core.balance_series import RecentPoints
from coordinator.core.commands import AdoptClaims, Applied, CloseWindow, Reason, Refused
from coordinator.core.controller.beats import Beat, Held, Need, Verdict
from coordinator.core.controller.claim_book import ClaimBook, epoch_fault, is_claim, outlasts
from coordinator.core.controller.crashes import CrashBook
from coordinator.core.controller.decisions import DecisionBook, Inputs
from coordinator.core.controller.failures import FailureBook
from coordinator.core.controller.load_record import LoadRecord
from coordinator.core.controller.strays import StrayBook
from coordinator.core.controller.tallies import Tallies
from coordinator.core.controller.tempo import HandoffId, Tempo
from coordinator.core.liveness import LeaseBook
from coordinator.core.load import LoadBook
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import MoveBudget, Plan, Rejection, Slices, Yardstick
from coordinator.core.rules.executors import closed
from coordinator.core.shard import Cause, Shard, ShardState
from coordinator.core.types import CloseCause, ExecutorStatus, Policy

HEARING_MAX_S: Final = 600.0
"""Of a horizon of hours, ten minutes must do: a fleet that lost its leader may need balance too."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The last balancing pass: its plan, or why none was made."""

    at_ms: int
    plan: Plan | None
    skipped: str = ""
    rejected: tuple[Rejection, ...] = ()
    inputs: Inputs | None = None
    """What it was planned on; only on the way to a decision."""


@dataclass(slots=True)
class Mind:
    """The leader's soft state of one namespace."""

    leases: LeaseBook
    loads: LoadBook
    budget: MoveBudget
    began_at: float
    first_join_at: float
    """Since when there are executors to place shards on; at the earliest the term's beginning."""
    last_join_at: float
    next_pass_at: float
    claims: ClaimBook
    record: LoadRecord
    steady: dict[str, int]
    """The revision of each executor's set at which all that it reported was its own."""
    tallies: Tallies
    """What every executor holds."""
    failures: FailureBook = field(default_factory=FailureBook)
    crashes: CrashBook = field(default_factory=CrashBook)
    strays: StrayBook = field(default_factory=StrayBook)
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)
    """Highest heartbeat sequence by (executor, incarnation)."""
    leaving: set[tuple[str, str]] = field(default_factory=set)
    """Incarnations that said so: what ends them is no crash, whoever comes after them."""
    reported: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys in each executor's last report: only what was reported once can go missing. In a tuple,
    nearly always that beside its loads: a dict of them is 28 MB more of a million, and at each name
    in a set or a list the garbage collector looks, which takes a tenth of a second."""
    cooling_until: dict[str, float] = field(default_factory=dict)
    handoffs: dict[HandoffId, tuple[ShardState, float]] = field(default_factory=dict)
    """The state of each open handoff, and since when this leader knows of it: a warm-up and the
    stop after it have a deadline each."""
    calm_since: float | None = None
    """Since when enough executors are heard again in a mass failure."""
    given_up: dict[tuple[str, str], int | None] = field(default_factory=dict)
    """The last sequence heard of each incarnation given up in a mass failure."""
    overdue: dict[HandoffId, float] = field(default_factory=dict)
    """Since when each shard's lease alone is not renewed."""
    arrivals: dict[tuple[str, str], float | None] = field(default_factory=dict)
    """Each executor and incarnation on record: when it joined with nothing, None for others."""
    versions_since: dict[str, float] = field(default_factory=dict)
    """Since when this leader has seen executors of each version."""
    away_since: dict[tuple[str, str], float] = field(default_factory=dict)
    """Since when this leader knows of each executor and incarnation whose shards are kept."""
    shortened: tuple[int, float] | None = None
    """The policy version under which leases were made shorter, and since when it is known."""
    passing: Slices[Pass] | None = None
    """The balancing pass that is under way, a slice with each step."""
    measuring: Slices[Yardstick] | None = None
    """What static hashing would give is being measured, likewise, between passes."""
    calm: tuple[int, float] = (-1, -inf)
    """The revision at which no duty but a pass had anything to do, and until when that holds."""
    last_pass: Pass | None = None
    decisions: DecisionBook = field(default_factory=DecisionBook)
    yardstick: Yardstick | None = None
    """What static hashing would give, as measured last."""
    measured_at: float = -inf
    is_descending: bool = False
    """The last pass was cut short by a budget or a limit: the next one goes on from there."""
    recent: RecentPoints = field(default_factory=RecentPoints)
    """How even the fleet was, each few seconds."""
    sampled_at: float = -inf
    moves_total: dict[str, int] = field(default_factory=dict)
    expirations_total: int = 0
    tempo: Tempo = field(default_factory=Tempo)

    @classmethod
    def begin(cls, namespace: NamespaceState, now: float) -> "Mind":
        """The mind of a leader whose term begins, or of a namespace just created.

        Everyone on record, superseded incarnations included, has a full lease from now, since the
        former leader may have renewed it up to this moment.
        """
        policy = namespace.info.policy
        balancer = policy.balancer
        steady: dict[str, int] = {}
        loads = LoadBook(balancer.smoothing_horizon_s, policy.heartbeat_interval_s)
        mind = cls(
            leases=LeaseBook(),
            loads=loads,
            budget=MoveBudget(balancer.move_budget_ratio, balancer.budget_window_s, now),
            began_at=now,
            first_join_at=now,
            last_join_at=now,
            next_pass_at=now + _hearing_s(namespace),
            claims=ClaimBook(now),
            record=LoadRecord.begin(namespace, now),
            steady=steady,
            tallies=Tallies(loads, steady),
        )
        known = [(e.id, e.incarnation) for e in namespace.executors.values()]
        known += [
            (e.id, e.predecessor) for e in namespace.executors.values() if e.predecessor is not None
        ]
        mind.leases.begin_term(known, namespace.info.lease_bound_s, now)
        return mind

    @property
    def is_at_work(self) -> bool:
        """Whether something goes on in slices."""
        return self.passing is not None or self.measuring is not None

    def is_calm(self, namespace: NamespaceState, now: float) -> bool:
        """Whether nothing has changed or come due since no duty had anything to do."""
        revision, until = self.calm
        return revision == namespace.revision and now < until

    def follow_policy(self, namespace: NamespaceState) -> None:
        """Take over what an operator changed."""
        policy = namespace.info.policy
        self.loads.set_horizon(policy.balancer.smoothing_horizon_s)
        self.loads.set_interval(policy.heartbeat_interval_s)
        self.budget.ratio = policy.balancer.move_budget_ratio
        self.budget.window_s = policy.balancer.budget_window_s

    def read_loads(self, namespace: NamespaceState, now: float, at_ms: int) -> None:
        """Take in a chunk of what the former leader knew; with all of it there is less to hear."""
        policy = namespace.info.policy
        self.record.read(self.loads, now, at_ms, _sample_s(policy))
        if self.record.reading is None and self.record.is_enough(namespace):
            self.next_pass_at = min(self.next_pass_at, self.began_at + policy.lease_ttl_s)

    # -- heartbeats ----------------------------------------------------------------------

    def judge(self, namespace: NamespaceState, beat: Beat) -> Verdict:
        """Whether a heartbeat can be acknowledged, and what must happen before."""
        record = namespace.executors.get(beat.executor)
        over = namespace.closed.get((beat.executor, beat.incarnation))
        if over is not None:
            return closed(beat.executor, beat.incarnation, over)
        fault = epoch_fault(namespace, beat)
        if fault is not None:
            return fault
        if record is None or record.incarnation != beat.incarnation:
            if beat.joining or is_claim(namespace, beat):
                return Need.JOIN
            return closed(beat.executor, beat.incarnation, CloseCause.EXPIRED)
        if record.evicted:
            return closed(beat.executor, beat.incarnation, CloseCause.EVICTED)
        if self.leases.is_closing(beat.executor, beat.incarnation):
            return Need.WAIT
        seen = self.sequences.get((beat.executor, beat.incarnation))
        if seen is not None and beat.sequence < seen:
            return Refused(Reason.STALE_SEQUENCE, f"sequence {beat.sequence} after {seen} was seen")
        if namespace.info.window is not None and self._is_unsaid(beat):
            return Refused(Reason.RECOVERING, "name all shards that are held: claims are taken")
        if record.profile != beat.profile:
            return Need.UPDATE
        is_owed = outlasts(namespace, beat) or self.claims.owed(namespace, beat)
        return Need.CLAIM if is_owed else None

    def hear(self, namespace: NamespaceState, beat: Beat) -> bool:
        """Renew the lease and take in the loads; False if it may not be acknowledged."""
        name = (beat.executor, beat.incarnation)
        ttl_s = namespace.info.policy.lease_ttl_s
        if not self.leases.renew(*name, ttl_s, beat.received_at):
            return False
        is_repeated = self.sequences.get(name) == beat.sequence
        self.sequences[name] = beat.sequence
        if beat.profile.status is ExecutorStatus.LEAVING:
            self.leaving.add(name)
        if namespace.info.window is not None:
            self.claims.remember(namespace, beat)
        if beat.process is not None:
            self.loads.observe_process(beat.executor, beat.process)
        if beat.shards is None:
            if beat.joining:
                self.reported.setdefault(beat.executor, ())
            self.strays.unchanged(beat.executor, beat.received_at)
        elif not is_repeated:
            self._fold(namespace, beat)
            self.tallies.heard(namespace, beat.executor)
        return True

    def _is_unsaid(self, beat: Beat) -> bool:
        """Whether it holds what it held, and nobody told this leader what that is.

        Renewed in a claim window it could go on with what others are given at the window's end. A
        process that has just started holds nothing.
        """
        return beat.shards is None and not beat.joining and beat.executor not in self.reported

    def _fold(self, namespace: NamespaceState, beat: Beat) -> None:
        shards = beat.shards or {}
        if self._is_folded_again(namespace, beat.executor, shards, beat.received_at):
            return
        owned = namespace.owned(beat.executor)
        before = self.reported.get(beat.executor, ())
        # A shard granted a moment ago is not in the report yet: that is no news, not a zero.
        missing = tuple(key for key in before if key not in shards and key in owned)
        # The table's own strings: a report brings new ones, 60 MB of a million.
        own = dict(zip(owned, owned, strict=True))
        loads = {own[key]: held.load for key, held in shards.items() if key in own}
        keys = self.reported[beat.executor] = tuple(loads)
        self.loads.fold(beat.executor, loads, keys + missing, beat.received_at)
        # While executors say what they hold from before, nobody knows whose it is.
        is_known = len(loads) == len(shards) or namespace.info.window is not None
        astray = {} if is_known else {k: held for k, held in shards.items() if k not in owned}
        self.strays.hear(beat.executor, astray, beat.received_at)
        if len(loads) == len(shards):
            self.steady[beat.executor] = namespace.assignments_revision(beat.executor)
        else:
            self.steady.pop(beat.executor, None)

    def _is_folded_again(
        self, namespace: NamespaceState, executor: str, shards: Mapping[str, Held], at: float
    ) -> bool:
        """Take in a report of the same shards as the last one, all of which are still its own.

        So nearly all are: nothing is missing, and nothing is astray.
        """
        if self.steady.get(executor) != namespace.assignments_revision(executor):
            return False
        loads = [held.load for held in shards.values()]
        return self.loads.fold_again(executor, tuple(shards), loads, at)

    def stood_still(self, gap_s: float) -> None:
        """The leader could hear nobody for so long: it counts against no one."""
        self.leases.add_pause(gap_s)
        self.claims.add_pause(gap_s)
        self.strays.add_pause(gap_s)
        if self.calm_since is not None:
            self.calm_since += gap_s
        for away in self.away_since:
            self.away_since[away] += gap_s

    def joined(self, namespace: NamespaceState, executor: str, now: float) -> None:
        """An incarnation of this executor has just been let in."""
        self.last_join_at = now
        if len(namespace.executors) == 1:
            self.first_join_at = now
        self.loads.restart(executor)
        self.reported.pop(executor, None)
        self.steady.pop(executor, None)
        self.strays.forget(executor)

    def forget_executor(self, executor: str, incarnation: str) -> None:
        """The incarnation is over."""
        self.leases.forget(executor, incarnation)
        self.sequences.pop((executor, incarnation), None)
        self.leaving.discard((executor, incarnation))
        if executor not in self.leases:
            self.loads.restart(executor)
            self.reported.pop(executor, None)
            self.steady.pop(executor, None)
            self.strays.forget(executor)

    def learn_claims(
        self,
        namespace: NamespaceState,
        command: AdoptClaims | CloseWindow,
        applied: Applied,
        now: float,
    ) -> None:
        """Claims were committed, or their window was closed."""
        if isinstance(command, AdoptClaims):
            self.claims.learn(namespace, command, applied.count)
        elif namespace.has_owners:
            # What was recovered is nothing to level by loads just heard: as with a new leader.
            self.next_pass_at = now + _hearing_s(namespace)

    def let_go(self) -> Iterator[None]:
        """Forget what is large, in slices: its term is over, and nobody asks any more."""
        self.passing = self.measuring = None
        yield
        yield from self.loads.let_go()
        while self.reported:
            self.reported.popitem()
            yield

    # -- shards --------------------------------------------------------------------------

    def track_handoffs(self, namespace: NamespaceState, now: float) -> None:
        """Note handoffs that opened and forget those that ended."""
        open_now = {(key, namespace.shards[key].epoch): key for key in namespace.in_flight}
        self.tempo.look(namespace, open_now, now)
        for ended in [handoff for handoff in self.handoffs if handoff not in open_now]:
            del self.handoffs[ended]
            self.overdue.pop(ended, None)
        for handoff, key in open_now.items():
            shard = namespace.shards[key]
            if handoff not in self.handoffs and shard.next_cause is Cause.OPERATOR:
                # Whoever moved it by hand does not want to see it moved back in the next pass.
                self.cool_down(key, namespace.info.policy.balancer.effective_cooldown_s, now)
            if self.handoffs.get(handoff, (None, now))[0] is not shard.state:
                self.handoffs[handoff] = (shard.state, now)
            if shard.overdue:
                self.overdue.setdefault(handoff, now)

    def cool_down(self, key: str, seconds: float, now: float) -> None:
        """Let a moved shard rest."""
        self.cooling_until[key] = now + seconds

    def drop_cooled(self, now: float) -> None:
        """Forget shards that have rested."""
        for key in [key for key, until in self.cooling_until.items() if until <= now]:
            del self.cooling_until[key]

    def forget_retired(self, namespace: NamespaceState) -> None:
        """Drop the loads of shards that are no more, so that the book stays bounded."""
        if len(self.loads) > len(namespace.shards):
            for key in [key for key in self.loads.known() if key not in namespace.shards]:
                self.loads.forget(key)

    def load_of(self, shard: Shard, median: float) -> float:
        """The shard's smoothed load; an unmeasured one counts as the median."""
        smoothed = self.loads.smoothed(shard.key)
        return median if smoothed is None else smoothed


def _hearing_s(namespace: NamespaceState) -> float:
    """How long a mind listens before it judges anything by its loads.

    One lease, in which everybody reports; and after a change of leaders as long as a sample takes,
    or the new leader would move shards for what is but a short one of the loads its forerunner
    knew. If those were recorded, it begins with them (`read_loads`).
    """
    policy = namespace.info.policy
    if not namespace.has_owners:
        return policy.lease_ttl_s
    return policy.lease_ttl_s + _sample_s(policy)


def _sample_s(policy: Policy) -> float:
    """For how long a load is to be observed before shards are moved by it: half a horizon."""
    return min(policy.balancer.smoothing_horizon_s / 2, HEARING_MAX_S)
