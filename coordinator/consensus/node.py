"""A consensus node on the event loop: the replica, its links, and whoever waits for an outcome.

Decides when to step and who is told what. Must not know what the entries mean. This is where the
cures are composed; the product always has all of them.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from coordinator.consensus import library
from coordinator.consensus.confirming import TIMEOUT_S, Confirmation, Confirmations, Told, resolve
from coordinator.consensus.contract import (
    ConsensusConfig,
    ConsensusError,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    SlicedMachine,
    StateMachine,
    Status,
    config_problems,
    rounded_s,
)
from coordinator.consensus.cures.base import Cure
from coordinator.consensus.cures.durable import Durable
from coordinator.consensus.cures.leadership import PreVote, StepDown
from coordinator.consensus.cures.limits import (
    Bounded,
    JournalFloor,
    MembershipGate,
    Once,
    TotalApply,
)
from coordinator.consensus.cures.port import ClosedPort, OwnLinks
from coordinator.consensus.cures.quarantine import Quarantine
from coordinator.consensus.cures.replication import AckTerm, PrefixMatch, ResetOrder
from coordinator.consensus.cures.transfer_of_state import SnapshotCap
from coordinator.consensus.handover import Handover
from coordinator.consensus.library import logger
from coordinator.consensus.links import Links
from coordinator.consensus.replica import Replica
from coordinator.consensus.report import describe
from coordinator.consensus.snapshots import SLICE_EVERY_S

# The order is the order in which they see a message: who must not act at all comes first, then
# whose word counts, then what it says.
CURES: Final[tuple[type[Cure], ...]] = (
    Durable,
    Quarantine,
    AckTerm,
    StepDown,
    PreVote,
    SnapshotCap,
    ResetOrder,
    PrefixMatch,
    Once,
    Bounded,
    TotalApply,
    JournalFloor,
    MembershipGate,
    OwnLinks,
    ClosedPort,
)


class ConsensusNode:
    """One member. `start`, then propose and confirm; `stop` fails whoever still waits.

    `on_applied(index)` is called once per step in which the applied index moved,
    `on_leadership(is_leader, term)` when this node becomes a leader that has applied an entry of
    its own term, and at once when it is none any more, `on_fatal(what)` when it must end.
    """

    cures: ClassVar[tuple[type[Cure], ...]] = CURES
    """Tests compose a node of fewer in a subclass."""

    def __init__(
        self,
        config: ConsensusConfig,
        machine: StateMachine | SlicedMachine,
        *,
        rng: random.Random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if problems := config_problems(config):
            raise ConsensusError("; ".join(problems))
        self.config = config
        self.on_applied: Callable[[int], None] | None = None
        self.on_leadership: Callable[[bool, int], None] | None = None
        self.on_fatal: Callable[[str], None] | None = None
        self._rng = rng
        self._replica = Replica(
            config, machine, [cure() for cure in self.cures], rng=rng, clock=monotonic
        )
        self._monotonic = monotonic
        self._cluster_id = self._replica.engine.log.notes.get("cluster_id")
        self._format_in_force = 0
        self._moved: dict[str, tuple[int, str]] = {}
        self._links: Links | None = None
        self._timer: asyncio.Task[None] | None = None
        self._is_scheduled = False
        self._is_stopped = False
        self._answers: list[tuple[asyncio.Future[Any], Any, int]] = []
        self._in_flight = 0
        self._deadlines: dict[float, deque[tuple[float, asyncio.Future[Any]]]] = {}
        self._confirmations = Confirmations(self._replica, monotonic, self._kick)
        self._told_applied = self._replica.engine.applied_index
        self._told_leader: int | None = None
        self._told_fatal = False
        self._stands_aside = False
        self._handover = Handover(self._replica, self._kick, monotonic)

    # Life.

    async def start(self) -> None:
        """Binds, dials and begins to step; raises ConsensusError when it cannot bind."""
        self._loop = asyncio.get_running_loop()
        links = Links(
            self.config,
            self._replica.link_policy,
            rng=self._rng,
            noted_moves=self._replica.engine.log.notes.get("moved"),
            opened=self._opened,
            shut=self._shut,
            received=self._replica.receive,
            read=self._step,
            moved=self._replica.members_moved,
        )
        links.cluster_id = self._cluster_id
        links.set_format(self._format_in_force)
        links.learn_moves(self._moved)
        self._replica.is_congested, self._replica.send_early = links.is_congested, links.send
        self._replica.engine.next_turn = self._replica.snapshots.next_turn = self._loop.call_soon
        links.outvoted = self._outvoted
        await links.start()
        self._links = links
        self._timer = asyncio.create_task(self._tick_forever(), name="raft timer")

    async def stop(self) -> None:
        """Ends links and timer; whoever still waits gets OutcomeUnknown."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
        if self._links is not None:
            await self._links.stop()
        self._give_up("the node stopped")
        self._replica.engine.log.close()
        self._handover.stop()

    def _give_up(self, why: str) -> None:
        waiting = [future for queue in self._deadlines.values() for _, future in queue]
        for future in waiting:
            if not future.done():
                future.set_exception(OutcomeUnknown(why))
        self._confirmations.give_up(why)

    async def _tick_forever(self) -> None:
        while True:
            self._expire()
            self._kick()
            soon = self._replica.engine.election_deadline_s - self._monotonic()
            if soon <= 0.0:  # a leader's, or one that the step just asked for sees
                soon = self.config.tick_interval_s
            if self._replica.snapshots.is_working:
                soon = min(soon, SLICE_EVERY_S)
            if self._replica.disk_fault is not None:
                soon = self.config.tick_interval_s  # no election ends the waiting
            await asyncio.sleep(min(self.config.tick_interval_s, max(soon, 0.001)))

    # Stepping: once per turn of the loop that has work.

    def _kick(self) -> None:
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            self._loop.call_soon(self._step_if_due)

    def _step_if_due(self) -> None:
        if self._is_scheduled:
            self._step()

    def _step(self) -> None:
        # Also called at the end of each read of a socket: a turn of the loop would be a third of
        # the latency of a write.
        self._is_scheduled = False
        if self._is_stopped or self._links is None:
            return
        replica = self._replica
        if replica.fatal is None:
            replica.step()
        if replica.fatal is not None or replica.disk_fault is not None:
            self._stand_aside(replica.fatal or "nothing can be kept on disk here")
            return
        self._stands_aside = False
        self._links.send(replica.take_outbox())
        answers, self._answers = self._answers, []
        for future, result, error in answers:
            self._settle(future, result, error)
        self._tell()
        self._confirmations.tell()
        if replica.owes_appends or replica.engine.log.is_behind or replica.engine.is_behind:
            self._kick()  # a share of something waits, and nothing else may bring a step soon

    def _stand_aside(self, why: str) -> None:
        """Nobody is answered, nothing is sent, and the links end so that others go on."""
        if not self._stands_aside and self._links is not None:
            self._stands_aside = True
            self._links.sever()
        self._replica.take_outbox()
        self._answers = []
        self._give_up(why)
        self._tell()

    def _settle(self, future: asyncio.Future[Any], result: Any, error: int) -> None:
        if future.done():
            return
        if error == library.SUCCESS:
            future.set_result(result)
        elif error in (library.NOT_LEADER, library.MISSING_LEADER, library.DISCARDED):
            # Discarded: another entry was committed at its index, so it never will be.
            future.set_exception(NotLeader(self._replica.leader))
        elif error == library.QUEUE_FULL:
            future.set_exception(Overloaded("too many proposals in one step"))
        else:
            future.set_exception(OutcomeUnknown(f"the library answered {error}"))

    def _expire(self) -> None:
        now = self._monotonic()
        for timeout_s, queue in list(self._deadlines.items()):
            while queue and (queue[0][1].done() or queue[0][0] <= now):
                _, future = queue.popleft()
                if not future.done():
                    future.set_exception(OutcomeUnknown("no outcome in time"))
            if not queue:
                del self._deadlines[timeout_s]
        self._confirmations.expire(now)

    def _tell(self) -> None:
        replica = self._replica
        leads = replica.engine.term if replica.is_ready_leader else None
        if leads != self._told_leader:
            former, self._told_leader = self._told_leader, leads
            if former is not None:
                logger.info("leader_lost node=%s term=%d", self.config.name, former)
                self._call(self.on_leadership, False, former)
            if leads is not None:
                logger.info("leader_elected node=%s term=%d", self.config.name, leads)
                self._call(self.on_leadership, True, leads)
        applied = replica.engine.applied_index
        if applied != self._told_applied:
            self._told_applied = applied
            self._call(self.on_applied, applied)
        if replica.fatal is not None and not self._told_fatal:
            self._told_fatal = True
            self._call(self.on_fatal, replica.fatal)

    def _call(self, callback: Callable[..., None] | None, *values: object) -> None:
        if callback is None:
            return
        try:
            callback(*values)
        except Exception:  # noqa: BLE001 - a listener must not end a link or a step
            logger.exception("listener_raised node=%s", self.config.name)

    # What the links tell.

    def _opened(self, peer: str) -> None:
        self._replica.link_opened(peer)
        self._kick()

    def _shut(self, peer: str) -> None:
        self._replica.link_shut(peer)
        self._kick()

    # What the rest of the system asks.

    async def propose(self, payload: bytes, *, timeout_s: float = 5.0) -> object:
        """What `apply` answered on this node.

        Raises NotLeader, Overloaded or TooLarge (definite: not applied), or OutcomeUnknown.
        """
        if self._handover.is_under_way:
            await self._handover.over()
        if self._is_stopped or self._links is None:
            raise NotLeader(None)
        future = self._loop.create_future()
        self._replica.propose(payload, partial(self._answered, future), self._in_flight)
        self._in_flight += 1
        # Equal time-outs end in order, so each has a plain queue; rounding keeps the queues few.
        timeout_s = rounded_s(timeout_s)
        queue = self._deadlines.get(timeout_s)
        if queue is None:
            queue = self._deadlines[timeout_s] = deque()
        queue.append((self._monotonic() + timeout_s, future))
        self._kick()
        try:
            return await future
        finally:
            self._in_flight -= 1

    def _answered(self, future: asyncio.Future[Any], result: Any, error: int) -> None:
        # Called inside a tick, where an exception would apply the entry twice.
        self._answers.append((future, result, error))

    def when_confirmed(
        self, told: Told, *, timeout_s: float = TIMEOUT_S, patience_s: float = 0.0
    ) -> Confirmation:
        """`told` is called with the term that a majority confirmed after this call, or the fault.

        Raises NotLeader, or Overloaded when too many wait already. Who has patience shares a round
        with those who ask meanwhile.
        """
        if self._is_stopped or self._links is None:
            raise NotLeader(self._replica.leader)
        return self._confirmations.ask(told, timeout_s, patience_s)

    async def confirm_leadership(self, *, timeout_s: float = TIMEOUT_S) -> int:
        """The same for whoever waits in a task.

        Raises NotLeader, ProbeTimeout, or Overloaded when too many wait already.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        confirmation = self.when_confirmed(partial(resolve, future), timeout_s=timeout_s)
        try:
            return await future
        finally:
            confirmation.forget()

    async def transfer_leadership(self, to: str | None = None) -> str:
        """The new leader. Proposals wait meanwhile; raises NotLeader or TransferFailed."""
        return await self._handover.to(to)

    def _outvoted(self) -> None:
        # In memory the survivor may hold the better state, and a restart would lose it.
        log = self._replica.engine.log
        if log.is_durable and not log.notes.get("sole"):  # a survivor: they are the lost ones
            self._replica.fail(
                f"{log.path} belongs to cluster {self._cluster_id}, a majority of the members to "
                "another: set storage.dir right, or move its folder away and start again"
            )
            self._kick()

    def set_cluster_id(self, cluster_id: str) -> None:
        """The state machine learned it; links of other clusters end."""
        self._cluster_id = cluster_id
        self._replica.engine.log.note("cluster_id", cluster_id)
        if self._links is not None:
            self._links.set_cluster_id(cluster_id)

    def set_address(self, member: str, address: str, revision: int) -> None:
        """A member was moved: peers are dialled there, and its former process is no peer."""
        self._moved[member] = (revision, address)
        if self._links is not None:
            self._links.learn_moves(self._moved)

    def set_format(self, in_force: int) -> None:
        """The state machine used this format of entries: every member must read it from now on."""
        self._format_in_force = in_force
        if self._links is not None:
            self._links.set_format(in_force)

    @property
    def format_for_all(self) -> int:
        """The newest format that may be proposed: every member reads it, as they say now."""
        told = [self.config.formats]
        for peer in self._replica.peers:
            hello = self._links.hello_of(peer) if self._links is not None else None
            if hello is None:  # it may come back as any version
                return max(self._format_in_force, self.config.formats[0])
            told.append(hello.formats)
        return max(self._format_in_force, min(newest for _, newest in told))

    def refresh_certificates(self) -> None:
        """The files of the certificates changed; new links use what they hold now."""
        if self._links is not None:
            self._links.refresh_certificates()

    @property
    def leader_api_url(self) -> str | None:
        """Where the leader's API is, as far as this node knows."""
        leader = self._replica.leader
        if leader == self.config.name:
            return self.config.api_url
        if leader is None or self._links is None:
            return None
        return self._links.api_urls.get(leader)

    def status(self) -> Status:
        """The view of this node at this moment."""
        return describe(self._replica, self._links, self._cluster_id, self._format_in_force)
