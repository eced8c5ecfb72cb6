"""The driver of the controller while this node leads, and the answers only a leader may give.

It owns the clock, the sleeping and the proposals, and decides nothing itself. A term that ends
takes its controller with it; everything soft starts anew with the next leader.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.clock import Clock
from coordinator.consensus import (
    ConsensusError,
    NotLeader,
    OutcomeUnknown,
)
from coordinator.core.commands import (
    Applied,
    Bootstrap,
    Command,
    CreateNamespace,
    DeclareShards,
    Entry,
    EvictExecutor,
    JoinExecutor,
    Outcome,
    Reason,
    Refused,
    UpdateExecutor,
)
from coordinator.core.controller import Beat, Controller, Mind, Need
from coordinator.core.controller.fleet import see
from coordinator.core.controller.losses import close_command
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import EPOCH_SHIFT_BITS, CloseCause, Fate
from coordinator.replica import Replica

log = logging.getLogger("coordinator.leader")

TICK_S = 0.1
"""How often the driver looks whether its loop stood still."""

STALL_S = 0.4
"""A gap in the ticks that counts as a standstill: shorter than any sensible heartbeat interval."""

READ_WAITING_S = 0.1
"""After a standstill the sockets are read for so long before anything is decided."""

IN_FLIGHT_MAX = 64
"""Proposals of one step at a time: commands of up to 256 KiB each."""

BUSY_STEPS_MAX = 50
"""Steps in a row that had commands; then a breath, so that a rule at odds with itself cannot
keep the loop from everything else."""

JUDGE_TRIES = 3
"""A heartbeat is judged again after each commit it needed: a join, then at most an update."""


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """What an acknowledged heartbeat is told."""

    lease_ttl_s: float
    heartbeat_interval_s: float
    status: str
    revision: int
    term: int
    not_renewed: tuple[str, ...]


class LeaderLoop:
    """Leads while this node is the leader; refuses with NotLeader otherwise."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        seeds: Mapping[str, CreateNamespace],
        *,
        mint: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        """`seeds` are namespaces to create when a leader finds them absent."""
        self._replica = replica
        self._clock = clock
        self._seeds = seeds
        self._mint = mint
        self._controller: Controller | None = None
        self._task: asyncio.Task[None] | None = None
        self._kick = asyncio.Event()
        self._ticked_at = clock.monotonic()
        self._declaring: dict[tuple[str, str], asyncio.Task[Outcome]] = {}
        self.term = 0
        self.heartbeats_total: dict[str, int] = {}
        replica.on_change(self._kick.set)
        replica.consensus.on_leadership = self._leadership_changed

    # -- leading -------------------------------------------------------------------------

    @property
    def is_leading(self) -> bool:
        """Whether this node leads and has said so to itself in its own term."""
        return self._controller is not None

    def _leadership_changed(self, is_leader: bool, term: int) -> None:  # noqa: FBT001 - a callback
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._controller = None
        self.term = term
        if is_leader:
            now = self._clock.monotonic()
            self._controller = Controller(self._replica.state, now)
            self._ticked_at = now
            self._task = asyncio.get_running_loop().create_task(self._lead(self._controller))

    async def stop(self) -> None:
        """Stop leading; bounded by what is being proposed."""
        task, self._task, self._controller = self._task, None, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _lead(self, controller: Controller) -> None:
        try:
            await self._bootstrap()
            await self._run(controller)
        except NotLeader:
            log.info("leader_stopped term=%d", self.term)
        except asyncio.CancelledError:
            raise
        except Exception:
            # A defect in a plan must not end all duties for good: give the lead to another node.
            log.exception("leader_failed term=%d", self.term)
            self._controller = None
            with contextlib.suppress(ConsensusError):
                await self._replica.consensus.transfer_leadership()

    async def _bootstrap(self) -> None:
        """Name the cluster if it has no name, and create the configured namespaces."""
        if self._replica.state.cluster_id is None:
            seconds = self._clock.wall_ms() // 1000
            await self._persist(
                Bootstrap(cluster_id=self._mint(), epoch_base=seconds << EPOCH_SHIFT_BITS)
            )
        for name, seed in sorted(self._seeds.items()):
            if name not in self._replica.state.namespaces:
                await self._persist(seed)

    async def _persist(self, command: Command) -> Outcome:
        """Propose until the outcome is known; these commands are harmless when repeated."""
        while True:
            try:
                return await self._replica.execute(command)
            except OutcomeUnknown:
                await asyncio.sleep(TICK_S)

    async def _run(self, controller: Controller) -> None:
        ticker = asyncio.get_running_loop().create_task(self._tick())
        busy = 0
        try:
            while True:
                await self._read_waiting(controller)
                # What changes during a step must wake the next one.
                self._kick.clear()
                now = self._clock.monotonic()
                step = controller.step(self._replica.state, now, self._clock.wall_ms())
                busy = busy + 1 if step.commands else 0
                if step.commands:
                    await self._commit(controller, step.commands)
                    if busy >= BUSY_STEPS_MAX:
                        await asyncio.sleep(TICK_S)
                else:
                    await self._sleep(step.wake_at - now)
        finally:
            ticker.cancel()

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._kick.wait()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._clock.monotonic() - self._ticked_at < TICK_S + STALL_S:
                self._ticked_at = self._clock.monotonic()

    async def _read_waiting(self, controller: Controller) -> None:
        """After a standstill: count it for nobody, and hear who has spoken meanwhile."""
        gap_s = self._clock.monotonic() - self._ticked_at - TICK_S
        if gap_s > STALL_S:
            log.warning("leader_stood_still gap_s=%.3f", gap_s)
            self._ticked_at = self._clock.monotonic()
            controller.stood_still(gap_s)
            await asyncio.sleep(READ_WAITING_S)

    async def _commit(self, controller: Controller, commands: tuple[Command, ...]) -> None:
        for start in range(0, len(commands), IN_FLIGHT_MAX):
            chunk = commands[start : start + IN_FLIGHT_MAX]
            results = await asyncio.gather(
                *(self._replica.execute(command) for command in chunk), return_exceptions=True
            )
            for command, result in zip(chunk, results, strict=True):
                if isinstance(result, BaseException) and not isinstance(result, ConsensusError):
                    raise result
                outcome = None if isinstance(result, BaseException) else result
                now = self._clock.monotonic()
                controller.learn(command, outcome, self._replica.state, now)
                _log_decision(command, result)
            for result in results:
                if isinstance(result, NotLeader):
                    raise result

    # -- what only a leader answers ------------------------------------------------------

    def _leading(self) -> Controller:
        if self._controller is None:
            raise NotLeader(self._replica.consensus.status().leader)
        return self._controller

    def _still(self, controller: Controller) -> None:
        if self._controller is not controller:
            raise NotLeader(self._replica.consensus.status().leader)

    def view(self, namespace: str) -> tuple[NamespaceState, Mind] | None:
        """A namespace and the leader's mind of it; None if there is no such namespace."""
        controller = self._leading()
        state = self._replica.state.namespaces.get(namespace)
        return None if state is None else (state, controller.mind(state, self._clock.monotonic()))

    async def heartbeat(self, namespace: str, beat: Beat) -> BeatAnswer | Refused:
        """Acknowledge a heartbeat, or say why not.

        A quorum has confirmed this leader after the heartbeat arrived, and whatever the heartbeat
        changes is committed, before it is answered.
        """
        controller = self._leading()
        term = await self._replica.consensus.confirm_leadership()
        answer = await self._acknowledge(controller, namespace, beat, term)
        outcome = answer.reason if isinstance(answer, Refused) else "ok"
        self.heartbeats_total[outcome] = self.heartbeats_total.get(outcome, 0) + 1
        return answer

    async def _acknowledge(
        self, controller: Controller, namespace: str, beat: Beat, term: int
    ) -> BeatAnswer | Refused:
        for _ in range(JUDGE_TRIES):
            self._still(controller)
            state = self._replica.state.namespaces.get(namespace)
            if state is None:
                return Refused(Reason.NAMESPACE_NOT_FOUND, f"no namespace {namespace!r}")
            mind = controller.mind(state, self._clock.monotonic())
            verdict = mind.judge(state, beat)
            if isinstance(verdict, Refused):
                return verdict
            if verdict is None:
                if mind.hear(state, beat):
                    return _beat_answer(state, beat, term)
                break
            if verdict is Need.WAIT:
                break
            outcome = await (
                self._join(state, mind, beat)
                if verdict is Need.JOIN
                else self._replica.execute(
                    UpdateExecutor(
                        namespace=namespace,
                        executor=beat.executor,
                        incarnation=beat.incarnation,
                        profile=beat.profile,
                    )
                )
            )
            if isinstance(outcome, Refused):
                return outcome
        return Refused(Reason.RECOVERING, f"executor {beat.executor!r} is being decided upon")

    async def _join(self, state: NamespaceState, mind: Mind, beat: Beat) -> Outcome:
        """Let an incarnation in; the one it supersedes is not renewed from now on."""
        record = state.executors.get(beat.executor)
        if record is not None:
            mind.leases.close(record.id, record.incarnation)
        outcome = await self._replica.execute(
            JoinExecutor(
                namespace=state.info.name,
                executor=beat.executor,
                incarnation=beat.incarnation,
                profile=beat.profile,
                at_ms=self._clock.wall_ms(),
                predecessor_dead=beat.predecessor_dead,
            )
        )
        if isinstance(outcome, Applied):
            mind.joined(beat.executor, self._clock.monotonic())
            log.info("executor_joined namespace=%s executor=%s", state.info.name, beat.executor)
        elif record is not None:
            mind.leases.reopen(record.id, record.incarnation)
        return outcome

    async def leave(self, namespace: str, executor: str, incarnation: str) -> Outcome:
        """The executor says that it has stopped everything: re-home what it still owns."""
        found = self._find(namespace, executor)
        if isinstance(found, Refused):
            return found
        state, mind = found
        record = state.executors[executor]
        if record.incarnation != incarnation:
            return Refused(
                Reason.INCARNATION_CLOSED,
                f"incarnation {incarnation!r} of {executor!r} is over",
                cause=state.closed.get((executor, incarnation), CloseCause.EXPIRED),
            )
        if record.predecessor is not None:
            return await self.evict(namespace, executor, force=False)
        return await self._close(state, mind, executor, CloseCause.LEFT)

    async def evict(
        self, namespace: str, executor: str, *, force: bool, entry: Entry | None = None
    ) -> Outcome:
        """Close an incarnation by order; `entry` is the same order under an idempotency key.

        Its shards move when its lease has run out; with `force` at once, at the price that it may
        act on them until then.
        """
        order = entry or EvictExecutor(namespace=namespace, executor=executor)
        found = self._find(namespace, executor)
        if isinstance(found, Refused):
            return await self._replica.execute(order)  # remembered under its key, or refused alike
        state, mind = found
        incarnation = state.executors[executor].incarnation
        mind.leases.close(executor, incarnation)
        outcome = await self._replica.execute(order)
        record = state.executors.get(executor)
        if record is None or not record.evicted:
            # Refused, or a repetition that meant an incarnation before this one.
            mind.leases.reopen(executor, incarnation)
        elif force and record.predecessor is None:
            return await self._close(state, mind, executor, CloseCause.EVICTED)
        return outcome

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
        controller = self._leading()
        record = state.executors[executor]
        mind.leases.close(record.id, record.incarnation)
        fleet = see(state, mind, self._clock.monotonic())
        command = close_command(
            state, mind, fleet, record, cause=cause, at_ms=self._clock.wall_ms()
        )
        outcome = await self._replica.execute(command)
        controller.learn(command, outcome, self._replica.state, self._clock.monotonic())
        return outcome

    async def owner_of(
        self, namespace: str, key: str, *, create: bool, timeout_s: float
    ) -> Refused | None:
        """Make sure that a shard is known and, within `timeout_s`, that it has an owner.

        None when it is known: the caller then reads the state as it is.
        """
        self._leading()
        deadline = time.monotonic() + timeout_s
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
            if shard.executor is not None or shard.fate is Fate.PARKED:
                return None
            left_s = deadline - time.monotonic()
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


def _beat_answer(state: NamespaceState, beat: Beat, term: int) -> BeatAnswer:
    policy = state.info.policy
    return BeatAnswer(
        lease_ttl_s=policy.lease_ttl_s,
        heartbeat_interval_s=policy.heartbeat_interval_s,
        status=state.status_of(state.executors[beat.executor]),
        revision=state.revision,
        term=term,
        not_renewed=tuple(state.overdue_of(beat.executor)),
    )


def _log_decision(command: Command, result: Outcome | BaseException) -> None:
    kind = type(command).__name__
    namespace = getattr(command, "namespace", "")
    if isinstance(result, Applied):
        log.info("decided command=%s namespace=%s count=%d", kind, namespace, result.count)
    else:
        log.warning("not_decided command=%s namespace=%s why=%s", kind, namespace, result)
