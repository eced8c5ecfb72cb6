"""Consensus replicas as stations of the simulated network, under the eyes of the ledger.

Decides how a node is stepped, proposes and dies. Must not know which faults are injected.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgpack

from coordinator.consensus import ConsensusConfig, ConsensusError, NotLeader
from coordinator.consensus.codec import decode_message
from coordinator.consensus.cures.base import Blueprint, Cure
from coordinator.consensus.library import DISCARDED, MISSING_LEADER, NOT_LEADER, SUCCESS
from coordinator.consensus.replica import Replica
from tests.sim.ledger import Ledger, Violation
from tests.sim.network import Network
from tests.sim.world import World

TICK_S: Final = 0.03
DEFINITE: Final = (NOT_LEADER, MISSING_LEADER, DISCARDED)
ANSWER_S: Final = 5.0


class Chain:
    """A state machine whose state tells its whole history: the commands and a hash of them."""

    def __init__(self) -> None:
        self.commands: list[int] = []
        self.digest = b"\0" * 8

    def apply(self, index: int, payload: bytes) -> int:
        """Appends; answers its index."""
        self.digest = hashlib.blake2b(self.digest + payload, digest_size=8).digest()
        self.commands.append(int.from_bytes(payload[:4]))
        return index

    def snapshot(self) -> bytes:
        """All of it."""
        packed: bytes = msgpack.packb((self.commands, self.digest))
        return packed

    def restore(self, data: bytes) -> None:
        """Replaces all of it."""
        self.commands, self.digest = msgpack.unpackb(data)


class SmallParts(Cure):
    """Not a cure: makes batches and chunks small, so that a short run has many of them."""

    def __init__(self, batch_bytes: int, chunk_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._chunk_bytes = chunk_bytes

    def prepare(self, blueprint: Blueprint) -> None:
        """Sets both sizes."""
        blueprint.settings["appendEntriesBatchSizeBytes"] = self._batch_bytes
        blueprint.snapshots.chunk_bytes = self._chunk_bytes


class SimNode:
    """One life of one node."""

    def __init__(self, cluster: "SimCluster", name: str, life: int) -> None:
        self.name = name
        self.life = f"{name}.{life}"
        self.is_alive = True
        self.is_paused = False
        self.machine = Chain()
        self._cluster = cluster
        self._is_scheduled = False
        self._seen_applied = 1
        self._answers: list[Callable[[], None]] = []
        self.in_flight = 0
        self.replica = Replica(
            cluster.config(name),
            self.machine,
            cluster.compose(),
            rng=random.Random(f"{cluster.seed} {self.life}"),
            clock=cluster.world.read,
        )
        cluster.world.after(cluster.world.rng.uniform(0, TICK_S), self._tick)

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

    def opened(self, peer: str) -> None:
        """The link is up."""
        self.replica.link_opened(peer)
        self._kick()

    def shut(self, peer: str) -> None:
        """The link is gone."""
        self.replica.link_shut(peer)
        if not self.is_paused:
            self._kick()

    def arrived(self, peer: str, frame: bytes) -> None:
        """A message."""
        self.replica.receive(peer, decode_message(frame))
        self._check()
        self._kick()

    def _tick(self) -> None:
        if self.is_alive:
            self._cluster.world.after(TICK_S, self._tick)
            self._kick()

    def _kick(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._cluster.world.after(0.0, self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        if not self.is_listening:
            return
        self.replica.step()
        self._check()
        for peer, frames in self.replica.take_outbox().items():
            self._cluster.network.send(self.name, peer, frames)
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()

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

    def propose(self, command: int) -> None:
        """A client's command; what the client is told goes to the ledger."""
        ledger = self._cluster.ledger
        payload = command.to_bytes(4) + b"." * 36

        def answered(result: Any, error: int) -> None:
            # Told after the step, as the event loop does: a life that ends before says nothing.
            self._answers.append(lambda: self._tell(command, result, error))

        try:
            self.replica.propose(payload, answered, 0)
        except NotLeader:
            ledger.refuses(command)
        except ConsensusError as error:
            raise Violation(f"{self.life} refuses a small command: {error}") from error
        else:
            self._kick()

    def _tell(self, command: int, result: Any, error: int) -> None:
        if error == SUCCESS:
            self._cluster.ledger.acknowledges(command, result)
        elif error in DEFINITE:
            self._cluster.ledger.refuses(command)

    def hand_over(self, target: str) -> None:
        """Offers the leadership away, if it is held here and the target is caught up."""
        if target in self.replica.peers:
            self.replica.offer_leadership(target)
            self._kick()

    def confirm(self) -> None:
        """A client's linearizable question."""
        ledger, world = self._cluster.ledger, self._cluster.world
        asked_s, must_hold = world.now, ledger.highest_acknowledged

        def confirmed(term: int | None) -> None:
            if term is not None:
                ledger.confirms(
                    self.life,
                    term,
                    asked_s=asked_s,
                    must_hold=must_hold,
                    applied=self.replica.engine.applied_index,
                )

        self.replica.confirm(confirmed)
        self._kick()


class SimCluster:
    """Three nodes, their network and their ledger."""

    def __init__(
        self,
        seed: str,
        *,
        cures: Sequence[type[Cure]],
        delay_s: tuple[float, float],
        batch_bytes: int,
        chunk_bytes: int,
        compaction_entries: int,
        size: int = 3,
    ) -> None:
        self.seed = seed
        self.world = World(seed)
        self.network = Network(self.world, delay_s)
        self.ledger = Ledger()
        self.names = [f"n{number + 1}" for number in range(size)]
        self.nodes: dict[str, SimNode] = {}
        self._cures = cures
        self._parts = (batch_bytes, chunk_bytes)
        self._compaction_entries = compaction_entries
        self._lives = dict.fromkeys(self.names, 0)

    def config(self, name: str) -> ConsensusConfig:
        """The settings of one node; addresses are never used."""
        return ConsensusConfig(
            name=name,
            peers={peer: f"{peer}:1" for peer in self.names},
            api_url=f"http://{name}",
            compaction_min_entries=self._compaction_entries,
        )

    def compose(self) -> list[Cure]:
        """The cures of this run, and small parts."""
        return [*[cure() for cure in self._cures], SmallParts(*self._parts)]

    def boot(self, name: str) -> None:
        """A process with empty memory."""
        self._lives[name] += 1
        node = SimNode(self, name, self._lives[name])
        self.nodes[name] = self.network.stations[name] = node

    def kill(self, name: str) -> None:
        """The process is gone, and its memory."""
        node = self.nodes.pop(name)
        node.is_alive = False
        self.network.forget(name)
        del self.network.stations[name]

    def pause(self, name: str) -> None:
        """The process stands still."""
        self.nodes[name].is_paused = True

    def resume(self, name: str) -> None:
        """The process goes on, with what waited in its sockets."""
        node = self.nodes.get(name)
        if node is not None and node.is_paused:
            node.is_paused = False
            self.network.resumed(name)
            node._kick()

    def is_settled(self) -> bool:
        """Everyone is admitted, follows one leader, and has applied the same."""
        nodes = list(self.nodes.values())
        if len(nodes) < len(self.names) or not all(node.is_admitted for node in nodes):
            return False
        engines = [node.replica.engine for node in nodes]
        return (
            sum(node.replica.is_ready_leader for node in nodes) == 1
            and len({engine.applied_index for engine in engines}) == 1
            and len({engine.last_index for engine in engines}) == 1
        )
