"""One member of the Raft cluster without a network: messages in, messages out, time as given.

Composes the library with the cures and decides in which order they see a message and a step.
Must not know sockets, tasks or the event loop: the simulator drives it with a virtual clock.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from coordinator.consensus import library
from coordinator.consensus.codec import Message, pack
from coordinator.consensus.contract import (
    ConsensusConfig,
    NotLeader,
    Overloaded,
    SlicedMachine,
    StateMachine,
    TooLarge,
)
from coordinator.consensus.cures.base import Blueprint, Cure, by_type, overrides
from coordinator.consensus.disk import DiskLost, DiskRefused
from coordinator.consensus.engine import Engine
from coordinator.consensus.library import Member, Port, logger
from coordinator.consensus.memory_log import MemoryLog
from coordinator.consensus.probe import Confirmed, Probe
from coordinator.consensus.snapshots import SnapshotStore, Whole

LIBRARY_MESSAGES: Final = frozenset(
    {
        "append_entries",
        "next_node_idx",
        "request_vote",
        "response_vote",
        "timeout_now",
        "apply_command",
        "apply_command_response",
    }
)
TICK_FAILURES_MAX: Final = 3
TICK_FAILURES_S: Final = 10.0
"""One failed tick may be a passing fault; three within this time are a node that is deaf."""
SHARE_INTERVAL_S: Final = 0.005
"""A share of a snapshot is 2 MiB, so this allows 400 MB/s: more than a link carries."""
DISK_RETRY_S: Final = 0.5
"""How soon a full disk is tried again; nothing is lost meanwhile, and nothing goes on."""
NEVER_S: Final = 1e9
"""Compaction goes by size alone: an idle log need not be compacted."""


class Replica:
    """The member `config.name`. `outbox` holds encoded messages per peer until they are taken."""

    owes_appends = False
    """Leader: some peer lacks more than the last step might send it."""

    def __init__(
        self,
        config: ConsensusConfig,
        machine: StateMachine | SlicedMachine,
        cures: Sequence[Cure],
        *,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self.name = config.name
        self.peers = tuple(sorted(set(config.peers) - {config.name}))
        self.rng = rng
        self.now = self.stepped_at = clock()
        self.links: set[str] = set()
        self.is_quarantined = False
        self.fatal: str | None = None
        self.disk_fault: str | None = None
        self.distrusted: set[str] = set()
        self.outbox: dict[str, list[bytes]] = {}
        self.send_early: Callable[[dict[str, list[bytes]]], None] | None = None
        self._must_wait: set[str] = set()
        self.cures = tuple(cures)
        self._clock = clock
        # The very objects the library keys its tables with: a look-up ends at their identity.
        self.members = {peer: Member(peer) for peer in self.peers}
        self._failures: deque[float] = deque(maxlen=TICK_FAILURES_MAX)
        self._heard_at_s: float | None = None
        self._share_next_s = 0.0
        self._disk_next_s = 0.0
        self._port = Port(self._from_library)
        blueprint = self._draw(machine)
        self.snapshots = blueprint.snapshots
        self.entry_bytes_max = blueprint.entry_bytes_max
        self.in_flight_max = blueprint.in_flight_max
        self.log_bytes_max = blueprint.log_bytes_max
        self.link_policy = blueprint.links
        self.is_congested: Callable[[str], bool] = lambda _peer: False
        library.use_clock(clock)
        self.engine = Engine(
            self.name,
            self.members.values(),
            settings=blueprint.settings,
            port=self._port,
            log=blueprint.log,
            snapshots=blueprint.snapshots,
            rng=rng,
            apply=blueprint.apply,
            may_stand=self._may_stand,
        )
        self.probe = Probe(self)
        for cure in self.cures:
            cure.attach(self)
        self._incoming = by_type(cure.incoming() for cure in self.cures)
        self._outgoing = by_type(cure.outgoing() for cure in self.cures)
        self._delivered = by_type(cure.delivered() for cure in self.cures)
        self._outgoing_any = self._outgoing.pop("*", ())
        # Most cures have nothing to do in a step; a step is the hot path.
        self._before_step = [c.before_step for c in self.cures if overrides(c, "before_step")]
        self._after_step = [c.after_step for c in self.cures if overrides(c, "after_step")]

    def _draw(self, machine: StateMachine | SlicedMachine) -> Blueprint:
        config = self.config
        shortest, longest = config.election_timeout_s
        settings: dict[str, Any] = {
            "autoTick": False,
            "appendEntriesUseBatch": True,  # each step replicates once, by hand
            "dynamicMembershipChange": True,  # until `membership-gate` shuts it
            "appendEntriesPeriod": config.ping_interval_s,
            "raftMinTimeout": shortest,
            "raftMaxTimeout": longest,
            "connectionTimeout": longest,  # unused: links are not the library's
            "logCompactionMinEntries": config.compaction_min_entries,
            "logCompactionMinTime": NEVER_S,
            "useFork": False,
            "tcp_keepalive": None,
        }
        sliced = machine if isinstance(machine, SlicedMachine) else Whole(machine)
        snapshots = SnapshotStore(sliced)
        snapshots.clock = lambda: self.now
        snapshots.on_unknown = self.fail
        blueprint = Blueprint(config, settings, MemoryLog(), snapshots, machine.apply)
        for cure in self.cures:
            cure.prepare(blueprint)
        return blueprint

    # What comes in.

    def link_opened(self, peer: str) -> None:
        """A link to this member is up; nothing sent on a former one will arrive any more."""
        self.look_at_clock()
        self.links.add(peer)
        self._port.open(self.members[peer])
        for cure in self.cures:
            cure.link_opened(peer)

    def link_shut(self, peer: str) -> None:
        """The link to this member is gone, with what was in it."""
        self.look_at_clock()
        self.links.discard(peer)
        self.outbox.pop(peer, None)
        self._port.shut(self.members[peer])
        self.snapshots.restart(self.members[peer])
        for cure in self.cures:
            cure.link_shut(peer)

    def members_moved(self, note: str, moved: Iterable[str]) -> None:
        """They are elsewhere: noted, and what their former processes said counts no more."""
        self.engine.log.note("moved", note)
        for cure in self.cures:
            cure.members_moved(moved)

    def receive(self, peer: str, message: Message) -> None:
        """One message of a linked member; not heard while nothing can be kept."""
        self.look_at_clock()
        if self.disk_fault is not None or peer in self.distrusted:
            return
        kind = message["type"]
        rewritten: Message | None = message
        for rewrite in self._incoming.get(kind, ()):
            rewritten = rewrite(peer, message)
            if rewritten is None:
                return
            message = rewritten
        if kind == "append_entries" and message["term"] >= self.engine.term:
            self._heard_at_s = self.now
        if kind in LIBRARY_MESSAGES:
            self._port.deliver(self.members[peer], message)
            for seen in self._delivered.get(kind, ()):
                seen(peer, message)
        elif kind == "probe":
            self.probe.asked(peer, message)
        elif kind == "probe_ack":
            self.probe.acknowledged(peer, message)

    def propose(self, payload: bytes, answer: library.Answer, in_flight: int) -> None:
        """Queues one entry; `answer` is called in a later step. Raises the definite refusals."""
        if self.entry_bytes_max is not None and len(payload) > self.entry_bytes_max:
            raise TooLarge(f"{len(payload)} bytes, at most {self.entry_bytes_max}")
        if not self.engine.is_leader:
            raise NotLeader(self.leader)
        if self.in_flight_max is not None and in_flight >= self.in_flight_max:
            raise Overloaded(f"{in_flight} proposals are waiting")
        if self.log_bytes_max is not None and self.engine.log.size_bytes > self.log_bytes_max:
            raise Overloaded(f"{self.engine.log.size_bytes} bytes of log are kept")
        self.engine._applyCommand(payload, answer, library.REGULAR)

    def confirm(self, confirmed: Confirmed, by_s: float = 0.0) -> None:
        """Joins the next leadership probe, which need not begin before `by_s` for this caller."""
        self.probe.ask(confirmed, by_s)

    def offer_leadership(self, peer: str) -> bool:
        """Asks a caught-up peer to stand at once; False when it is not caught up."""
        engine = self.engine
        member = self.members[peer]
        if not engine.is_leader or engine.match_index.get(member, 0) != engine.last_index:
            return False
        self.send(peer, {"type": "timeout_now", "term": engine.term})
        return True

    # A step.

    def step(self) -> None:
        """One tick of the library and of the cures; call it once for all that came in.

        When it returns all that it changed is kept, or nothing of it leaves: see `disk_fault`.
        """
        self.look_at_clock()
        self.stepped_at = self.now
        if self.disk_fault is not None and not self._sync():
            return
        try:
            self._tick()
        except Exception:  # noqa: BLE001 - counted, and fatal when it repeats
            logger.exception("tick_failed node=%s", self.name)
            self._failures.append(self.now)
            if self._failures[0] > self.now - TICK_FAILURES_S and (
                len(self._failures) == TICK_FAILURES_MAX
            ):
                self.fail("the tick fails again and again")
        if self.engine.applied_index > self.engine.commit_index:
            self.fail(f"applied {self.engine.applied_index} above {self.engine.commit_index}")
        self._send_early()
        self._sync()

    def _send_early(self) -> None:
        # A leader's entries may reach the others while its own disk works: it counts itself only
        # in later steps, when they are safe here as well. Nothing else may; least of all a vote.
        log = self.engine.log
        if self.send_early is None or not log.is_waiting or log.is_promise_waiting:
            return
        early = {peer: sent for peer, sent in self.outbox.items() if peer not in self._must_wait}
        for peer in early:
            del self.outbox[peer]
        self.send_early(early)

    def _sync(self) -> bool:
        if self.disk_fault is not None and (self.fatal is not None or self.now < self._disk_next_s):
            return False
        try:
            if self.engine.log.is_waiting:
                began_s = self._clock()
                self.engine.log.sync()
                self.engine.excuse(self._clock() - began_s)
            else:
                self.engine.log.sync()
        except DiskRefused as refusal:
            self._stand_aside(str(refusal))
            self._disk_next_s = self.now + DISK_RETRY_S
            return False
        except DiskLost as loss:
            self._stand_aside(str(loss))
            self.fail(f"the journal cannot be kept: {loss}")
            return False
        if self.disk_fault is not None:
            logger.warning("disk_recovered node=%s", self.name)
            self.disk_fault = None
        return True

    def _stand_aside(self, what: str) -> None:
        # Nothing of this step leaves, so that nobody relies on it; to the others this node stands
        # still. Its memory is ahead of its disk until the same changes are kept.
        if self.disk_fault is None:
            logger.error("disk_refused node=%s what=%r", self.name, what)
            self.engine.step_down()
            self.probe.step()
        self.disk_fault = what
        self.outbox.clear()

    def _tick(self) -> None:
        for before_step in self._before_step:
            before_step()
        engine = self.engine
        self.snapshots.work()
        if (
            engine.log.size_bytes > self.config.compaction_min_bytes
            and not self.snapshots.is_making
        ):
            engine.forceLogCompaction()
        engine.doTick(0.0)
        owes_appends, self.owes_appends = self.owes_appends, False
        if engine.is_leader and (
            owes_appends
            or engine.sent != (engine.last_index, engine.commit_index)
            or self._is_next_share_due()
        ):
            engine.replicate()
        for after_step in self._after_step:
            after_step()
        self.probe.step()

    def _is_next_share_due(self) -> bool:
        # Peers that are up to date answer each share at once; without a pause that would be a spin.
        if not self.snapshots.is_sending or self.now < self._share_next_s:
            return False
        self._share_next_s = self.now + SHARE_INTERVAL_S
        return True

    def look_at_clock(self) -> None:
        """Sets `now`, for this replica and the library inside it."""
        library.use_clock(self._clock)
        self.now = self._clock()

    def _may_stand(self) -> bool:
        return self.engine.is_connected_to_anyone() and all(cure.may_stand() for cure in self.cures)

    def fail(self, what: str) -> None:
        """Something that must not go on: the process should end."""
        if self.fatal is None:
            self.fatal = what
            logger.critical("fatal node=%s what=%r", self.name, what)

    # What goes out.

    def _from_library(self, peer: str, message: Message) -> bool:
        rewritten: Message | None = message
        for rewrite in self._outgoing.get(message["type"], ()):
            rewritten = rewrite(peer, message)
            if rewritten is None:
                return False
            message = rewritten
        return self.send(peer, message)

    def send(self, peer: str, message: Message) -> bool:
        """Puts a message into the outbox of a linked peer; False without a link."""
        if peer not in self.links:
            return False
        if message["type"] != "append_entries":
            self._must_wait.add(peer)
        for rewrite in self._outgoing_any:
            message = rewrite(peer, message) or message
        self.outbox.setdefault(peer, []).append(pack(message))
        return True

    def take_outbox(self) -> dict[str, list[bytes]]:
        """What this step sends, encoded, by peer."""
        taken, self.outbox = self.outbox, {}
        self._must_wait.clear()
        return taken

    # What can be asked.

    def peer_is_quarantined(self, peer: str) -> bool:
        """The peer said a moment ago that it may not take part yet."""
        return any(cure.peer_is_quarantined(peer) for cure in self.cures)

    def is_majority(self, members: int) -> bool:
        """More than half of all members."""
        return members * 2 > len(self.peers) + 1

    @property
    def is_ready_leader(self) -> bool:
        """Leads, and has applied an entry of its own term: its state is complete."""
        engine = self.engine
        return engine.is_leader and engine.applied_index >= engine.no_op_index > 0

    @property
    def leader(self) -> str | None:
        """The member that this node believes leads, unless it is cut off or silent."""
        if self.engine.is_leader:
            return self.name
        leader = self.engine.leader
        if leader not in self.links or self._heard_at_s is None:
            return None
        age_s = self.now - self._heard_at_s
        return leader if age_s <= self.config.election_timeout_s[1] else None

    @property
    def leader_contact_age_s(self) -> float | None:
        """Since a live leader was heard; on the leader, since a majority answered."""
        if not self.engine.is_leader:
            return None if self._heard_at_s is None else max(0.0, self.now - self._heard_at_s)
        ages = sorted(self.now - at for at in self.engine.response_times.values())
        needed = (len(self.peers) + 1) // 2
        return max(0.0, ages[needed - 1]) if needed else 0.0
