"""One simulated node: a replica as a station of the network, under the eyes of the ledger.

Decides how a node is stepped, asked and dies. Must not know which faults are injected.
"""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from coordinator.consensus import ConsensusError, NotLeader, Overloaded
from coordinator.consensus.codec import decode_message
from coordinator.consensus.library import DISCARDED, MISSING_LEADER, NOT_LEADER, SUCCESS
from coordinator.consensus.replica import Replica
from tests.sim.disk import PowerCut
from tests.sim.ledger import Violation
from tests.sim.machine import Books, numbered

if TYPE_CHECKING:
    from tests.sim.cluster import SimCluster

TICK_S: Final = 0.03
DEFINITE: Final = (NOT_LEADER, MISSING_LEADER, DISCARDED)

Told = Callable[[str, Any], None]
"""("done", result), ("refused", leader) or ("unknown", None): what a caller of a node is told."""


class SimNode:
    """One life of one node."""

    def __init__(self, cluster: "SimCluster", name: str, life: int) -> None:
        self.name = name
        self.life = f"{name}.{life}"
        self.is_alive = True
        self.is_paused = False
        self.machine = Books()
        self._cluster = cluster
        self._is_scheduled = False
        self._stands_aside = False
        self._answers: list[Callable[[], None]] = []
        clock = cluster.clock(name)
        self._tick_s = TICK_S / cluster.rates[name]
        self.replica = Replica(
            cluster.config(name),
            self.machine,
            cluster.compose(name),
            rng=random.Random(f"{cluster.seed} {self.life}"),
            clock=clock,
        )
        self.replica.send_early = self._send
        self._seen_applied = self.replica.engine.applied_index
        cluster.world.after(cluster.world.rng.uniform(0, self._tick_s), self._tick)

    @property
    def is_listening(self) -> bool:
        """Alive and not paused."""
        return self.is_alive and not self.is_paused

    @property
    def is_admitted(self) -> bool:
        """Alive, and not in quarantine."""
        return self.is_alive and not self.replica.is_quarantined

    @property
    def remembers(self) -> bool:
        """Admitted, and it knows of an election: with it gone nobody might."""
        return self.is_admitted and self.replica.engine.term > 0

    def position(self) -> str:
        """Where it stands, for the text of a violation."""
        engine = self.replica.engine
        where = f"term {engine.term} applied {engine.applied_index} of {engine.last_index}"
        return f"{self.life} {where}{'' if self.is_admitted else ' quarantined'}"

    # What the network tells.

    def opened(self, peer: str) -> None:
        """The link is up."""
        self.replica.link_opened(peer)
        self.kick()

    def shut(self, peer: str) -> None:
        """The link is gone."""
        self.replica.link_shut(peer)
        if not self.is_paused:
            self.kick()

    def arrived(self, peer: str, frame: bytes) -> None:
        """A message."""
        try:
            self.replica.receive(peer, decode_message(frame))
        except Violation:
            raise
        except Exception as error:  # the product would end the link
            raise Violation(f"{self.life} cannot digest a message: {error!r}") from error
        self._check()
        self.kick()

    # Steps.

    def _tick(self) -> None:
        if self.is_alive:
            self._cluster.world.after(self._tick_s, self._tick)
            self.kick()

    def kick(self) -> None:
        """A step as soon as what happens now is over."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._cluster.world.after(0.0, self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        if not self.is_listening:
            return
        try:
            self.replica.step()
        except PowerCut:
            self._cluster.lose_power(self.name)
            return
        if self.replica.fatal is not None and self._cluster.has_broken_disk(self.name):
            self._cluster.lose_power(self.name)
            return
        if self.replica.disk_fault is not None:
            self._stand_aside()
            return
        self._stands_aside = False
        self._check()
        self._send(self.replica.take_outbox())
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()

    def _send(self, outbox: dict[str, list[bytes]]) -> None:
        for peer, frames in outbox.items():
            self._cluster.network.send(self.name, peer, frames)

    def _stand_aside(self) -> None:
        """As the event loop does: nobody is answered, and the links end."""
        self._answers = []
        if not self._stands_aside:
            self._stands_aside = True
            for peer in self.replica.peers:
                self._cluster.network.sever(self.name, peer)

    def _check(self) -> None:
        replica, ledger = self.replica, self._cluster.ledger
        engine = replica.engine
        if replica.fatal is not None:
            raise Violation(f"{self.life} ends itself: {replica.fatal}")
        if engine.is_leader:
            ledger.leads(self.life, engine.term)
            if replica.is_ready_leader:
                ledger.is_ready(engine.term, self._cluster.world.now)
        applied = engine.applied_index
        if applied == self._seen_applied:
            return
        if applied > engine.commit_index:
            raise Violation(f"{self.life} applied {applied} above commit {engine.commit_index}")
        first = engine.first_index
        for index in range(max(first, self._seen_applied + 1), applied + 1):
            ledger.applied(self.life, index, engine.log[index - first])
        self._seen_applied = applied
        ledger.holds(self.life, applied, self.machine.digest)

    # What clients ask.

    def submit(self, payload: bytes, told: Told) -> None:
        """Proposes; `told` is called at most once, and never by a life that ended before."""

        def answered(result: Any, error: int) -> None:
            # Told after the step, as the event loop does: a life that ends before says nothing.
            kind = "done" if error == SUCCESS else "refused" if error in DEFINITE else "unknown"
            self._answers.append(lambda: told(kind, result))

        try:
            self.replica.propose(payload, answered, 0)
        except (NotLeader, Overloaded):
            told("refused", self.replica.leader)
        except ConsensusError as error:
            raise Violation(f"{self.life} refuses a small command: {error}") from error
        else:
            self.kick()

    def propose(self, command: int) -> None:
        """A numbered command; what the client is told goes to the ledger."""
        ledger = self._cluster.ledger

        def told(kind: str, result: Any) -> None:
            if kind == "done":
                ledger.acknowledges(command, result)
            elif kind == "refused":
                ledger.refuses(command)

        self.submit(numbered(command), told)

    def hand_over(self, target: str) -> None:
        """Offers the leadership away, if it is held here and the target is caught up."""
        if target in self.replica.peers:
            self.replica.offer_leadership(target)
            self.kick()

    def compact(self) -> None:
        """A snapshot now, whatever is under way."""
        if not self.replica.snapshots.is_making:
            self.replica.engine.forceLogCompaction()
            self.kick()

    def look_up(self, read: Callable[[Books], Any], told: Told) -> None:
        """A client's linearizable question: a confirmed leadership, then the local state."""
        ledger, world = self._cluster.ledger, self._cluster.world
        asked_s, must_hold = world.now, ledger.highest_acknowledged

        def answer(term: int) -> None:
            ledger.confirms(
                self.life,
                term,
                asked_s=asked_s,
                must_hold=must_hold,
                applied=self.replica.engine.applied_index,
            )
            told("done", read(self.machine))

        def confirmed(term: int | None) -> None:
            if term is None:
                self._answers.append(lambda: told("refused", None))
            else:
                self._answers.append(lambda: answer(term))

        self.replica.confirm(confirmed)
        self.kick()
