"""A process that owns and runs shards.

Decides the order of joining and leaving and what ends an executor. The life cycle of shards is
decided in `reconcile`, the lease in `lease`; the tasks are in `heartbeats` and `assignments`.
"""

import asyncio
import logging
import os
import random
import signal
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, Unpack

from client import errors
from client.bodies import ShardBodies, ShardBody
from client.callbacks import end_tasks, is_async, is_being_ended
from client.clock import lease_now_s
from client.connection import Access, Connection
from client.keeper import ShardCallback
from client.lease import LeaseState
from client.leaving import Farewell, checked_return
from client.load import LoadRecorder
from client.name_lock import NameLock
from client.parts import LoadSources, assembled
from client.profile import ExecutorProfile
from client.sampler import LoadsCallback
from client.shard import Shard
from client.signals import BacklogCallback
from client.transport import Transport

_log: Final = logging.getLogger(__name__)

# Starts wait for each other beyond this: a process that was given a thousand shards at once does
# not open a thousand connections at once. Stops have as many turns of their own.
CONCURRENT_CALLBACKS_MAX: Final = 16
# Long enough for an election and a node that is starting; a wrong address shows soon enough.
JOIN_TIMEOUT_S: Final = 30.0
# What process supervisors usually grant before they kill.
LEAVE_TIMEOUT_S: Final = 25.0

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

    Load is what the shards' handles are told (`add_load`, `set_load`), or what `loads` answers when
    it is asked, or what a `recorder` measures: the CPU of this process, split over its shards.
    `backlog` says how much waits; it must not block.

    Who it is it says by `token`, or by what is in `token_file`, read again when that changes; whom
    it believes, and which certificate it shows, is in `tls` (see `Access`).

    `back_within_s` says when leaving that this name comes back so soon (a deploy) that its shards
    are to be kept for it: they are stopped, not handed over. With `lock_dir`, a folder on this
    machine (`$XDG_RUNTIME_DIR/shards`, `/run/NAME`), a restart after a crash gets its shards back
    at once instead of after a lease: the new process proves by a file lock that the former one is
    dead. Off unless given, for two reasons: a file system on which locks do nothing would prove
    what is not so, and work that a process had children do may outlive it. Who has such children
    ends them with their parent.
    """

    # What changes from entering on; an executor is entered once.
    _body: asyncio.Task[object] | None = None
    _failure: BaseException | None = None
    _has_cancelled_body = False
    _is_inside = False
    _is_leaving = False  # and stays so

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        namespace: str,
        name: str,
        on_start: ShardCallback | None = None,
        on_stop: ShardCallback | None = None,
        on_prepare: ShardCallback | None = None,
        host: str | None = None,
        address: str = "",
        zone: str = "",
        capacity: float = 1.0,
        version: str = "",
        labels: Mapping[str, str] | None = None,
        loads: LoadsCallback | None = None,
        recorder: LoadRecorder | None = None,
        backlog: BacklogCallback | None = None,
        on_lease: LeaseCallback | None = None,
        max_concurrent_callbacks: int = CONCURRENT_CALLBACKS_MAX,
        join_timeout_s: float = JOIN_TIMEOUT_S,
        leave_timeout_s: float = LEAVE_TIMEOUT_S,
        back_within_s: float | None = None,
        lock_dir: str | os.PathLike[str] | None = None,
        transport: Transport | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = lease_now_s,
        mint: Callable[[], str] = lambda: uuid.uuid4().hex,
        **access: Unpack[Access],
    ) -> None:
        self._bodies: Final = ShardBodies(on_start, on_stop)
        self._join_timeout_s, self._back_within_s = join_timeout_s, checked_return(back_within_s)
        host = socket.gethostname() if host is None else host
        self._profile: Final = ExecutorProfile(
            namespace, name, host, address, zone, capacity, version, dict(labels or {})
        )
        rng = rng or random.Random()
        self._parts: Final = assembled(
            self._profile,
            self._bodies.callbacks(on_prepare),
            Connection(endpoints, transport=transport, rng=rng, monotonic=clock, **access),
            LoadSources(loads, recorder, backlog),
            clock=clock,
            rng=rng,
            mint=mint,
            lock=None if lock_dir is None else NameLock(lock_dir, namespace, name),
            concurrency_max=max_concurrent_callbacks,
            observe_state=self._tell_state,
            observe_fault=self._fail,
        )
        self._on_lease: Final = _plain(on_lease)
        self._tasks: list[asyncio.Task[None]] = []
        self._has_failed, self._has_left = asyncio.Event(), asyncio.Event()
        self._farewell: Final = Farewell(
            self._profile,
            self._parts,
            clock=clock,
            timeout_s=leave_timeout_s,
            has_failed=self._has_failed,
        )

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

    def owned(self, key: str) -> Shard | None:
        """The handle of a shard that has been started, if it may be acted on right now."""
        return self._parts.keeper.owned(key)

    def running(self) -> dict[str, int]:
        """The shards that were started and have not ended stopping, with their epochs."""
        return self._parts.keeper.machine.running()

    # ------------------------------------------------------------------ joining and leaving

    def shard(self, function: ShardBody) -> ShardBody:
        """Decorate a generator that runs each shard: it starts it, yields, and stops it.

            @executor.shard
            async def run(shard):
                async with connected(shard) as queue:
                    await queue.replay()
                    yield  # it runs: until here was its start, what follows is its stop

        Takes the place of `on_start` and `on_stop`. The whole of it runs in one task, so that it
        may hold task groups open. A plain generator is driven on in threads.
        """
        self._bodies.use(function)
        return function

    async def __aenter__(self) -> Self:
        if self._body is not None:
            raise RuntimeError("an executor is entered once; make another one")
        self._bodies.require()
        if self._parts.lock is not None:
            self._parts.lock.take()
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
            await self._take_leave(self._farewell.stop_all())  # some may have been started already
            raise
        self._is_inside = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave_once(self._back_within_s)
        self._raise_failure(error)

    async def leave(self, *, back_within_s: float | None = None) -> None:
        """Leave now instead of at the end of the body; not from within a callback.

        `back_within_s` takes the place of the executor's own. Leaving twice is leaving once:
        whoever comes second, the end of the body too, waits for the first to be through.
        """
        if not self._is_inside and not self._is_leaving:
            return
        chosen = self._back_within_s if back_within_s is None else checked_return(back_within_s)
        await self._leave_once(chosen)
        if self._failure is not None:
            raise self._failure

    async def _leave_once(self, back_within_s: float | None) -> None:
        if self._is_leaving:
            await self._has_left.wait()
            return
        self._is_inside, self._is_leaving = False, True
        try:
            await self._take_leave(self._farewell.go(back_within_s))
        finally:
            self._has_left.set()

    async def _take_leave(self, stops: Coroutine[object, object, None]) -> None:
        """Stop what runs, deregister, and end the tasks behind it."""
        try:
            await stops
            # Who was superseded or evicted says so too: its successor waits for just this word.
            is_awaited = self._failure is None or isinstance(
                self._failure, errors.IncarnationClosed
            )
            if is_awaited and self._parts.beats.joined.is_set():
                await self._end_tasks(closes=False)
                await self._farewell.deregister()
        finally:
            await self._end_tasks()

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

    def _tell_state(self, state: LeaseState) -> None:
        """User code hears of it at once, before anything follows from it."""
        if self._on_lease is None:
            return
        try:
            self._on_lease(state)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - must not break what told it
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
        except asyncio.CancelledError:
            if is_being_ended():
                raise
            self._fail(RuntimeError("a task of the executor was cancelled by what it called"))

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
        if closes:
            self._parts.keeper.revoke_all()  # at once: who waits below may be cancelled again
        await end_tasks(tasks)
        if not closes:
            return
        is_over = not self._parts.keeper.machine.live_count
        await self._parts.keeper.close()
        await self._parts.connection.close()
        if is_over and self._parts.lock is not None:
            self._parts.lock.close()  # otherwise the process keeps it until it ends


def _plain(on_lease: LeaseCallback | None) -> LeaseCallback | None:
    if on_lease is not None and is_async(on_lease):
        raise TypeError("on_lease must be a plain function: nothing else goes on until it returns")
    return on_lease
