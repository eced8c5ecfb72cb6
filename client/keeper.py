"""Keeps the shards of one executor: does what the machine of `reconcile` says.

A thin driver: it owns the callbacks' tasks, the handles and the clock, and decides nothing about
shards. It must not know HTTP.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from client.callbacks import end_tasks, error_of_call
from client.forks import give_up_in_child
from client.lease import Lease, LeaseState
from client.lifecycle import (
    Acknowledge,
    Action,
    Adopt,
    CallbackEnded,
    Closed,
    Cursor,
    Event,
    Lost,
    Prepare,
    Renewed,
    Revoke,
    Start,
    Stop,
    Suspended,
    TimePassed,
)
from client.protocol import HeldShard
from client.reconcile import Reconciler
from client.shard import Shard, Tenure

ShardCallback = Callable[[Shard], Awaitable[None] | None]

_log: Final = logging.getLogger(__name__)

# Timers of the loop stand still while the machine sleeps, the lease does not: look at least so
# often.
_LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class ShardCallbacks:
    """What the user wants done with shards."""

    on_start: ShardCallback
    on_stop: ShardCallback
    on_prepare: ShardCallback | None = None


class ShardKeeper:
    """The shards of one executor, across its incarnations."""

    def __init__(
        self,
        namespace: str,
        callbacks: ShardCallbacks,
        *,
        clock: Callable[[], float],
        concurrency_max: int,
        acknowledge: Callable[[Acknowledge], object],
        may_go_on: Callable[[], bool],
        observe_state: Callable[[LeaseState], object],
        observe_fault: Callable[[Exception], object],
    ) -> None:
        if concurrency_max < 1:
            raise ValueError(f"at least one callback at a time, not {concurrency_max}")
        self.machine: Final = Reconciler(has_prepare=callbacks.on_prepare is not None)
        self.lease = Lease()
        self.changed: Final = asyncio.Event()  # anything happened; who waits clears it
        self.basis_changed: Final = asyncio.Event()  # polls must ask for something else
        self._namespace: Final = namespace
        self._callbacks: Final = callbacks
        self._clock: Final = clock
        self._acknowledge: Final = acknowledge
        self._may_go_on: Final = may_go_on  # asked when the lease runs out
        self._observe_state: Final = observe_state
        self._observe_fault: Final = observe_fault  # told when a task of ours breaks
        self._state = LeaseState.SUSPENDED
        self._tenures: dict[str, Tenure] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Stops have turns of their own: starts that hang must not keep a lost shard running.
        self._start_turns: Final = asyncio.Semaphore(concurrency_max)
        self._stop_turns: Final = asyncio.Semaphore(concurrency_max)
        self._timer_changed: Final = asyncio.Event()
        give_up_in_child(self, ShardKeeper._give_up)

    def _give_up(self) -> None:
        self.lease.close()
        for tenure in self._tenures.values():
            tenure.meter.survive_fork()

    @property
    def state(self) -> LeaseState:
        """The executor's view of its right to act, at this moment."""
        return self.lease.state(self._clock())

    @property
    def callbacks_under_way(self) -> int:
        """How many callbacks run or wait for their turn."""
        return len(self._tasks)

    def feed(self, event: Event) -> None:
        """Tell the machine and do what it says."""
        basis = (self.machine.cursor, self.machine.floor)
        for action in self.machine.step(event, self._clock()):
            self._act(action)
        if basis != (self.machine.cursor, self.machine.floor):
            self.basis_changed.set()
        if not (isinstance(event, CallbackEnded) and event.error is None):
            self._timer_changed.set()  # what went well starts no timer
        self.changed.set()

    def observe_lease(self) -> None:
        """Tell the user, then the machine, when the lease's state is another one than before.

        In this order, and before anything else that is to be done at this moment: user code hears
        that the lease is lost before any of its callbacks is called again.
        """
        state = self.state
        if state is self._state:
            return
        if state is LeaseState.LOST and self._may_go_on():
            self.lease.go_on(self._clock())
            state = self.state
        _log.log(
            logging.INFO if state is LeaseState.CONNECTED else logging.WARNING,
            "lease_%s namespace=%s shards=%d",
            state.value,
            self._namespace,
            len(self._tenures),
        )
        self._state = state
        if state is LeaseState.LOST:
            self.revoke_all()
            for tenure in self._tenures.values():
                # Winning the lease again gives what is being stopped no more time to flush: if its
                # stop hangs, others are to have the shard.
                tenure.ends_at = min(tenure.ends_at, self.lease.act_until)
        self._observe_state(state)
        match state:
            case LeaseState.SUSPENDED | LeaseState.CONTINUED:
                self.feed(Suspended())
            case LeaseState.LOST:
                self.feed(Lost())
            case LeaseState.CONNECTED:
                pass  # told with the cursor, by `Renewed`
            case _:
                assert_never(state)

    def renew(
        self,
        sent_at: float,
        ttl_s: float,
        interval_s: float,
        cursor: Cursor,
        overdue: Collection[str] = (),
    ) -> None:
        """A heartbeat that was sent then has been acknowledged with these terms."""
        # First what time has done while the answer was under way, then what the answer grants.
        self.observe_lease()
        for key in self.machine.withheld(cursor, overdue):
            if (tenure := self._tenures.get(key)) is not None:
                tenure.ends_at = min(tenure.ends_at, self.lease.act_until)
        self.lease.renew(sent_at, ttl_s, interval_s)
        self.observe_lease()
        if self.state is not LeaseState.LOST:
            is_late = self.state is not LeaseState.CONNECTED
            self.feed(Renewed(cursor, frozenset(overdue), is_late, ttl_s))

    def end_lease(self) -> None:
        """A coordinator answers, and does not know of this lease: it goes on no longer."""
        self.lease.end()
        self.observe_lease()

    def close_incarnation(self) -> None:
        """The coordinator ended the incarnation: nothing may be acted on, everything stops."""
        self.lease.close()
        was_lost, self._state = self._state is LeaseState.LOST, LeaseState.LOST
        if not was_lost:
            self._observe_state(LeaseState.LOST)
        self.feed(Closed())

    def open_incarnation(self) -> None:
        """A fresh incarnation begins; it has no lease yet."""
        self.lease = Lease()
        self._state = LeaseState.SUSPENDED

    async def watch_lease(self) -> None:
        """Runs for ever: notices when time alone changes something."""
        while True:
            self._timer_changed.clear()
            self.observe_lease()
            now = self._clock()
            wakes = (self.lease.changes_at(now), self.machine.wake_at())
            delay_s = min((at - now for at in wakes if at is not None), default=_LOOK_S)
            try:
                async with asyncio.timeout(max(0.0, min(delay_s, _LOOK_S))):
                    await self._timer_changed.wait()
            except TimeoutError:
                retry_at = self.machine.wake_at()
                if retry_at is not None and retry_at <= self._clock():
                    self.observe_lease()
                    self.feed(TimePassed())

    def owned(self, key: str) -> Shard | None:
        """The handle of a shard that has been started and may be acted on now."""
        tenure = self._tenures.get(key)
        if tenure is None or tenure.handle is None or not tenure.is_started:
            return None
        return tenure.handle if tenure.handle.may_act() else None

    def report(
        self, now: float, loads: Mapping[str, float] | None, window_min_s: float
    ) -> dict[str, HeldShard]:
        """What a heartbeat says about the shards; `loads` replaces what handles were told."""
        found: dict[str, HeldShard] = {}
        for key, epoch in self.machine.held().items():
            if loads is None:
                load = self._tenures[key].meter.report(now, window_min_s)
            else:
                load = loads.get(key)
            found[key] = HeldShard(epoch) if load is None else HeldShard(epoch, load)
        return found

    def add_loads(self, amounts: Mapping[str, float]) -> None:
        """Count this load on the shards that are held; one that is not named had none."""
        for key in self.machine.held():
            self._tenures[key].meter.add(amounts.get(key, 0.0))

    def acknowledge_report(self) -> None:
        """The last report has arrived."""
        for tenure in self._tenures.values():
            tenure.meter.acknowledge()

    async def close(self) -> None:
        """End what is still under way; called when nothing more is waited for or acted on."""
        await end_tasks(self._tasks)

    def revoke_all(self) -> None:
        """Nothing that was started may be acted on from here on."""
        for tenure in self._tenures.values():
            tenure.is_granted = False

    # ------------------------------------------------------------------------------ acting

    def _act(self, action: Action) -> None:
        match action:
            case Prepare(key, epoch):
                tenure = Tenure(key, epoch, self.lease, self._clock())
                self._tenures[key] = tenure
                if self._callbacks.on_prepare is not None:
                    self._spawn(self._begin(tenure, self._callbacks.on_prepare))
            case Start(key, epoch):
                tenure = self._tenures.get(key) or Tenure(key, epoch, self.lease, self._clock())
                self._tenures[key] = tenure
                tenure.epoch, tenure.lease, tenure.ends_at = epoch, self.lease, math.inf
                tenure.is_granted = True
                self._spawn(self._begin(tenure, self._callbacks.on_start))
            case Adopt(key, epoch):
                tenure = self._tenures[key]
                tenure.epoch, tenure.ends_at = epoch, math.inf
            case Revoke(key, _):
                self._tenures[key].is_granted = False
            case Stop(key, _):
                tenure = self._tenures[key]
                tenure.is_granted = False
                self._spawn(self._stop(tenure))
            case Acknowledge():
                self._acknowledge(action)
            case _:
                assert_never(action)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._observe_fault(error)

    def _handle(self, tenure: Tenure) -> Shard:
        if tenure.handle is None:
            tenure.handle = Shard(self._namespace, tenure, self._clock)
        return tenure.handle

    async def _begin(self, tenure: Tenure, callback: ShardCallback) -> None:
        async with self._start_turns:
            # Whoever waited, or woke from a blocked loop, hears of a lost lease first.
            self.observe_lease()
            was_begun = self.machine.is_wanted(tenure.key)
            error = await error_of_call(callback, self._handle(tenure)) if was_begun else None
        self.observe_lease()  # while there is a tenure: the loss may revoke it
        if error is not None or not was_begun:
            tenure.is_granted = False
        if error is not None or (not was_begun and not tenure.was_prepared):
            del self._tenures[tenure.key]
        if error is None and was_begun:
            tenure.was_prepared = True
            tenure.is_started = callback is self._callbacks.on_start
        self.feed(CallbackEnded(tenure.key, error, was_begun))

    async def _stop(self, tenure: Tenure) -> None:
        async with self._stop_turns:
            self.observe_lease()
            error = await error_of_call(self._callbacks.on_stop, self._handle(tenure))
        self.observe_lease()
        del self._tenures[tenure.key]
        self.feed(CallbackEnded(tenure.key, error))
