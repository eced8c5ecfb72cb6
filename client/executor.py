"""A process that owns and runs shards.

Decides the order of joining and leaving and what ends an executor. The life cycle of shards is
decided in `reconcile`, the lease in `lease`; the tasks are in `heartbeats` and `assignments`.
"""

import asyncio
import contextlib
import logging
import random
import signal
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from client import calls, errors
from client.callbacks import is_async
from client.clock import lease_now_s
from client.connection import Connection
from client.keeper import ShardCallback, ShardCallbacks
from client.lease import LeaseState
from client.lifecycle import Leaving
from client.parts import assembled
from client.profile import ExecutorProfile
from client.sampler import LoadSampler, LoadsCallback
from client.transport import Transport

_log: Final = logging.getLogger(__name__)

# Starts wait for each other beyond this: a process that was given a thousand shards at once does
# not open a thousand connections at once. Stops have as many turns of their own.
CONCURRENT_CALLBACKS_MAX: Final = 16
# Long enough for an election and a node that is starting; a wrong address shows soon enough.
JOIN_TIMEOUT_S: Final = 30.0
# What process supervisors usually grant before they kill.
LEAVE_TIMEOUT_S: Final = 25.0
# Leaving goes on without handoff when nobody has taken a shard for this long.
_LEAVE_STALL_S: Final = 3.0
# Kept back for stops out of the time for leaving.
_STOP_SHARE: Final = 0.3
_DEREGISTER_TIMEOUT_S: Final = 2.0  # a courtesy: without it the lease runs out


LeaseCallback = Callable[[LeaseState], object]


class Executor:
    """Joins a namespace, runs the shards that it is given, and leaves.

        async with Executor(endpoints, namespace="jobs", name="jobs-1",
                            on_start=start, on_stop=stop) as executor:
            await executor.run_until_signalled()

    Callbacks get a `Shard` and may be coroutines, run on the loop, or plain functions, run in
    threads. For each shard they never overlap: `on_prepare` (warm up, own nothing yet), `on_start`,
    `on_stop`. A callback that raises has to have cleaned up: after a failed `on_start` there is no
    `on_stop`. `on_stop` also follows an `on_prepare` whose shard went elsewhere in the end.

    Entering waits for the first acknowledged heartbeat. Leaving says so, hands every shard over,
    stops what nobody takes, and deregisters. When the coordinator ends the executor for good (a
    newer process under its name, an operator), the body is cancelled and `IncarnationClosed` is
    raised in its place. A lease that was lost and won again is no error: the shards stop, and
    start again when they are assigned again. `on_lease` is told each change of the lease's state,
    on the loop and before any other callback is called; it is a plain function and must not block.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        namespace: str,
        name: str,
        on_start: ShardCallback,
        on_stop: ShardCallback,
        on_prepare: ShardCallback | None = None,
        host: str | None = None,
        address: str = "",
        zone: str = "",
        capacity: float = 1.0,
        version: str = "",
        labels: Mapping[str, str] | None = None,
        token: str | None = None,
        loads: LoadsCallback | None = None,
        on_lease: LeaseCallback | None = None,
        max_concurrent_callbacks: int = CONCURRENT_CALLBACKS_MAX,
        join_timeout_s: float = JOIN_TIMEOUT_S,
        leave_timeout_s: float = LEAVE_TIMEOUT_S,
        transport: Transport | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = lease_now_s,
        mint: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._clock: Final = clock
        self._join_timeout_s: Final = join_timeout_s
        self._leave_timeout_s: Final = leave_timeout_s
        self._profile: Final = ExecutorProfile(
            namespace=namespace,
            name=name,
            host=socket.gethostname() if host is None else host,
            address=address,
            zone=zone,
            capacity=capacity,
            version=version,
            labels=dict(labels or {}),
        )
        rng = rng or random.Random()
        self._parts: Final = assembled(
            self._profile,
            ShardCallbacks(on_start, on_stop, on_prepare),
            Connection(endpoints, token, transport=transport, rng=rng, monotonic=clock),
            LoadSampler(loads),
            clock=clock,
            rng=rng,
            mint=mint,
            concurrency_max=max_concurrent_callbacks,
            observe_state=self._tell_state,
            observe_fault=self._fail,
        )
        self._on_lease: Final = _plain(on_lease)
        self._tasks: list[asyncio.Task[None]] = []
        self._body: asyncio.Task[object] | None = None
        self._failure: BaseException | None = None
        self._has_failed: Final = asyncio.Event()
        self._has_cancelled_body = False
        self._is_inside = False

    # ------------------------------------------------------------------------- what is seen

    @property
    def name(self) -> str:
        """The stable name of this executor."""
        return self._profile.name

    @property
    def incarnation(self) -> str:
        """The incarnation that is current."""
        return self._parts.beats.incarnation

    @property
    def lease_state(self) -> LeaseState:
        """CONNECTED, SUSPENDED, LOST or CONTINUED."""
        return self._parts.keeper.state

    @property
    def status(self) -> str:
        """How the coordinator sees this executor: active, cordoned, draining or drained."""
        return self._parts.beats.status

    def running(self) -> dict[str, int]:
        """The shards that were started and have not ended stopping, with their epochs."""
        return self._parts.keeper.machine.running()

    # ------------------------------------------------------------------ joining and leaving

    async def __aenter__(self) -> Self:
        if self._body is not None:
            raise RuntimeError("an executor is entered once; make another one")
        self._body = asyncio.current_task()
        for work in (
            self._parts.beats.run(),
            self._parts.polls.run(),
            self._parts.acks.run(),
            self._parts.keeper.watch_lease(),
            self._parts.loads.run(
                lambda: self._parts.beats.interval_s, self._parts.keeper.observe_lease
            ),
        ):
            self._watch(work)
        try:
            await self._join()
        except BaseException:
            await self._end_tasks()
            raise
        self._is_inside = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_inside = False
        try:
            if self._failure is None:
                await self._hand_over()
            await self._stop_all(self._leave_timeout_s * _STOP_SHARE)
            if self._failure is None:
                await self._deregister()
        finally:
            await self._end_tasks()
        self._raise_failure(error)

    async def run_until_signalled(
        self, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    ) -> signal.Signals:
        """Return the first of these signals; for the body of a process that only runs shards."""
        loop = asyncio.get_running_loop()
        received: asyncio.Future[signal.Signals] = loop.create_future()

        def receive(which: signal.Signals) -> None:
            if not received.done():
                received.set_result(which)

        for which in signals:
            loop.add_signal_handler(which, receive, which)
        try:
            return await received
        finally:
            for which in signals:
                loop.remove_signal_handler(which)

    async def _join(self) -> None:
        joined = asyncio.create_task(self._parts.beats.joined.wait())
        failed = asyncio.create_task(self._has_failed.wait())
        try:
            await asyncio.wait(
                {joined, failed},
                timeout=self._join_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            joined.cancel()
            failed.cancel()
        if self._failure is not None:
            raise self._failure
        if not self._parts.beats.joined.is_set():
            raise errors.TimedOut(
                f"no coordinator acknowledged a heartbeat of {self.name!r} within"
                f" {self._join_timeout_s:g} s: {self._parts.beats.last_error or 'no answer at all'}"
            )

    async def _hand_over(self) -> None:
        """Let the coordinator move every shard away, as long as it does."""
        self._parts.beats.leave()
        self._parts.keeper.feed(Leaving())
        machine, keeper = self._parts.keeper.machine, self._parts.keeper
        give_up_at = self._clock() + self._leave_timeout_s * (1.0 - _STOP_SHARE)
        left = machine.live_count
        stalled_at = self._clock() + _LEAVE_STALL_S
        while not machine.is_empty and keeper.state is not LeaseState.LOST:
            now = self._clock()
            if machine.live_count < left or keeper.callbacks_under_way:
                left, stalled_at = machine.live_count, now + _LEAVE_STALL_S
            if self._failure is not None or now >= min(stalled_at, give_up_at):
                return
            await self._next_change(min(stalled_at, give_up_at) - now)

    async def _stop_all(self, timeout_s: float) -> None:
        self._parts.keeper.feed(Leaving(stops_all=True))
        give_up_at = self._clock() + timeout_s
        while self._parts.keeper.machine.live_count and (now := self._clock()) < give_up_at:
            await self._next_change(give_up_at - now)
        if left := self._parts.keeper.machine.live_count:
            _log.error("shards_left_running executor=%s shards=%d", self.name, left)

    async def _next_change(self, timeout_s: float) -> None:
        self._parts.keeper.changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._parts.keeper.changed.wait()

    async def _deregister(self) -> None:
        if self._parts.keeper.machine.live_count:
            return  # something still runs here: only the end of the lease proves it harmless
        # The last heartbeat must not be under way any more: it would join again.
        await self._end_tasks(closes=False)
        call = calls.deregister(self._profile.namespace, self.name, self.incarnation)
        try:
            await self._parts.connection.send(call, timeout_s=_DEREGISTER_TIMEOUT_S)
        except errors.ShardCoordinatorError as error:
            _log.warning("deregister_failed executor=%s error=%s", self.name, error)

    def _tell_state(self, state: LeaseState) -> None:
        """User code hears of it at once, before anything follows from it."""
        if self._on_lease is None:
            return
        try:
            self._on_lease(state)
        except Exception:  # noqa: BLE001 - whatever user code raises must not break what told it
            _log.exception("callback_failed callback=on_lease state=%s", state.value)

    # ----------------------------------------------------------------------------- failures

    def _watch(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.append(task)

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - an executor whose task died must not go on
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the executor: nothing may be acted on from here on."""
        if self._failure is not None:
            return
        self._failure = error
        _log.error("executor_ended executor=%s error=%s", self.name, error)
        self._parts.keeper.close_incarnation()
        self._has_failed.set()
        if self._body is not None and self._is_inside:
            self._has_cancelled_body = True
            self._body.cancel()

    def _raise_failure(self, error: BaseException | None) -> None:
        if self._failure is None:
            return
        if self._has_cancelled_body and self._body is asyncio.current_task():
            left = 0 if self._body is None else self._body.uncancel()
            if left > 0 and isinstance(error, asyncio.CancelledError):
                return  # somebody else cancelled the body too: that goes first
        raise self._failure

    async def _end_tasks(self, *, closes: bool = True) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if closes:
            await self._parts.keeper.close()
            await self._parts.connection.close()


def _plain(on_lease: LeaseCallback | None) -> LeaseCallback | None:
    if on_lease is not None and is_async(on_lease):
        raise TypeError("on_lease must be a plain function: nothing else goes on until it returns")
    return on_lease
