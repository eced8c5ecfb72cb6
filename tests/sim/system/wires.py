"""TCP between machines, in memory: order within a connection, loss only with its end.

Decides when bytes arrive, and when each side learns that a connection ended. Must not know what
the bytes say. A kernel outlives a pause of its process: it takes connections and bytes meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Self

from tests.sim.network import RETRANSMIT_S, RETRANSMITS_MAX
from tests.sim.system.loop import Machine, Process
from tests.sim.world import World

SYN_AGAIN_S: Final = 0.3
"""A connection request into a cut wire is repeated; whoever waits gives up by itself."""
RESET: Final = "reset"
END: Final = "end"


class _Listening(asyncio.AbstractServer):
    """One address in use."""

    sockets: tuple[Any, ...] = ()

    def __init__(self, wires: "Wires", address: tuple[str, int], process: Process) -> None:
        self._wires = wires
        self._address = address
        self.process = process

    def close(self) -> None:
        if self._wires.listening.get(self._address, (None, None))[0] is self:
            del self._wires.listening[self._address]

    async def start_serving(self) -> None:
        """It has been taking connections since there is one."""

    async def wait_closed(self) -> None:
        pass


class End(asyncio.Transport):
    """One side of a connection, as its process has it."""

    def __init__(self, wires: "Wires", process: Process, peer: Machine) -> None:
        super().__init__()
        self._wires = wires
        self.process = process
        self.peer_machine = peer
        self.other: End
        self.protocol: asyncio.Protocol | None = None
        self.is_over = False
        """This side has closed it, or was told that it ended."""
        self.is_broken = False
        """Nothing of what this side sends arrives any more."""
        self.last_s = 0.0
        self.stuck: deque[Any] = deque()
        """Sent by this side, behind a cut."""
        self._early: list[Any] = []
        """Came before there was a protocol to take it, or while it asked for nothing."""
        self._is_reading = True

    # What an accepted socket does.

    def send(self, data: bytes) -> None:
        """Before anybody took it up."""
        self.write(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The process takes it up."""
        self.protocol = protocol  # type: ignore[assignment]
        protocol.connection_made(self)
        self._take_early()

    def _take_early(self) -> None:
        early, self._early = self._early, []
        for item in early:
            self.take(item)

    # What the wires bring.

    def take(self, item: Any) -> None:
        """In the process: bytes, or the end."""
        if self.is_over:
            return
        if self.protocol is None or (not self._is_reading and item is not RESET):
            self._early.append(item)
        elif isinstance(item, bytes):
            self.protocol.data_received(item)
        elif item is END:
            self.protocol.eof_received()
            if not self.is_over:
                self.is_over = True
                self._wires.post(self, END)
                self.protocol.connection_lost(None)
        else:
            self.is_over = True
            self.protocol.connection_lost(ConnectionResetError("the connection was reset"))

    # What a transport does.

    def write(self, data: Any) -> None:
        if not self.is_over and data:
            self._wires.post(self, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _leave(self, item: str) -> None:
        if not self.is_over:
            self.is_over = True
            self._wires.post(self, item)
            if self.protocol is not None:
                self.process.loop.call_soon(self.protocol.connection_lost, None)

    def close(self) -> None:
        self._leave(END)

    def abort(self) -> None:
        self._leave(RESET)

    def is_closing(self) -> bool:
        return self.is_over

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer_machine.name, 1) if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol  # type: ignore[assignment]

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self.protocol is not None
        return self.protocol

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.process.loop.call_soon(self._take_early)

    def is_reading(self) -> bool:
        return self._is_reading

    def get_write_buffer_size(self) -> int:
        return sum(len(item) for item in self.stuck if isinstance(item, bytes))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Wires:
    """All connections. A direction between two machines can be cut, lossy or slow."""

    def __init__(self, world: World, delay_s: tuple[float, float]) -> None:
        self.world = world
        self.delay_s = delay_s
        self.hosts: dict[str, Machine] = {}
        """Address -> machine."""
        self.blocked: dict[tuple[str, str], int] = {}
        """(from, to) -> how many cuts lie on it."""
        self.losses: dict[tuple[str, str], float] = {}
        self.slow: dict[tuple[str, str], float] = {}
        """(from, to) -> the longest additional delay."""
        self.swallowed: set[tuple[str, str]] = set()
        """(from, to): the connection breaks with what is sent."""
        self.listening: dict[tuple[str, int], tuple[_Listening, Callable[[End], None]]] = {}
        self._ends: dict[Process, dict[End, None]] = {}

    # What a loop asks for.

    def listen(
        self, process: Process, host: str, port: int, came: Callable[[Any], None]
    ) -> asyncio.AbstractServer:
        """Takes connections from now on, and tells of each end."""
        if (host, port) in self.listening:
            raise OSError(98, "address already in use")
        server = _Listening(self, (host, port), process)
        self.listening[host, port] = (server, came)
        process.gone.append(server.close)
        return server

    def dial(self, process: Process, host: str, port: int) -> "asyncio.Future[Any]":
        """The transport, or ConnectionRefusedError; never, while the wire is cut."""
        future: asyncio.Future[Any] = process.loop.create_future()
        self._knock(process, (host, port), future)
        return future

    def _knock(
        self, process: Process, address: tuple[str, int], future: "asyncio.Future[Any]"
    ) -> None:
        if future.done() or not process.is_alive:
            return
        here, there = process.machine.name, self.hosts[address[0]].name
        if (here, there) in self.blocked or (there, here) in self.blocked:
            self.world.after(SYN_AGAIN_S, self._knock, process, address, future)
        else:
            self.world.after(self._transit_s(here, there), self._knocked, process, address, future)

    def _knocked(
        self, process: Process, address: tuple[str, int], future: "asyncio.Future[Any]"
    ) -> None:
        machine = self.hosts[address[0]]
        back_s = self._transit_s(machine.name, process.machine.name)
        found = self.listening.get(address)
        if found is None:
            refused = ConnectionRefusedError(111, "connection refused")
            self.world.after(back_s, process.receive, _settle, future, None, refused)
            return
        server, came = found
        mine, theirs = End(self, process, machine), End(self, server.process, process.machine)
        mine.other, theirs.other = theirs, mine
        for end in (mine, theirs):
            if end.process not in self._ends:
                self._ends[end.process] = {}
                end.process.gone.append(lambda gone=end.process: self._process_gone(gone))
            self._ends[end.process][end] = None
        theirs.last_s = self.world.now + back_s
        server.process.receive(came, theirs, is_io=True)
        self.world.at(theirs.last_s, self._connected, mine, future)

    def _connected(self, end: End, future: "asyncio.Future[Any]") -> None:
        if future.done():
            end.is_over = True
            self.post(end, RESET)
        else:
            end.process.receive(_settle, future, end, None, is_io=True)

    # Bytes under way.

    def _transit_s(self, here: str, there: str) -> float:
        rng = self.world.rng
        delay_s = rng.uniform(*self.delay_s)
        if (slow_s := self.slow.get((here, there))) is not None:
            delay_s += rng.uniform(0.0, slow_s)
        if (ratio := self.losses.get((here, there))) is not None:
            wait_s = RETRANSMIT_S
            for _ in range(RETRANSMITS_MAX):
                if rng.random() >= ratio:
                    break
                delay_s += wait_s
                wait_s *= 2
        return delay_s

    def post(self, end: End, item: Any) -> None:
        """Sends after all that this side sent before."""
        if end.is_broken:
            return
        here, there = end.process.machine.name, end.peer_machine.name
        end.last_s = max(self.world.now + self._transit_s(here, there), end.last_s)
        self.world.at(end.last_s, self._arrive, end, item)

    def _arrive(self, end: End, item: Any) -> None:
        here, there = end.process.machine.name, end.peer_machine.name
        if end.is_broken:
            return
        if end.stuck or (here, there) in self.blocked:
            end.stuck.append(item)
        elif (here, there) in self.swallowed and isinstance(item, bytes):
            self.sever(end)
        else:
            self._hand_over(end.other, item)

    def _hand_over(self, end: End, item: Any) -> None:
        if item in (RESET, END):
            self._ends.get(end.process, {}).pop(end, None)
        if not end.process.is_alive or (end.is_over and item not in (RESET, END)):
            # The kernel answers for whom is gone; a machine without power does when it is back.
            if isinstance(item, bytes) and not end.other.is_over:
                self.world.after(
                    self._transit_s(end.process.machine.name, end.peer_machine.name),
                    end.other.process.receive,
                    end.other.take,
                    RESET,
                )
            return
        end.process.receive(end.take, item, is_io=True)

    def sever(self, end: End) -> None:
        """Breaks one connection with all that is in flight; both sides notice soon."""
        for side in (end, end.other):
            side.is_broken = True
            side.stuck.clear()
            self._ends.get(side.process, {}).pop(side, None)
            self.world.after(
                self.world.rng.uniform(0.0, 0.05), side.process.receive, side.take, RESET
            )

    def sever_between(self, one: str, other: str) -> None:
        """Breaks all connections of two machines."""
        for ends in list(self._ends.values()):
            for end in list(ends):
                if {end.process.machine.name, end.peer_machine.name} == {one, other}:
                    self.sever(end)

    def _process_gone(self, process: Process) -> None:
        for end in self._ends.pop(process, {}):
            if not end.is_over:
                end.is_over = True
                self.post(end, RESET)

    # Faults.

    def block(self, here: str, there: str) -> None:
        """Nothing of one machine reaches the other; it waits, as TCP's segments do."""
        self.blocked[here, there] = self.blocked.get((here, there), 0) + 1

    def unblock(self, here: str, there: str) -> None:
        """One cut less; with the last one what waited arrives."""
        cuts = self.blocked.pop((here, there), 0)
        if cuts > 1:
            self.blocked[here, there] = cuts - 1
            return
        for ends in list(self._ends.values()):
            for end in list(ends):
                for side in (end, end.other):
                    if (side.process.machine.name, side.peer_machine.name) == (here, there):
                        self._release(side)

    def _release(self, end: End) -> None:
        while end.stuck and not end.is_broken:
            self._hand_over(end.other, end.stuck.popleft())

    def heal(self) -> None:
        """Every wire is whole again."""
        for here, there in list(self.blocked):
            self.blocked[here, there] = 1
            self.unblock(here, there)
        self.losses.clear()
        self.slow.clear()
        self.swallowed.clear()


def _settle(future: "asyncio.Future[Any]", end: End | None, error: Exception | None) -> None:
    if future.done():
        if end is not None:
            end.abort()
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(end)
