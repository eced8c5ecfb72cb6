"""Processes on virtual time: each has an event loop of its own, and its machine's clock.

Decides when a callback of a process runs. Must not know networks or what the processes do. A
process that is paused runs nothing and forgets nothing: what became due, and what came in
meanwhile, waits for it, as behind a SIGSTOP.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context
from typing import Any, Final, Protocol, TypeVar

from tests.sim.disk import PowerCut
from tests.sim.world import World

T = TypeVar("T")

TIMER_LATE_S: Final = 2e-5
"""A timer never fires early; with less than that the rounding of a skewed clock could make it."""
WALL_MS: Final = 1_780_000_000_000
"""When every run begins."""
TURNS_AT_ONCE_MAX: Final = 20_000
"""Turns of one loop without any time passing: a process that waits for nothing never ends."""

ENDINGS_MAX: Final = 20
"""How often a task is told that the world ends: each `finally` may wait for something again."""


class Machine:
    """Where processes run: a clock that outlives them."""

    def __init__(
        self, world: World, name: str, rate: float, offset_s: float, *, wall_off_s: float
    ) -> None:
        self.world = world
        self._wall_off_s = wall_off_s
        self.name = name
        self.rate = rate
        self.offset_s = offset_s

    def monotonic(self) -> float:
        """The clock of this machine, read without cost."""
        return self.offset_s + self.rate * self.world.now

    def true_s(self, local_s: float) -> float:
        """When this machine's clock says so."""
        return (local_s - self.offset_s) / self.rate

    def wall_ms(self) -> int:
        """Milliseconds since 1970, wrong by half a second."""
        return WALL_MS + int((self.world.now + self._wall_off_s) * 1000)


class Network(Protocol):
    """What a loop needs of whatever connects machines."""

    def listen(
        self, process: "Process", host: str, port: int, came: Callable[[Any], None]
    ) -> asyncio.AbstractServer:
        """Tells of connections from now on; raises OSError when the address is in use."""

    def dial(self, process: "Process", host: str, port: int) -> "asyncio.Future[Any]":
        """The transport of a new connection, or the OSError that it ends with."""


class Process:
    """One life of one program."""

    def __init__(self, machine: Machine, name: str, network: Network) -> None:
        self.machine = machine
        self.world = machine.world
        self.name = name
        self.network = network
        self.is_alive = True
        self.is_paused = False
        self.looked: Callable[[], None] = lambda: None
        """Called after each turn: whoever watches the process looks at it."""
        self.lost_power: Callable[[], None] = self.kill
        self.broke: Callable[[str], None] = lambda _what: None
        """Called when a callback raises: the product has none that may."""
        self.gone: list[Callable[[], None]] = []
        """Called once when the process ends."""
        self._waiting: list[tuple[bool, Callable[..., None], tuple[Any, ...]]] = []
        self._asleep_since_s: float | None = None
        self.loop = VirtualLoop(self)

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Begins a task of this process."""
        return self.loop.create_task(work, name=name)

    def receive(self, call: Callable[..., None], *args: Any, is_io: bool = False) -> None:
        """Something happens to this process: now, when it goes on, or never."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._waiting.append((is_io, call, args))
        else:
            self.loop.run(call, *args)

    def pause(self) -> None:
        """Stands still; what runs now comes to the end of its callback."""
        self.is_paused = True

    def suspend(self) -> None:
        """As `pause`, and the clock of its timers stands still as well: its machine sleeps."""
        if not self.is_paused:
            self.is_paused = True
            self._asleep_since_s = self.world.now

    def resume(self) -> None:
        """Goes on with what waited: what the sockets hold and then the timers, or as it came."""
        if not self.is_paused or not self.is_alive:
            return
        self.is_paused = False
        if self._asleep_since_s is not None:
            self.loop.slept(self.world.now - self._asleep_since_s)
            self._asleep_since_s = None
        waiting, self._waiting = self._waiting, []
        if self.world.rng.random() < 0.5:
            waiting.sort(key=lambda one: not one[0])
        for is_io, call, args in waiting:
            self.receive(call, *args, is_io=is_io)
        self.loop.go_on()

    def kill(self) -> None:
        """The process is gone with its memory; nothing of it runs any more."""
        if self.is_alive:
            self.is_alive = False
            for call in self.gone:
                call()


class VirtualLoop(asyncio.AbstractEventLoop):
    """What asyncio, aiohttp and the product need of a loop, on the clock of one machine."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._machine = process.machine
        self._ready: deque[asyncio.Handle] = deque()
        self._is_scheduled = False
        self._turned_at = -1.0
        self._turns = 0
        self._slept_s = 0.0
        """By the machine's clock; timers know nothing of it."""
        self._dialled: dict[int, Any] = {}
        """Transports of sockets that a library connected by itself, by their file number."""
        self.tasks: dict[asyncio.Task[Any], None] = {}

    # What the world does with it.

    def run(self, call: Callable[..., None], *args: Any) -> None:
        """Calls as this process."""
        asyncio._set_running_loop(self)
        try:
            call(*args)
        except PowerCut:
            self._process.lost_power()
        except Exception as error:  # noqa: BLE001 - told as a fault of the product
            self._process.broke(f"{error!r}")
        finally:
            asyncio._set_running_loop(None)
        if self._process.is_alive:
            self._process.looked()

    def go_on(self) -> None:
        """Schedules a turn if there is something for it."""
        if self._ready and not self._is_scheduled:
            self._is_scheduled = True
            self._world.at(self._world.now, self._process.receive, self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        self._watch_turns()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()  # type: ignore[attr-defined]
            if self._process.is_paused or not self._process.is_alive:
                return
        self.go_on()

    def _watch_turns(self) -> None:
        self._turns = self._turns + 1 if self._turned_at == self._world.now else 0
        self._turned_at = self._world.now
        if self._turns > TURNS_AT_ONCE_MAX:
            self._process.broke("its loop turns without end")
            self._process.kill()

    def slept(self, seconds: float) -> None:
        """The machine slept for so long: every timer comes so much later."""
        self._slept_s += seconds * self._machine.rate

    def _due(self, handle: asyncio.TimerHandle) -> None:
        if handle.cancelled():
            return
        if handle.when() > self.time():
            self._schedule(handle)  # its clock has stood still since it was set
            return
        self._ready.append(handle)
        self._turn()

    # What is asked of a loop.

    def time(self) -> float:
        return self._machine.monotonic() - self._slept_s

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self.go_on()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._schedule(handle)
        return handle

    def _schedule(self, handle: asyncio.TimerHandle) -> None:
        due_s = self._machine.true_s(handle.when() + self._slept_s)
        self._world.at(max(due_s, self._world.now) + TIMER_LATE_S, self._fire, handle)

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled():
            self._process.receive(self._due, handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # it is passed over when its time comes

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.pop(task, None)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """A thread would have its own time: the work is done at once."""
        del executor
        future = self.create_future()
        future.set_result(func(*args))
        return future

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self._process.is_alive

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, PowerCut):
            self._process.lost_power()
        elif self._process.is_alive:
            self._process.broke(f"{context.get('message')}: {error!r}")

    # Sockets.

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **_: Any
    ) -> asyncio.AbstractServer:
        return self.listen(host, port, lambda end: end.begin(protocol_factory()))

    def listen(self, host: str, port: int, came: Callable[[Any], None]) -> asyncio.AbstractServer:
        """For who accepts by himself: told of each end, which is as a socket that was accepted."""
        return self._process.network.listen(self._process, host, port, came)

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], sock: Any, **_: Any
    ) -> tuple[Any, asyncio.Protocol]:
        protocol = protocol_factory()
        sock.begin(protocol)
        return sock, protocol

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """For libraries that connect a socket first: the dialling is done, its transport kept."""
        self._dialled[sock.fileno()] = await self._process.network.dial(self._process, *address)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: Any = None,
        **_: Any,
    ) -> tuple[Any, asyncio.BaseProtocol]:
        if sock is not None:
            transport = self._dialled.pop(sock.fileno())
            sock.close()
        else:
            transport = await self._process.network.dial(self._process, host or "", port or 0)
        protocol = protocol_factory()
        transport.begin(protocol)
        return transport, protocol

    def close_all(self, farewells: Sequence[Coroutine[Any, Any, Any]] = ()) -> None:
        """At the end of the world: every task ends, and none is left to complain about."""
        self._process.is_alive = False
        self._process.looked = lambda: None
        asyncio._set_running_loop(self)
        try:
            for farewell in farewells:
                self.create_task(farewell)
            self._drain()
            for _ in range(ENDINGS_MAX):
                if not self.tasks:
                    break
                for task in list(self.tasks):
                    task.cancel()
                self._drain()
        finally:
            asyncio._set_running_loop(None)

    def _drain(self) -> None:
        while self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()  # type: ignore[attr-defined]
