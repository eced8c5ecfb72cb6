"""What only a leader may answer: heartbeats, leaving, eviction, owners that are yet to be found.

Each answer rests on a quorum that confirmed this leader after the question came, or on a commit.
It decides nothing itself: the mind judges, the state machine rules.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, assert_never

from coordinator.clock import Clock
from coordinator.consensus import Confirmation, ConsensusError, NotLeader, Overloaded, TooLarge
from coordinator.core.commands import (
    AdoptClaims,
    Applied,
    CloseIncarnation,
    DeclareShards,
    Entry,
    EvictExecutor,
    InheritShards,
    Outcome,
    Reason,
    Refused,
    UpdateExecutor,
)
from coordinator.core.controller import Beat, Controller, Mind, Need
from coordinator.core.controller.claim_book import chunks, not_won
from coordinator.core.controller.fleet import see
from coordinator.core.controller.joins import join_command
from coordinator.core.controller.losses import close_command
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import Fate
from coordinator.core.types import CloseCause, LeaseLoss
from coordinator.leader import LeaderLoop
from coordinator.replica import Replica

log = logging.getLogger("coordinator.leader")

JUDGE_TRIES = 4
"""A heartbeat is judged again after each commit it needed: a join, at most an update, claims."""


class BeatAnswer(NamedTuple):
    """What an acknowledged heartbeat is told."""

    lease_ttl_s: float
    heartbeat_interval_s: float
    status: str
    revision: int
    term: int
    on_lease_loss: LeaseLoss
    not_renewed: tuple[str, ...]


class Confirmed(NamedTuple):
    """Which lead a quorum confirmed; it may be over by the time it is used."""

    controller: Controller
    term: int


class Leadership:
    """The leader's word on questions that no other node may answer; NotLeader elsewhere."""

    def __init__(self, loop: LeaderLoop, replica: Replica, clock: Clock) -> None:
        self._loop = loop
        self._replica = replica
        self._clock = clock
        self._declaring: dict[tuple[str, str], asyncio.Task[Outcome]] = {}
        self.heartbeats_total: dict[str, int] = {}

    @property
    def is_leading(self) -> bool:
        """Whether this node leads and has said so to itself in its own term."""
        return self._loop.is_leading

    def _still(self, controller: Controller) -> None:
        if not self._loop.leads_with(controller):
            raise NotLeader(self._replica.consensus.status().leader)

    def view(self, namespace: str) -> tuple[NamespaceState, Mind] | None:
        """A namespace and the leader's mind of it; None if there is no such namespace."""
        controller = self._loop.current()
        state = self._replica.state.namespaces.get(namespace)
        return None if state is None else (state, controller.mind(state, self._clock.monotonic()))

    async def confirmed(self) -> Confirmed:
        """A quorum's word, given after this was asked for, that this node leads."""
        controller = self._loop.current()
        return Confirmed(controller, await self._replica.consensus.confirm_leadership())

    def when_confirmed(
        self, told: Callable[[Confirmed | None], None], patience_s: float = 0.0
    ) -> Confirmation:
        """The same for whoever waits in no task; `told` with None when there is no such word.

        Who has patience shares a quorum's word with others. Raises NotLeader elsewhere, and
        Overloaded when too many wait already.
        """
        controller = self._loop.current()

        def tell(found: int | ConsensusError) -> None:
            told(None if isinstance(found, ConsensusError) else Confirmed(controller, found))

        return self._replica.consensus.when_confirmed(tell, patience_s=patience_s)

    def hear(self, namespace: str, beat: Beat, confirmed: Confirmed) -> BeatAnswer | None:
        """Acknowledge a usual heartbeat, one that changes nothing which others rely on.

        None, and nothing is taken in, where there is more to it: see `heartbeat`.
        """
        controller = confirmed.controller
        state = self._replica.state.namespaces.get(namespace)
        if state is None or not self._loop.leads_with(controller):
            return None
        mind = controller.mind(state, self._clock.monotonic())
        if mind.judge(state, beat) is not None or not mind.hear(state, beat):
            return None
        self._count("ok")
        return _beat_answer(state, beat, confirmed.term)

    async def heartbeat(
        self, namespace: str, beat: Beat, confirmed: Confirmed
    ) -> BeatAnswer | Refused:
        """Acknowledge a heartbeat, or say why not.

        A quorum has confirmed this leader after the heartbeat arrived, and whatever the heartbeat
        changes is committed, before it is answered.
        """
        answer = await self._acknowledge(confirmed.controller, namespace, beat, confirmed.term)
        self._count(answer.reason if isinstance(answer, Refused) else "ok")
        return answer

    def _count(self, outcome: str) -> None:
        self.heartbeats_total[outcome] = self.heartbeats_total.get(outcome, 0) + 1

    async def _acknowledge(
        self, controller: Controller, namespace: str, beat: Beat, term: int
    ) -> BeatAnswer | Refused:
        for _ in range(JUDGE_TRIES):
            self._still(controller)
            state = self._replica.state.namespaces.get(namespace)
            if state is None:
                return Refused(Reason.NAMESPACE_NOT_FOUND, f"no namespace {namespace!r}")
            mind = controller.mind(state, self._clock.monotonic())
            outcome: Outcome
            match mind.judge(state, beat):
                case None:
                    is_heard = mind.hear(state, beat)
                    return _beat_answer(state, beat, term) if is_heard else _undecided(beat)
                case Need.WAIT:
                    outcome = _undecided(beat)
                case Need.JOIN:
                    outcome = await self._join(state, mind, beat)
                case Need.UPDATE:
                    outcome = await self._update(state, beat)
                case Need.CLAIM:
                    outcome = await self._adopt(controller, state, mind, beat)
                case Refused() as refusal:
                    outcome = refusal
                case never:
                    assert_never(never)
            if isinstance(outcome, Refused):
                return outcome
        return _undecided(beat)

    async def _update(self, state: NamespaceState, beat: Beat) -> Outcome:
        """Commit what an executor tells new of itself."""
        return await self._replica.execute(
            UpdateExecutor(
                namespace=state.info.name,
                executor=beat.executor,
                incarnation=beat.incarnation,
                profile=beat.profile,
                at_ms=self._clock.wall_ms(),
            )
        )

    async def _join(self, state: NamespaceState, mind: Mind, beat: Beat) -> Outcome:
        """Let an incarnation in; the one it supersedes is not renewed from now on."""
        command = join_command(state, mind, beat, self._clock.wall_ms())
        outcome = await self._ending(state, mind, beat.executor, command)
        if isinstance(outcome, Applied):
            mind.joined(state, beat.executor, self._clock.monotonic())
            log.info("executor_joined namespace=%s executor=%s", state.info.name, beat.executor)
        return outcome

    async def _adopt(
        self, controller: Controller, state: NamespaceState, mind: Mind, beat: Beat
    ) -> Outcome:
        """Commit what an executor holds from before; applied once all of it is through."""
        for chunk in [*chunks(mind.claims.owed(state, beat))] or [()]:  # or only the lease
            command = AdoptClaims(
                namespace=state.info.name,
                executor=beat.executor,
                incarnation=beat.incarnation,
                claims=chunk,
                is_held=True,
                at_ms=beat.at_ms,
                lease_s=0.0 if beat.joining else beat.lease_s,
            )
            outcome = await self._replica.execute(command)
            if isinstance(outcome, Refused):
                return _undecided(beat)  # closed, or the window is: judged anew when it asks again
            controller.learn(command, outcome, self._replica.state, self._clock.monotonic())
        return Applied()

    async def leave(self, namespace: str, executor: str, incarnation: str) -> Outcome:
        """The executor says that it has stopped everything: re-home what it still owns."""
        await self._replica.consensus.confirm_leadership()
        found = self._find(namespace, executor)
        if isinstance(found, Refused):
            return found
        state, mind = found
        record = state.executors[executor]
        if record.predecessor == incarnation:
            # Its successor waits for just this word.
            return await self._settle(
                InheritShards(
                    namespace=namespace,
                    executor=executor,
                    predecessor=incarnation,
                    at_ms=self._clock.wall_ms(),
                ),
                state,
                mind,
            )
        if record.incarnation != incarnation:
            return Refused(
                Reason.INCARNATION_CLOSED,
                f"incarnation {incarnation!r} of {executor!r} is over",
                cause=state.closed.get((executor, incarnation), CloseCause.EXPIRED),
            )
        if record.predecessor is not None:
            order = EvictExecutor(
                namespace=namespace,
                executor=executor,
                incarnation=incarnation,
                at_ms=self._clock.wall_ms(),
            )
            outcome = await self.evict(namespace, executor, order, force=False)
        else:
            outcome = await self._close(state, mind, executor, CloseCause.LEFT)
        if isinstance(outcome, Refused) and outcome.reason is Reason.CONFLICT:
            # A newer incarnation came in before this was decided, and waits for just this word.
            return await self.leave(namespace, executor, incarnation)
        return outcome

    async def evict(self, namespace: str, executor: str, order: Entry, *, force: bool) -> Outcome:
        """Close an incarnation by order, which may come under an idempotency key.

        Its shards move when its lease has run out; with `force` at once, at the price that it may
        act on them until then.
        """
        found = self._find(namespace, executor)
        if isinstance(found, Refused):
            return await self._replica.execute(order)  # remembered under its key, or refused alike
        state, mind = found
        outcome = await self._ending(state, mind, executor, order)
        record = state.executors.get(executor)
        is_evicted = record is not None and record.evicted and record.predecessor is None
        if force and is_evicted:
            return await self._close(state, mind, executor, CloseCause.EVICTED)
        return outcome

    async def _ending(
        self, state: NamespaceState, mind: Mind, executor: str, entry: Entry
    ) -> Outcome:
        """Commit what ends the incarnation on record, which is not renewed meanwhile.

        It is renewed again when it turns out not to be over: the entry was refused, did not get
        into the log, or was a repetition that meant an incarnation before this one. A caller that
        leaves changes nothing of that.
        """
        record = state.executors.get(executor)
        if record is None:
            return await self._replica.execute(entry)
        proposal = object()
        mind.leases.close(executor, record.incarnation, proposal)

        async def settle() -> Outcome:
            try:
                outcome = await self._replica.execute(entry)
            except (NotLeader, Overloaded, TooLarge):
                mind.leases.reopen(executor, record.incarnation, proposal)
                raise
            after = state.executors.get(executor)
            if after is not None and after.incarnation == record.incarnation and not after.evicted:
                mind.leases.reopen(executor, record.incarnation, proposal)
            return outcome

        return await _to_the_end(settle())

    def _find(self, namespace: str, executor: str) -> tuple[NamespaceState, Mind] | Refused:
        found = self.view(namespace)
        if found is None:
            return Refused(Reason.NAMESPACE_NOT_FOUND, f"no namespace {namespace!r}")
        if executor not in found[0].executors:
            return Refused(Reason.EXECUTOR_NOT_FOUND, f"no executor {executor!r}")
        return found

    async def _close(
        self, state: NamespaceState, mind: Mind, executor: str, cause: CloseCause
    ) -> Outcome:
        record = state.executors[executor]
        now = self._clock.monotonic()
        fleet = see(state, mind, now)
        command = close_command(
            state, mind, fleet, record, cause=cause, now=now, at_ms=self._clock.wall_ms()
        )
        return await self._settle(command, state, mind)

    async def _settle(
        self, command: CloseIncarnation | InheritShards, state: NamespaceState, mind: Mind
    ) -> Outcome:
        """Commit what the controller must hear of, as if it had been its own."""
        controller = self._loop.current()

        async def settle() -> Outcome:
            if isinstance(command, CloseIncarnation):
                outcome = await self._ending(state, mind, command.executor, command)
            else:
                outcome = await self._replica.execute(command)
            controller.learn(command, outcome, self._replica.state, self._clock.monotonic())
            return outcome

        return await _to_the_end(settle())

    async def owner_of(
        self, namespace: str, key: str, *, create: bool, timeout_s: float
    ) -> Refused | None:
        """Make sure that a shard is known and, within `timeout_s`, that it has an owner.

        None when it is known: the caller then reads the state as it is.
        """
        self._loop.current()
        deadline = self._clock.monotonic() + timeout_s
        while True:
            state = self._replica.state.namespaces.get(namespace)
            if state is None:
                return Refused(Reason.NAMESPACE_NOT_FOUND, f"no namespace {namespace!r}")
            shard = state.shards.get(key)
            if shard is None:
                if not create:
                    return Refused(Reason.SHARD_NOT_FOUND, f"no shard {key!r}")
                outcome = await self._declare(namespace, key)
                if isinstance(outcome, Refused):
                    return outcome
                continue
            # One that is kept may wait for longer than callers should, and hold their places here.
            is_kept = shard.reserved is not None
            if shard.executor is not None or shard.fate is Fate.PARKED or is_kept:
                return None
            left_s = deadline - self._clock.monotonic()
            if not await self._replica.watches.wait((namespace, None), state.revision, left_s):
                return None

    async def _declare(self, namespace: str, key: str) -> Outcome:
        """Declare one shard once, however many ask for it at the same time."""
        name = (namespace, key)
        task = self._declaring.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._replica.execute(DeclareShards(namespace=namespace, keys=(key,)))
            )
            self._declaring[name] = task
            task.add_done_callback(lambda _: self._declaring.pop(name, None))
        return await asyncio.shield(task)


async def _to_the_end(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """The outcome of work that goes on when whoever waits for it leaves."""
    task = asyncio.get_running_loop().create_task(work)
    # Nobody may be left to hear of a failure; it is the leader's to try again.
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return await asyncio.shield(task)


def _undecided(beat: Beat) -> Refused:
    return Refused(Reason.RECOVERING, f"executor {beat.executor!r} is being decided upon")


def _beat_answer(state: NamespaceState, beat: Beat, term: int) -> BeatAnswer:
    policy = state.info.policy
    return BeatAnswer(
        lease_ttl_s=policy.lease_ttl_s,
        heartbeat_interval_s=policy.heartbeat_interval_s,
        status=state.status_of(state.executors[beat.executor]),
        revision=state.revision,
        term=term,
        on_lease_loss=policy.on_lease_loss,
        not_renewed=(*state.overdue_of(beat.executor), *not_won(state, beat)),
    )
