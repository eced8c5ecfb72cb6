"""The leadership probe: proof, by a majority, of a leadership that held after the question.

Decides when a round begins, who shares it, and when it is won. Must not know the network. One
round is in flight; whoever asks meanwhile shares the next, so a thousand callers cost two rounds.
Who has patience waits a while for others to share it with, and where callers never cease, each
round waits a moment for more of them: see `PACE_S`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from coordinator.consensus.codec import Message

if TYPE_CHECKING:
    from coordinator.consensus.replica import Replica

REPEAT_S: Final = 0.1
"""A round is asked again after this: a broken link may have swallowed it."""

PACE_S: Final = 0.002
"""Between the beginnings of two rounds while many ask. A round costs three nodes about as much as
three heartbeats, and one began for every few of those; whoever asks alone never waits for it."""
MANY: Final = 4
"""Who shared the last round: so many are a stream of callers, not two that met."""

CROWD: Final = 32
"""So many who wait are enough to share a round, whatever their patience."""

Confirmed = Callable[[int | None], None]
"""Called once with the confirmed term, or None when this node does not lead."""


class Probe:
    """Rounds of one replica. Callers are answered in the step that completes their round."""

    def __init__(self, replica: "Replica") -> None:
        self._replica = replica
        self._id = 0
        self._term = 0
        self._acks: set[str] = set()
        self._asked_at_s = 0.0
        self._in_flight: list[Confirmed] = []
        self._next: list[Confirmed] = []
        self._next_at_s = 0.0
        self._wanted_at_s = 0.0

    def ask(self, confirmed: Confirmed, by_s: float) -> None:
        """Joins the next round, which is to begin by then; one in flight began too early."""
        self._wanted_at_s = min(self._wanted_at_s, by_s) if self._next else by_s
        self._next.append(confirmed)

    def step(self) -> None:
        """Begins, repeats or ends rounds; called in each step after the tick."""
        replica = self._replica
        if not (self._next or self._in_flight):
            return
        if self._in_flight and (not replica.engine.is_leader or replica.engine.term != self._term):
            self._finish(None)
        if not replica.engine.is_leader:
            self._in_flight, self._next = self._next, []
            self._finish(None)
            return
        if self._in_flight:
            if replica.now - self._asked_at_s >= REPEAT_S:
                self._send()
            return
        # An entry of the own term was applied: what is confirmed is also complete.
        if self.due_s(replica.now) == 0.0:
            self._id += 1
            self._term = replica.engine.term
            self._acks = set()
            self._in_flight, self._next = self._next, []
            is_stream = len(self._in_flight) >= MANY and replica.peers
            self._next_at_s = replica.now + PACE_S if is_stream else 0.0
            self._send()
            self._settle()

    def due_s(self, now: float) -> float | None:
        """In how long a step is wanted that begins a round; None while none can begin."""
        if self._in_flight or not self._next or not self._replica.is_ready_leader:
            return None  # what ends that brings a step by itself
        if not self._replica.peers or len(self._next) >= CROWD:
            return max(0.0, self._next_at_s - now)
        return max(0.0, max(self._wanted_at_s, self._next_at_s) - now)

    def _send(self) -> None:
        self._asked_at_s = self._replica.now
        for peer in self._replica.peers:
            if peer not in self._acks:
                self._replica.send(peer, {"type": "probe", "id": self._id, "term": self._term})

    def asked(self, peer: str, message: Message) -> None:
        """Acknowledges only its current leader of the current term."""
        engine = self._replica.engine
        if engine.leader == peer and engine.term == message["term"] and not engine.is_leader:
            ack = {"type": "probe_ack", "id": message["id"], "term": message["term"]}
            self._replica.send(peer, ack)

    def acknowledged(self, peer: str, message: Message) -> None:
        """Counts an acknowledgement of the round in flight."""
        if self._in_flight and message["id"] == self._id and message["term"] == self._term:
            self._acks.add(peer)
            self._settle()

    def _settle(self) -> None:
        engine = self._replica.engine
        if not engine.is_leader or engine.term != self._term:
            self._finish(None)
        elif self._replica.is_majority(len(self._acks) + 1):
            self._finish(self._term)

    def _finish(self, term: int | None) -> None:
        answered, self._in_flight = self._in_flight, []
        for confirmed in answered:
            confirmed(term)
