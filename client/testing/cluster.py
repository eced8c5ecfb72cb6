"""A coordinator in the test's own process, and whatever may go wrong with it.

Decides what a test can order: time, faults, moves. What follows from that is decided by the real
coordinator and the real client kit. It must not know how a test is run.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from client import clock, transport
from client.executor import Executor
from client.keeper import ShardCallback
from client.operator import Operator
from client.router import Router
from client.testing.virtual_time import VirtualTime
from client.testing.wire import Wire, WireTransport

if TYPE_CHECKING:
    from client.testing.solo import SoloNode

# What a test waits for comes within seconds; an hour without it costs some ten seconds of CPU.
TIME_LIMIT_S: Final = 3600.0
# A lease, its clock error and an election, several times over.
UNTIL_S: Final = 60.0
# Long enough that nothing that is under way now is still unfinished, too short for any interval.
SETTLE_S: Final = 0.001
# Nothing moves that the test did not move; and nobody waits for newcomers.
QUIET: Final[Mapping[str, object]] = {"initial_hold_s": 0, "balancer": {"mode": "off"}}
_NOT_BEGUN: Final = "it has not started yet: `await cluster.begin()` first"
_REASON: Final = "ordered by the test"
_numbers: Final = itertools.count(1)


class LocalCluster:
    """A coordinator with one namespace, in this process, on time that the test owns.

        async with LocalCluster(namespace="jobs") as cluster:
            async with MyService(endpoints=cluster.endpoints):
                await cluster.move("orders", to="jobs-2")
                await cluster.advance(30)

    State, leader, API and client kit are the real ones; what is missing is the network and the
    agreement of several nodes. Whatever connects to `endpoints` in this process reaches it: no
    port is opened. Time stands still while anything is ready to run, and jumps when nothing is,
    for everything on the test's event loop: `asyncio.sleep(60)` takes no time, and heartbeats of
    a minute are sent in it. Plain callbacks run in real threads, and are waited for.

    It starts with the first request, or on entering it. By default nothing moves that the test
    does not move (the balancer is off) and shards are placed at once; `policy` says otherwise.
    After `time_limit_s` of the cluster's time a test ends with `TimeLimitReached`.
    """

    def __init__(
        self,
        *,
        namespace: str = "test",
        shard_count: int | None = None,
        policy: Mapping[str, object] | None = None,
        seed: int = 0,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self.namespace: Final = namespace
        self.url: Final = f"http://local-{next(_numbers)}.test"
        self.wire: Final = Wire()
        self._shard_count: Final = shard_count
        self._policy: Final = {**QUIET, **(policy or {})}
        self._seed: Final = seed
        self._time_limit_s: Final = time_limit_s
        self._ids: Final = itertools.count(1)
        self._time: VirtualTime | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._node: SoloNode | None = None
        self._clock: Any = None
        transport.serve_in_process(self.url, self.transport)

    # ------------------------------------------------------------------------ life and time

    async def __aenter__(self) -> Self:
        try:
            await self.begin()
        except BaseException:
            self.abandon()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._node is not None:
                await self._node.stop()
        finally:
            self.abandon()

    async def begin(self) -> None:
        """Start, unless it has been started; this takes over the loop's time."""
        if self._beginning is None:
            self._time = VirtualTime.shared(asyncio.get_running_loop(), self._time_limit_s)
            clock.judge_by(self._time.now)
            self._beginning = asyncio.create_task(self._start())
        if asyncio.current_task() is not self._beginning:
            await asyncio.shield(self._beginning)

    def abandon(self) -> None:
        """Give the time back and be reached no more; for when the loop may be gone already."""
        transport.serve_in_process(self.url, None)
        self.wire.down()
        if self._time is not None:
            if self._time.give_back():
                clock.judge_by(None)
            self._time = None

    async def _start(self) -> None:
        try:
            from client.testing.solo import SoloClock  # noqa: PLC0415 - needs the extra `server`
        except ImportError as error:
            raise ImportError(
                f"a LocalCluster is a real coordinator: install shard-coordinator[server] ({error})"
            ) from error
        self._clock = SoloClock(self.now)
        await self._boot()
        await self.create_namespace(
            self.namespace, shard_count=self._shard_count, policy=self._policy
        )

    async def _boot(self) -> None:
        from client.testing.solo import SoloNode  # noqa: PLC0415 - as above

        self._node = SoloNode(self.url, self._clock, self._rng("node"), self._mint("cluster"))
        await self._node.start()
        self.wire.connect = self._node.connect

    def now(self) -> float:
        """The present moment, in seconds on the loop's clock."""
        return asyncio.get_running_loop().time() if self._time is None else self._time.now()

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, with all that happens in it."""
        await self.begin()
        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """So much time passes at one blow, as when a callback blocks the loop or the process stops.

        What was due then comes late, and everybody in this process finds that out at once.
        """
        if self._time is None:
            raise RuntimeError(_NOT_BEGUN)
        self._time.skip(seconds)

    async def settle(self) -> None:
        """Return when all is done that can be done without waiting."""
        await self.advance(SETTLE_S)

    async def until(self, holds: Callable[[], object], *, within_s: float = UNTIL_S) -> None:
        """Let time pass until it holds; raises AssertionError when it does not in that time."""
        await self.settle()
        ends_at, look_s = self.now() + within_s, SETTLE_S
        while not holds():
            if self.now() >= ends_at:
                raise AssertionError(f"not within {within_s:g} s: {holds}")
            await asyncio.sleep(look_s)
            look_s = min(look_s * 1.5, max(SETTLE_S, within_s / 1000))

    # -------------------------------------------------------------------------------- clients

    @property
    def endpoints(self) -> list[str]:
        """To be given to whatever is tested."""
        return [self.url]

    def transport(self) -> WireTransport:
        """What carries a client here; needed only by those that do not go by `endpoints`."""
        return WireTransport(self.wire, self.begin)

    def executor(
        self, name: str, *, on_start: ShardCallback, on_stop: ShardCallback, **options: Any
    ) -> Executor:
        """An executor of this cluster, to be entered by the test."""
        options.setdefault("host", f"host-{name}")
        return Executor(
            self.endpoints,
            namespace=options.pop("namespace", self.namespace),
            name=name,
            on_start=on_start,
            on_stop=on_stop,
            rng=self._rng(name),
            mint=self._mint(name),
            **options,
        )

    def router(self, **options: Any) -> Router:
        """A router of this cluster, to be entered by the test."""
        namespace = options.pop("namespace", self.namespace)
        rng = self._rng(f"router {next(self._ids)}")  # each has chance of its own, or all are one
        return Router(self.endpoints, namespace=namespace, rng=rng, **options)

    def operator(self, **options: Any) -> Operator:
        """An operator of this cluster."""
        return Operator(self.endpoints, rng=self._rng("operator"), **options)

    async def create_namespace(
        self,
        namespace: str,
        *,
        shard_count: int | None = None,
        policy: Mapping[str, object] | None = None,
    ) -> None:
        """Another namespace: fixed if a count of shards is given, else open."""
        kind: Any = "open" if shard_count is None else "fixed"
        await self.operator().create_namespace(
            namespace, kind=kind, shard_count=shard_count, policy=policy or QUIET
        )
        if self._node is not None:
            await self._node.close_window(namespace)

    # ------------------------------------------------------------------------------ placement

    def owners(self, namespace: str | None = None) -> dict[str, str]:
        """Shard -> executor, as the coordinator has decided up to now."""
        state = None if self._node is None else self._node.state
        found = None if state is None else state.namespaces.get(self._name(namespace))
        shards = {} if found is None else found.shards
        return {key: one.executor for key, one in shards.items() if one.executor is not None}

    async def declare(self, *keys: str, namespace: str | None = None) -> None:
        """Shards of an open namespace exist from now on, and are placed if anybody is there."""
        await self.operator().declare_shards(self._name(namespace), keys)
        await self.settle()

    async def place(
        self,
        placement: Mapping[str, str],
        *,
        is_pinned: bool = False,
        namespace: str | None = None,
    ) -> None:
        """Put shards on executors, which must be there; returns when each has arrived.

        With `is_pinned` they stay there, or come back, whatever happens to load and executors.
        """
        name = self._name(namespace)
        if self._shard_count is None:
            await self.declare(*placement, namespace=name)
        operator = self.operator()
        for key, executor in placement.items():
            if is_pinned:
                await operator.pin_shard(name, key, executor, reason=_REASON)
            elif self.owners(name).get(key) != executor:
                await operator.move_shard(name, key, executor, reason=_REASON)
        await self.until(lambda: placement.items() <= self.owners(name).items())
        await self.settle()

    async def move(self, key: str, to: str, *, namespace: str | None = None) -> None:
        """Move a shard now, by handoff; returns when it is there."""
        name = self._name(namespace)
        await self.operator().move_shard(name, key, to, reason=_REASON)
        await self.until(lambda: self.owners(name).get(key) == to)
        await self.settle()

    # --------------------------------------------------------------------------------- faults

    def drop_heartbeats(self, executor: str) -> None:
        """Heartbeats of this executor are lost until `heal`."""
        self.wire.mute(executor)

    def cut(self, executor: str) -> None:
        """Nothing that this executor says or asks comes through until `heal`."""
        self.wire.cut(executor)

    def heal(self, executor: str) -> None:
        """What this executor says comes through again."""
        self.wire.heal(executor)

    async def expire(self, executor: str, *, namespace: str | None = None) -> None:
        """Lose an executor's heartbeats until its lease is over and its shards are taken away.

        Then it is heard again: it has stopped everything, and joins anew.
        """
        name, node = self._name(namespace), self._node
        record = None if node is None else node.state.namespaces[name].executors.get(executor)
        if node is None or record is None:
            raise LookupError(f"there is no executor {executor!r} in {name!r}")
        incarnation = record.incarnation
        self.drop_heartbeats(executor)
        try:
            await self.until(
                lambda: (executor, incarnation) in node.state.namespaces[name].closed,
                within_s=self._time_limit_s,
            )
        finally:
            self.heal(executor)
        await self.settle()

    def down(self) -> None:
        """No node answers until `up`, nor decides anything. Executors' leases run out meanwhile."""
        if self._node is None:
            raise RuntimeError(_NOT_BEGUN)
        if self.wire.is_up:
            self._node.consensus.resign()
        self.wire.down()

    def up(self) -> None:
        """There is a coordinator again, with its memory, and a leader that gives everyone time."""
        if self._node is not None and not self.wire.is_up:
            self._node.consensus.lead()
        self.wire.is_up = True

    async def elect(self, seconds: float = 1.0) -> None:
        """Lose the leader; another one is there after so long."""
        await self.begin()
        if self._node is not None:
            self._node.consensus.resign()
            await asyncio.sleep(seconds)
            self._node.consensus.lead()
            await self.settle()

    async def forget(self) -> None:
        """Lose all nodes with their memory at once, and start anew under another cluster id.

        The namespace is made again with its policy, and for a lease only claims are taken:
        executors that hold shards keep them.
        """
        await self.begin()
        if self._node is not None:
            await self._node.stop()
        await self._boot()
        kind: Any = "open" if self._shard_count is None else "fixed"
        await self.operator().create_namespace(
            self.namespace, kind=kind, shard_count=self._shard_count, policy=self._policy
        )

    # -------------------------------------------------------------------------------- details

    def _name(self, namespace: str | None) -> str:
        return self.namespace if namespace is None else namespace

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self._seed} {name}")

    def _mint(self, name: str) -> Callable[[], str]:
        return lambda: f"{name}-{next(self._ids)}"
