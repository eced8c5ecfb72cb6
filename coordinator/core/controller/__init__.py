"""The leader's mind: `Controller.step` looks at the state and says what to commit next.

Pure: time is an argument, commands are its answer, and it never acts. The driver proposes what a
step returns, waits for the outcomes, tells them, and asks again; so no step ever decides on top of
a proposal whose outcome it does not know.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from coordinator.core.commands import (
    AdoptClaims,
    Applied,
    CloseIncarnation,
    CloseWindow,
    Command,
    InheritShards,
    Outcome,
    RecordLoads,
    StartHandoffs,
)
from coordinator.core.controller.balance import plan_balance
from coordinator.core.controller.beats import Beat, Need, Verdict
from coordinator.core.controller.endings import plan_endings
from coordinator.core.controller.handoffs import next_deadline, plan_deadlines
from coordinator.core.controller.losses import plan_losses
from coordinator.core.controller.mind import Mind, Pass
from coordinator.core.controller.newcomers import note_arrivals
from coordinator.core.controller.outage import plan_outage
from coordinator.core.controller.owed import hold_until, plan_owed_moves, plan_vacancies
from coordinator.core.controller.poison import plan_poison
from coordinator.core.controller.promises import plan_settlement, settlement_at
from coordinator.core.controller.returns import next_return, plan_returns
from coordinator.core.controller.sampling import take_sample
from coordinator.core.controller.strays import plan_strays
from coordinator.core.controller.tempo import unowned_count
from coordinator.core.controller.window import plan_window, window_ends_at
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import CloseCause, Namespace

__all__ = ["Beat", "Controller", "Mind", "Need", "Pass", "Step", "Verdict"]

IDLE_S = 1.0
"""The longest a controller wants to sleep: level-triggered, so a missed wake-up costs a second."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to commit now, and when to ask again if nothing else happens before."""

    commands: tuple[Command, ...]
    wake_at: float


class Controller:
    """One leader's term. A new term gets a new one."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self._minds: dict[str, Mind] = {}
        self._followed: dict[str, Namespace] = {}
        """Each namespace's kind and policy as its mind knows them."""
        self._follow(state, now)

    def mind(self, namespace: NamespaceState, now: float) -> Mind:
        """The soft state of a namespace; a fresh one for a namespace just created."""
        name = namespace.info.name
        info = self._followed.get(name)
        if info is not None and info.created_revision != namespace.info.created_revision:
            self._forget(name)
        mind = self._minds.get(name)
        if mind is None:
            mind = Mind.begin(namespace, now)
            self._minds[name] = mind
            self._followed[name] = namespace.info
        return mind

    def step(self, state: ClusterState, now: float, at_ms: int) -> Step:
        """What the leader should commit next, most urgent first."""
        self._follow(state, now)
        commands: list[Command] = []
        wake_at = now + IDLE_S
        for name, namespace in sorted(state.namespaces.items()):
            mind = self._minds[name]
            mind.tempo.unowned(unowned_count(namespace), now)
            if mind.record.reading is not None:
                # Nothing is as urgent as the first lease is long, and all else goes by loads.
                mind.read_loads(namespace, now, at_ms)
                wake_at = now
                continue
            take_sample(namespace, mind, now, at_ms)
            if not mind.is_at_work or not mind.is_calm(namespace, now):
                planned = self._plan(namespace, mind, now, at_ms)
                next_wake = self._next_wake(namespace, mind, now)
                mind.calm = (-1 if planned else namespace.revision, min(next_wake, now + IDLE_S))
            else:
                # Nothing else can be due yet, and to make sure of that takes as long as a slice.
                planned = plan_balance(namespace, mind, now, at_ms)
            commands += planned
            wake_at = min(wake_at, now if mind.is_at_work else mind.calm[1])
        return Step(tuple(commands), now if commands else wake_at)

    def _plan(self, namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
        """The first duty that has something to do: later ones look at its result."""
        note_arrivals(namespace, mind, now)
        urgent = (
            plan_outage(namespace, mind, now, at_ms)
            or plan_losses(namespace, mind, now, at_ms)
            or plan_returns(namespace, mind, now, at_ms)
            or plan_settlement(namespace, mind, now)
        )
        if namespace.info.window is not None:
            # Begun before it opened: nobody's holdings are what they were.
            mind.passing = mind.measuring = None
        if urgent or namespace.info.window is not None:
            return urgent or plan_window(namespace, mind, now, at_ms)
        return (
            plan_deadlines(namespace, mind, now, at_ms)
            or plan_endings(namespace, at_ms)
            or plan_poison(namespace, mind, now, at_ms)
            or plan_vacancies(namespace, mind, now, at_ms)
            or plan_owed_moves(namespace, mind, now, at_ms)
            or plan_strays(namespace, mind, now, at_ms)
            or mind.record.write(namespace, mind.loads, now, at_ms, mind.recent.newest)
            or plan_balance(namespace, mind, now, at_ms)
        )

    def _next_wake(self, namespace: NamespaceState, mind: Mind, now: float) -> float:
        times = [mind.leases.next_deadline(after=now), settlement_at(namespace, mind, now)]
        times.append(next_return(namespace, mind, now))
        ends_at = window_ends_at(namespace, mind, now)
        if ends_at is not None:
            return min(at for at in (*times, ends_at) if at is not None)
        times += [mind.next_pass_at, mind.record.next_at, next_deadline(namespace, mind, now)]
        if namespace.vacant:
            hold = hold_until(namespace, mind)
            times.append(hold if hold > now else mind.failures.next_retry(after=now))
        return min(at for at in times if at is not None)

    def learn(
        self, command: Command, outcome: Outcome | None, state: ClusterState, now: float
    ) -> None:
        """Take in what became of a proposed command; None when that is not known."""
        namespace = state.namespaces.get(getattr(command, "namespace", ""))
        if namespace is None:
            return
        mind = self.mind(namespace, now)
        is_applied = isinstance(outcome, Applied)
        match command:
            case CloseIncarnation():
                if is_applied:
                    mind.expirations_total += command.cause is CloseCause.EXPIRED
                    mind.forget_executor(command.executor, command.incarnation)
                elif outcome is not None:
                    mind.leases.reopen(command.executor, command.incarnation)
            case InheritShards():
                if is_applied:
                    mind.forget_executor(command.executor, command.predecessor)
            case AdoptClaims() | CloseWindow():
                if isinstance(outcome, Applied):
                    mind.learn_claims(namespace, command, outcome, now)
            case RecordLoads():
                mind.record.learn(command, now, is_applied=is_applied)
            case StartHandoffs():
                if is_applied:
                    self._moved(command, mind, namespace, now)
            case _:
                pass

    def _moved(
        self, command: StartHandoffs, mind: Mind, namespace: NamespaceState, now: float
    ) -> None:
        cooldown_s = namespace.info.policy.balancer.effective_cooldown_s
        for move in command.moves:
            mind.moves_total[move.cause] = mind.moves_total.get(move.cause, 0) + 1
            mind.tempo.began(namespace, move, now)
            if move.cause is Cause.BALANCE:
                mind.cool_down(move.key, cooldown_s, now)
        voluntary = sum(move.cause is Cause.BALANCE for move in command.moves)
        mind.budget.take(voluntary, len(namespace.shards), now)

    def stood_still(self, gap_s: float) -> None:
        """The leader's own loop was paused: nobody's silence in that time counts."""
        for mind in self._minds.values():
            mind.stood_still(gap_s)

    def let_go(self) -> Iterator[None]:
        """Forget everything in slices, when the term is over.

        All at once it took half a second of a million shards, at the very moment of an election.
        """
        while self._minds:
            _, mind = self._minds.popitem()
            yield from mind.let_go()

    def _follow(self, state: ClusterState, now: float) -> None:
        """Keep a mind for each namespace there is, under its present policy."""
        for name in [name for name in self._followed if name not in state.namespaces]:
            self._forget(name)
        for name, namespace in state.namespaces.items():
            mind = self.mind(namespace, now)
            if self._followed[name] is not namespace.info:
                self._followed[name] = namespace.info
                mind.follow_policy(namespace)

    def _forget(self, name: str) -> None:
        """A namespace is gone, or another one has its name."""
        del self._minds[name]
        del self._followed[name]
