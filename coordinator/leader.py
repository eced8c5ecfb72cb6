"""The driver of the controller while this node leads.

It owns the clock, the sleeping and the proposals, and decides nothing itself. A term that ends
takes its controller with it; everything soft starts anew with the next leader.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context

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
    Outcome,
    RaiseMassFailure,
    RecordLoads,
)
from coordinator.core.controller import Controller
from coordinator.core.types import EPOCH_SHIFT_BITS
from coordinator.replica import Replica

log = logging.getLogger("coordinator.leader")

TICK_S = 0.1
"""How often the driver looks whether its loop stood still."""

STALL_S = 0.4
"""A gap in the ticks that counts as a standstill: shorter than any sensible heartbeat interval."""

READ_WAITING_S = 0.1
"""After a standstill the sockets are read for so long before anything is decided."""

LET_GO_EVERY_S = 0.005
"""A tenth of the loop at most goes into freeing what a former leader knew of a million shards."""

IN_FLIGHT_MAX = 64
"""Proposals of one step at a time: commands of up to 64 KiB each."""

BUSY_STEPS_MAX = 50
"""Steps in a row that had commands; then a breath after each, so that a rule at odds with itself
cannot keep the loop from everything else. Loads that are written down have one after each step, and
count for none: of a million that takes most of a minute, and a loss in it shall not wait."""

BREATH_MIN_S = 0.01
"""A breath is as long as the step and its commit took, so that half of the time is left; not less
than this, nor more than a tick. With a whole tick a million shards took five minutes to place."""


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
        self._letting_go: set[asyncio.Task[None]] = set()
        """Of former terms."""
        self._kick = asyncio.Event()
        self._ticked_at = clock.monotonic()
        self.term = 0
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
        self._drop_controller()
        self.term = term
        if is_leader:
            self._replica.meters.leaderships += 1
            now = self._clock.monotonic()
            self._controller = Controller(self._replica.state, now)
            self._ticked_at = now
            # Of its own: what led to the election, a request perhaps, has no part in the term.
            self._task = asyncio.get_running_loop().create_task(
                self._lead(self._controller), context=Context()
            )

    async def stop(self) -> None:
        """Stop leading; bounded by what is being proposed."""
        task, self._task, self._controller = self._task, None, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for letting_go in [*self._letting_go]:
            letting_go.cancel()
        await asyncio.gather(*self._letting_go, return_exceptions=True)

    def _drop_controller(self) -> None:
        """Its term is over. What it remembers of a million shards is let go of in slices."""
        former, self._controller = self._controller, None
        if former is not None:
            task = asyncio.get_running_loop().create_task(_let_go(former), context=Context())
            self._letting_go.add(task)
            task.add_done_callback(self._letting_go.discard)

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
            self._drop_controller()
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
                self._replica.meters.steps.observe(self._clock.monotonic() - now)
                busy = counted(step.commands, busy)
                if not step.commands:
                    await self._sleep(step.wake_at - now)
                    continue
                await self._commit(controller, step.commands)
                if is_breath_due(step.commands, busy):
                    took_s = self._clock.monotonic() - now
                    await asyncio.sleep(min(TICK_S, max(BREATH_MIN_S, took_s)))
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
        while (gap_s := self._clock.monotonic() - self._ticked_at - TICK_S) > STALL_S:
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

    def leads_with(self, controller: Controller) -> bool:
        """Whether the term of this controller goes on."""
        return self._controller is controller

    def current(self) -> Controller:
        """The controller of the term that this node leads; raises NotLeader without one."""
        if self._controller is None:
            raise NotLeader(self._replica.consensus.status().leader)
        return self._controller


def is_leisurely(commands: Sequence[Command]) -> bool:
    """Whether nothing waits for these."""
    return all(isinstance(one, RecordLoads) for one in commands)


def counted(commands: Sequence[Command], busy: int) -> int:
    """Steps in a row without a breath, after one more; one at leisure has its own and ends the row.

    While loads are written down no step comes without commands. Were the row to go on, losses later
    in that minute would again have to wait after each of their steps.
    """
    return 0 if is_leisurely(commands) else busy + 1


def is_breath_due(commands: Sequence[Command], busy: int) -> bool:
    """Whether the loop is left to others after a step, the `busy`-th in a row that counts."""
    return is_leisurely(commands) or busy >= BUSY_STEPS_MAX


async def _let_go(former: Controller) -> None:
    for _ in former.let_go():
        await asyncio.sleep(LET_GO_EVERY_S)


def _log_decision(command: Command, result: Outcome | BaseException) -> None:
    kind = type(command).__name__
    namespace = getattr(command, "namespace", "")
    if isinstance(command, RaiseMassFailure) and isinstance(result, Applied):
        log.warning(
            "mass_failure_raised namespace=%s silent=%d total=%d",
            namespace,
            command.silent,
            command.total,
        )
    elif isinstance(result, Applied):
        log.info("decided command=%s namespace=%s count=%d", kind, namespace, result.count)
    else:
        log.warning("not_decided command=%s namespace=%s why=%s", kind, namespace, result)
