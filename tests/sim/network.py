"""A seeded network with TCP's manners: order within a connection, loss only with its end.

Decides when a message arrives, when each side notices that a connection ended, and when a pair
is connected again. Must not know what the messages say. Where asked it is worse than TCP: what a
broken connection swallowed comes late on the next one, and some messages come twice.
"""

from dataclasses import dataclass, field
from typing import Protocol

from tests.sim.world import World

SILENT_S = 1.0
"""A side that heard nothing for this long ends the connection, as the real links do."""
WATCH_S = 0.1
NOTICE_S = 0.05
"""Within this time each side notices a broken connection on its own."""
RETRANSMIT_S = 0.2
"""A lost segment comes again after this, then twice this: all behind it waits, as in TCP."""
RETRANSMITS_MAX = 4
STRAY_S = 2.0
"""How late a message may come that no TCP would still deliver."""


class Station(Protocol):
    """What the network needs of a node."""

    name: str

    @property
    def is_listening(self) -> bool:
        """Alive and not paused."""

    @property
    def is_alive(self) -> bool:
        """Its process exists; it may be paused."""

    def opened(self, peer: str) -> None:
        """The link is up."""

    def shut(self, peer: str) -> None:
        """The link is gone."""

    def arrived(self, peer: str, frame: bytes) -> None:
        """A message."""


@dataclass(eq=False)
class Connection:
    """One TCP connection; each side has its own idea of whether it is open."""

    sides: tuple[str, str]
    open: set[str] = field(default_factory=set)
    is_broken: bool = False
    last_s: dict[str, float] = field(default_factory=dict)
    """Latest arrival of what this side sent: nothing overtakes."""
    held: dict[str, list[bytes | None]] = field(default_factory=dict)
    """Sent by this side, stuck behind a block or a pause; None is the end of the connection."""
    heard_s: dict[str, float] = field(default_factory=dict)
    ends: dict[str, Station] = field(default_factory=dict)
    """The two lives that it connected."""

    def other(self, side: str) -> str:
        """The side opposite."""
        return self.sides[1] if side == self.sides[0] else self.sides[0]


class Network:
    """All pairs of stations. Delays are drawn from `delay_s`, a pair of bounds.

    `stray_ratio` of the messages come once more, or late, between the same two lives.
    """

    def __init__(
        self, world: World, delay_s: tuple[float, float], stray_ratio: float = 0.0
    ) -> None:
        self.world = world
        self.delay_s = delay_s
        self.stray_ratio = stray_ratio
        self.losses: dict[tuple[str, str], float] = {}
        self.stations: dict[str, Station] = {}
        self.blocked: set[tuple[str, str]] = set()
        self.connections: dict[frozenset[str], Connection] = {}
        self._links: dict[tuple[str, str], Connection] = {}

    def start(self, names: list[str]) -> None:
        """Begins to dial and to watch between these names."""
        for one in names:
            for other in names:
                if one > other:
                    self.world.after(self._jitter(), self._dial, one, other)
            self.world.after(WATCH_S, self._watch, one)

    def _delay(self) -> float:
        return self.world.rng.uniform(*self.delay_s)

    def _jitter(self) -> float:
        return self.world.rng.uniform(0.02, 0.3)

    # Connections.

    def _dial(self, dialler: str, acceptor: str) -> None:
        self.world.after(self._jitter(), self._dial, dialler, acceptor)
        if (dialler, acceptor) in self._links or self._is_cut(dialler, acceptor):
            return
        ends = (self.stations.get(dialler), self.stations.get(acceptor))
        if not all(end is not None and end.is_listening for end in ends):
            return
        connection = Connection((dialler, acceptor))
        self.connections[frozenset(connection.sides)] = connection
        self._open(connection, acceptor)
        delay_s = self._delay()
        connection.last_s[acceptor] = self.world.now + delay_s
        self.world.after(delay_s, self._open, connection, dialler)

    def _is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self.blocked or (other, one) in self.blocked

    def _open(self, connection: Connection, side: str) -> None:
        station = self.stations.get(side)
        peer = connection.other(side)
        if connection.is_broken or station is None or not station.is_listening:
            self._end(connection)
            return
        former = self._links.get((side, peer))
        if former is not None:
            self._close(former, side)
        connection.open.add(side)
        connection.ends[side] = station
        connection.heard_s[side] = self.world.now
        self._links[side, peer] = connection
        station.opened(peer)

    def _close(self, connection: Connection, side: str) -> None:
        """This side ends it; the other will read what was sent, then the end."""
        if side not in connection.open:
            return
        peer = connection.other(side)
        connection.open.discard(side)
        if self._links.get((side, peer)) is connection:
            del self._links[side, peer]
            station = self.stations.get(side)
            if station is not None and station.is_alive:
                station.shut(peer)
        self._post(connection, side, None)

    def _end(self, connection: Connection) -> None:
        connection.is_broken = True
        for side in connection.sides:
            self.world.after(self.world.rng.uniform(0.0, NOTICE_S), self._notice, connection, side)

    def _notice(self, connection: Connection, side: str) -> None:
        station = self.stations.get(side)
        if station is not None and station.is_alive and not station.is_listening:
            connection.held.setdefault(connection.other(side), []).append(None)
        else:
            self._close(connection, side)

    def sever(self, one: str, other: str) -> None:
        """Breaks the connection of a pair with all that is in flight."""
        connection = self.connections.get(frozenset((one, other)))
        if connection is not None:
            self._end(connection)

    def forget(self, name: str) -> None:
        """The process of this name is gone: its peers read the end of their connections."""
        for (side, _), connection in list(self._links.items()):
            if side == name:
                connection.open.discard(name)
                connection.held[connection.other(name)] = []
                del self._links[side, connection.other(name)]
                self._post(connection, name, None)

    def _watch(self, name: str) -> None:
        self.world.after(WATCH_S, self._watch, name)
        station = self.stations.get(name)
        if station is None or not station.is_listening:
            return
        for (side, peer), connection in list(self._links.items()):
            if side != name:
                continue
            sender = self.stations.get(peer)
            pings = sender is not None and sender.is_listening and peer in connection.open
            if pings and (peer, name) not in self.blocked and not connection.is_broken:
                connection.heard_s[name] = self.world.now
            elif self.world.now - connection.heard_s[name] > SILENT_S:
                self._close(connection, name)

    def resumed(self, name: str) -> None:
        """A paused station reads what waited, before it judges anyone's silence."""
        for (side, peer), connection in list(self._links.items()):
            if side == name:
                connection.heard_s[name] = self.world.now
                self._release(connection, peer)

    # Messages.

    def send(self, sender: str, receiver: str, frames: list[bytes]) -> None:
        """Sends on the link the sender knows of, if there is one."""
        connection = self._links.get((sender, receiver))
        if connection is not None:
            for frame in frames:
                self._post(connection, sender, frame)

    def _post(self, connection: Connection, sender: str, frame: bytes | None) -> None:
        delay_s = self._delay() + self._retransmissions(sender, connection.other(sender))
        arrival_s = max(self.world.now + delay_s, connection.last_s.get(sender, 0.0))
        connection.last_s[sender] = arrival_s
        self.world.at(arrival_s, self._arrive, connection, sender, frame)

    def _retransmissions(self, sender: str, receiver: str) -> float:
        ratio = self.losses.get((sender, receiver))
        if ratio is None:
            return 0.0
        wait_s, total_s = RETRANSMIT_S, 0.0
        for _ in range(RETRANSMITS_MAX):
            if self.world.rng.random() >= ratio:
                break
            total_s += wait_s
            wait_s *= 2
        return total_s

    def _arrive(self, connection: Connection, sender: str, frame: bytes | None) -> None:
        receiver = connection.other(sender)
        if frame is not None and self.stray_ratio and self.world.rng.random() < self.stray_ratio:
            late_s = self.world.rng.uniform(0.0, STRAY_S)
            self.world.after(late_s, self._stray, connection, sender, frame)
        if connection.is_broken or receiver not in connection.open:
            return
        station = self.stations.get(receiver)
        if station is None or not station.is_alive:
            return
        held = connection.held.setdefault(sender, [])
        if held or (sender, receiver) in self.blocked or not station.is_listening:
            held.append(frame)
        else:
            self._hand_over(connection, sender, frame)

    def _stray(self, former: Connection, sender: str, frame: bytes) -> None:
        """Comes on whatever connects the same two lives by now."""
        receiver = former.other(sender)
        connection = self._links.get((receiver, sender))
        if connection is None or connection.is_broken or receiver not in connection.open:
            return
        is_same = all(
            connection.ends.get(side) is former.ends.get(side) is self.stations.get(side)
            for side in former.sides
        )
        if is_same and self.stations[receiver].is_listening:
            self.stations[receiver].arrived(sender, frame)

    def _hand_over(self, connection: Connection, sender: str, frame: bytes | None) -> None:
        receiver = connection.other(sender)
        if frame is None:
            self._close(connection, receiver)
        else:
            connection.heard_s[receiver] = self.world.now
            self.stations[receiver].arrived(sender, frame)

    def _release(self, connection: Connection, sender: str) -> None:
        receiver = connection.other(sender)
        station = self.stations.get(receiver)
        held = connection.held.get(sender, [])
        if (sender, receiver) in self.blocked or station is None or not station.is_listening:
            return
        connection.held[sender] = []
        for frame in held:
            if receiver in connection.open and (frame is None or not connection.is_broken):
                self._hand_over(connection, sender, frame)

    # Faults.

    def lose(self, sender: str, receiver: str, ratio: float) -> None:
        """This share of what the sender sends must be sent again; 0 ends it."""
        if ratio:
            self.losses[sender, receiver] = ratio
        else:
            self.losses.pop((sender, receiver), None)

    def block(self, sender: str, receiver: str) -> None:
        """Nothing of the sender reaches the receiver; it waits, as TCP's segments do."""
        self.blocked.add((sender, receiver))

    def unblock(self, sender: str, receiver: str) -> None:
        """What waited arrives."""
        self.blocked.discard((sender, receiver))
        connection = self._links.get((receiver, sender))
        if connection is not None:
            self._release(connection, sender)
