"""The kit for programs without a loop of their own: gunicorn and Celery workers, scripts, threads.

    from client import blocking

    with blocking.Router(endpoints, namespace="jobs") as router:
        router.ready(timeout_s=10)
        owner = router.owner("orders")

The same `Executor`, `Router` and `Operator` as in `client`, with calls that return when they are
done; from any thread, except from a callback that runs on the kit's own loop. Behind them is one
loop in one daemon thread per process. Threads do not survive a fork: what was made before it
raises `ForkedError` in the child, which makes its own. So servers that load an application before
they fork create these objects in the worker (gunicorn: `post_fork`; Celery:
`worker_process_init`), and the parent's go on working.
"""

import asyncio
import concurrent.futures
import functools
import inspect
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

import client
from client.bodies import ShardBody
from client.forks import give_up_in_child
from client.table import Owner

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

# A signal's handler runs at once, but ends no wait for a lock, and may set no event that the thread
# it interrupts is just waiting for: so the main thread looks this often for what it has noted.
_SIGNAL_LOOK_S: Final = 0.1


class ForkedError(RuntimeError):
    """Made before the process forked: the loop behind this object runs in the parent only."""


class _Loop:
    """An event loop in a daemon thread, for as long as the process lives."""

    def __init__(self) -> None:
        self._pid: Final = os.getpid()
        self.is_forked = False  # this is a child's copy, without the thread
        give_up_in_child(self, _Loop._mark)
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(
            target=self._loop.run_forever, name="shard-coordinator", daemon=True
        )
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        """Begin some work on the loop."""
        try:
            self.require_here()
        except ForkedError:
            work.close()
            raise
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this would wait for itself: use `client`, not `client.blocking`")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def require_here(self) -> None:
        """Raise `ForkedError` in a process that was forked since."""
        if self.is_forked:
            raise ForkedError(
                f"made in process {self._pid} and used in process {os.getpid()}: threads do not"
                " survive a fork. Create this object after the fork, in the worker process"
            )

    def _mark(self) -> None:
        self.is_forked = True

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Do some work on the loop and wait for it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the wait was interrupted: so is the work
            raise


_guard: Final = threading.Lock()
_current: _Loop | None = None


def _loop() -> _Loop:
    """The loop of this process."""
    global _current  # noqa: PLW0603 - one per process is what this module is for
    with _guard:
        if _current is None or _current.is_forked:
            _current = _Loop()
        return _current


if hasattr(os, "register_at_fork"):
    # A fork while another thread holds the guard would leave it locked in the child for ever.
    os.register_at_fork(
        before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release
    )


class _Facade(Generic[A]):
    """An object of `client` that lives on this process's loop."""

    def __init__(self, make: Callable[[], A]) -> None:
        self._on: Final = _loop()
        self._inner: Final = self._on.run(_called(make))

    @property
    def _here(self) -> A:
        """What is behind this object. A forked copy of it would answer, but learn nothing more."""
        self._on.require_here()
        return self._inner


async def _next(items: AsyncIterator[R]) -> R:
    return await anext(items)


async def _called(make: Callable[[], R]) -> R:
    return make()


def _waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Facade[Any], P], R]:
    """The same method, returning when it is done. `self` may be a part of an operator: any."""

    def call(self: _Facade[Any], /, *args: P.args, **options: P.kwargs) -> R:
        return self._on.run(method(self._inner, *args, **options))

    functools.update_wrapper(call, method)
    return call


def _paging(
    method: Callable[Concatenate[Any, P], AsyncIterator[R]],
) -> Callable[Concatenate[_Facade[Any], P], Iterator[R]]:
    """The same method, whose items are waited for one by one."""

    def call(self: _Facade[Any], /, *args: P.args, **options: P.kwargs) -> Iterator[R]:
        items = method(self._inner, *args, **options)
        while True:
            try:
                yield self._on.run(_next(items))
            except StopAsyncIteration:
                return

    functools.update_wrapper(call, method)
    return call


def _made_like(
    kind: Callable[P, A],
) -> Callable[[Callable[..., None]], Callable[Concatenate[_Facade[A], P], None]]:
    """Gives an `__init__` the parameters of the class behind it, for `help` and type checkers."""

    def decorated(init: Callable[..., None]) -> Callable[Concatenate[_Facade[A], P], None]:
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        found = inspect.signature(kind)
        found = found.replace(parameters=[itself, *found.parameters.values()])
        init.__signature__ = found  # type: ignore[attr-defined]
        return init

    return decorated


class Operator(_Facade[client.Operator]):
    """`client.Operator`, call by call."""

    @_made_like(client.Operator)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: client.Operator(*args, **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    shards = _paging(client.Operator.shards)
    watch_events = _paging(client.Operator.watch_events)
    close = _waiting(client.Operator.close)
    create_namespace = _waiting(client.Operator.create_namespace)
    namespaces = _waiting(client.Operator.namespaces)
    namespace = _waiting(client.Operator.namespace)
    change_policy = _waiting(client.Operator.change_policy)
    delete_namespace = _waiting(client.Operator.delete_namespace)
    executors = _waiting(client.Operator.executors)
    executor = _waiting(client.Operator.executor)
    drain_executor = _waiting(client.Operator.drain_executor)
    undrain_executor = _waiting(client.Operator.undrain_executor)
    cordon_executor = _waiting(client.Operator.cordon_executor)
    uncordon_executor = _waiting(client.Operator.uncordon_executor)
    evict_executor = _waiting(client.Operator.evict_executor)
    drain_host = _waiting(client.Operator.drain_host)
    undrain_host = _waiting(client.Operator.undrain_host)
    cordon_host = _waiting(client.Operator.cordon_host)
    uncordon_host = _waiting(client.Operator.uncordon_host)
    drains = _waiting(client.Operator.drains)
    drain = _waiting(client.Operator.drain)
    wait_drained = _waiting(client.Operator.wait_drained)
    shard = _waiting(client.Operator.shard)
    drain_shard = _waiting(client.Operator.drain_shard)
    undrain_shard = _waiting(client.Operator.undrain_shard)
    pin_shard = _waiting(client.Operator.pin_shard)
    unpin_shard = _waiting(client.Operator.unpin_shard)
    move_shard = _waiting(client.Operator.move_shard)
    declare_shards = _waiting(client.Operator.declare_shards)
    retire_shard = _waiting(client.Operator.retire_shard)
    balance = _waiting(client.Operator.balance)
    pause_balance = _waiting(client.Operator.pause_balance)
    resume_balance = _waiting(client.Operator.resume_balance)
    balance_plan = _waiting(client.Operator.balance_plan)
    balance_history = _waiting(client.Operator.balance_history)
    decision = _waiting(client.Operator.decision)
    capacity = _waiting(client.Operator.capacity)
    undo = _waiting(client.Operator.undo)
    what_if = _waiting(client.Operator.what_if)
    events = _waiting(client.Operator.events)
    mass_failure = _waiting(client.Operator.mass_failure)
    proceed_mass_failure = _waiting(client.Operator.proceed_mass_failure)
    cluster = _waiting(client.Operator.cluster)
    transfer_leadership = _waiting(client.Operator.transfer_leadership)
    move_member = _waiting(client.Operator.move_member)


class Router(_Facade[client.Router]):
    """`client.Router`. `owner` is a dictionary look-up that asks no loop."""

    @_made_like(client.Router)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: client.Router(*args, **options))

    def __enter__(self) -> Self:
        self._on.run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._on.run(self._inner.__aexit__(kind, error, trace))

    ready = _waiting(client.Router.ready)
    lookup = _waiting(client.Router.lookup)
    misdirected = _waiting(client.Router.misdirected)

    def owner(self, key: str) -> Owner | None:
        """The owner of a shard as of the last answer; None when the table knows none."""
        return self._here.owner(key)

    def owners(self) -> dict[str, Owner]:
        """Every shard that has an owner, in a mapping of its own."""
        return self._on.run(_called(self._inner.owners))

    def is_parked(self, key: str) -> bool:
        """Whether nobody may run the shard until an operator says so."""
        return self._here.is_parked(key)

    def __len__(self) -> int:
        return len(self._here)

    @property
    def is_ready(self) -> bool:
        """Whether a table has been received at all."""
        return self._here.is_ready

    @property
    def is_stale(self) -> bool:
        """Whether the table may be behind: no node has confirmed it lately."""
        return self._here.is_stale

    @property
    def age_s(self) -> float:
        """Seconds since a node confirmed the table; infinite before the first."""
        return self._here.age_s


class Executor(_Facade[client.Executor]):
    """`client.Executor`, with plain functions as callbacks, each run in a thread of its own.

        with blocking.Executor(endpoints, namespace="jobs", name="jobs-1",
                               on_start=start, on_stop=stop) as executor:
            executor.run_until_signalled()

    When the coordinator ends the executor for good, whoever waits in `wait` or
    `run_until_signalled` is woken, and the `with` raises `IncarnationClosed`.
    """

    @_made_like(client.Executor)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: client.Executor(*args, **options))
        self._has_ended: Final = threading.Event()
        self._life: concurrent.futures.Future[None] | None = None
        self._leave: asyncio.Event | None = None

    def __enter__(self) -> Self:
        entered: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._life = self._on.start(self._live(entered))
        self._life.add_done_callback(lambda _: self._has_ended.set())
        try:
            done, _ = concurrent.futures.wait(
                [entered, self._life], return_when=concurrent.futures.FIRST_COMPLETED
            )
        except BaseException:
            self._life.cancel()
            raise
        if entered not in done:
            self._life.result()
        return self

    async def _live(self, entered: concurrent.futures.Future[None]) -> None:
        self._leave = asyncio.Event()
        async with self._inner:
            entered.set_result(None)
            await self._leave.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._life is not None and self._leave is not None:
            self._on.run(_called(self._leave.set))
            self._life.result()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the executor was ended by the coordinator; False when the time is over."""
        self._on.require_here()  # nobody would ever wake us
        return self._has_ended.wait(timeout_s)

    def run_until_signalled(
        self, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    ) -> signal.Signals | None:
        """The first of these signals; None when the executor was ended. In the main thread only."""
        received: list[signal.Signals] = []

        def receive(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a callback
            received.append(signal.Signals(number))

        before = {which: signal.signal(which, receive) for which in signals}
        try:
            while not received and not self._has_ended.wait(_SIGNAL_LOOK_S):
                pass
        finally:
            for which, handler in before.items():
                # None: it was not Python's, and cannot be put back.
                signal.signal(which, signal.SIG_DFL if handler is None else handler)
        return received[0] if received else None

    def shard(self, function: ShardBody) -> ShardBody:
        """Decorate a generator that runs each shard in threads; see `client.Executor.shard`."""
        return self._inner.shard(function)

    def leave(self, *, back_within_s: float | None = None) -> None:
        """Leave now instead of at the end of the body; not from within a callback."""
        self._on.run(self._inner.leave(back_within_s=back_within_s))

    @property
    def name(self) -> str:
        """The stable name of this executor."""
        return self._here.name

    @property
    def incarnation(self) -> str:
        """The incarnation that is current."""
        return self._here.incarnation

    @property
    def lease_state(self) -> client.LeaseState:
        """CONNECTED, SUSPENDED, LOST or CONTINUED."""
        return self._here.lease_state

    @property
    def status(self) -> str:
        """How the coordinator sees this executor: active, cordoned, draining or drained."""
        return self._here.status

    def owned(self, key: str) -> client.Shard | None:
        """The handle of a shard that has been started, if it may be acted on; asks no loop."""
        return self._here.owned(key)

    def running(self) -> dict[str, int]:
        """The shards that were started and have not ended stopping, with their epochs."""
        return self._on.run(_called(self._inner.running))
