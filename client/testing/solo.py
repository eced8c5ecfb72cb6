"""A coordinator without its network: the real API, leader and state, agreed on by a single node.

What stands in for consensus commits each entry in the next turn of the loop, in order, and leads
for as long as it is told to. Nothing in here is written to disk or sent anywhere. It decides
nothing about shards.

Needs what the extra `server` installs; imported when a cluster is first made.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web

from coordinator.api import make_app
from coordinator.codec import FORMATS
from coordinator.consensus import ConsensusNode, NotLeader, Status, TransferFailed
from coordinator.core.commands import CloseWindow
from coordinator.core.state import ClusterState
from coordinator.leader import LeaderLoop
from coordinator.leadership import Leadership
from coordinator.meters import Meters
from coordinator.replica import Replica, StateMachine
from coordinator.settings import ApiSettings, NodeSettings, Settings
from coordinator.watches import Watches

NODE: Final = "solo"
# Shown in events and the base of epochs; any time will do, as long as it is the same every time.
WALL_S: Final = 1_800_000_000


class SoloClock:
    """Both clocks of the node, on the time of the loop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now: Final = now
        self._began_at: Final = now()

    def monotonic(self) -> float:
        """The loop's time."""
        return self._now()

    def wall_ms(self) -> int:
        """A time of day that goes on with the loop's."""
        return int((WALL_S + self._now() - self._began_at) * 1000)


class SoloConsensus:
    """What the rest of a node sees of consensus, when there is nobody to agree with."""

    def __init__(self, machine: StateMachine, api_url: str) -> None:
        self.on_applied: Callable[[int], None] = lambda _index: None
        self.on_leadership: Callable[[bool, int], None] = lambda _leads, _term: None
        self.format_for_all: Final = FORMATS.newest
        self._machine: Final = machine
        self._api_url: Final = api_url
        self._term = 0
        self._leads = False
        self._index = 0
        self._cluster_id: str | None = None
        self._queue: deque[tuple[bytes, asyncio.Future[object]]] = deque()

    def lead(self) -> None:
        """A term begins in which this node leads."""
        self._term += 1
        self._leads = True
        self.on_leadership(True, self._term)

    def resign(self) -> None:
        """Nobody leads from here on; what was not committed yet never is."""
        self._leads = False
        queue, self._queue = self._queue, deque()
        for _, future in queue:
            if not future.done():
                future.set_exception(NotLeader(None))
        self.on_leadership(False, self._term)

    @property
    def leader_api_url(self) -> str | None:
        """Where the leader is, if there is one."""
        return self._api_url if self._leads else None

    async def propose(self, payload: bytes, *, timeout_s: float = 5.0) -> object:
        """What the state machine answers."""
        del timeout_s
        if not self._leads:
            raise NotLeader(None)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        if not self._queue:
            loop.call_soon(self._commit)
        self._queue.append((payload, future))
        return await future

    def _commit(self) -> None:
        queue, self._queue = self._queue, deque()
        for payload, future in queue:
            self._index += 1
            outcome = self._machine.apply(self._index, payload)
            if not future.done():
                future.set_result(outcome)
        if queue:
            self.on_applied(self._index)

    async def confirm_leadership(self, *, timeout_s: float = 2.0) -> int:
        """The term; there is no majority to ask."""
        del timeout_s
        await asyncio.sleep(0)
        if not self._leads:
            raise NotLeader(None)
        return self._term

    async def transfer_leadership(self, to: str | None = None) -> str:
        """There is nobody to take it."""
        raise TransferFailed(f"{NODE} is alone, there is no {to or 'other node'}")

    def set_cluster_id(self, cluster_id: str) -> None:
        """The state machine learned it."""
        self._cluster_id = cluster_id

    def set_address(self, member: str, address: str, revision: int) -> None:
        """No member can be moved."""

    def set_format(self, in_force: int) -> None:
        """Only one version is here."""

    def status(self) -> Status:
        """As a single healthy node shows itself."""
        return Status(
            name=NODE,
            role="leader" if self._leads else "follower",
            term=self._term,
            leader=NODE if self._leads else None,
            has_quorum=self._leads,
            cluster_id=self._cluster_id,
            commit_index=self._index,
            applied_index=self._index,
            log_entries=self._index,
            log_bytes=0,
            snapshot_index=0,
            snapshot_bytes=0,
            snapshot_age_s=None,
            leader_contact_age_s=0.0,
            peers=(),
            formats=(FORMATS.oldest, FORMATS.newest),
            format_in_force=self._machine.state.format,
        )


class SoloNode:
    """One life of the coordinator: what it remembers goes with it."""

    def __init__(
        self, api_url: str, clock: SoloClock, rng: random.Random, mint: Callable[[], str]
    ) -> None:
        settings = Settings(
            node=NodeSettings(name=NODE, peers={NODE: "127.0.0.1:7071"}),
            api=ApiSettings(advertised_url=api_url),
        )
        machine = StateMachine()
        self.consensus: Final = SoloConsensus(machine, api_url)
        consensus = cast("ConsensusNode", self.consensus)
        self.replica: Final = Replica(machine, consensus, Watches(), Meters(clock.monotonic))
        self._leader: Final = LeaderLoop(self.replica, clock, {}, mint=mint)
        leadership = Leadership(self._leader, self.replica, clock)
        app = make_app(self.replica, leadership, settings, clock=clock, rng=rng)
        self._runner: Final = web.AppRunner(app, handler_cancellation=True, access_log=None)

    @property
    def state(self) -> ClusterState:
        """What the coordinator has decided."""
        return self.replica.state

    async def start(self) -> None:
        """Take up the lead and answer."""
        await self._runner.setup()
        self.consensus.lead()
        while self.state.cluster_id is None:  # noqa: ASYNC110 - the leader's first command
            await asyncio.sleep(0)

    async def connect(self) -> asyncio.Protocol:
        """The node's end of a new connection."""
        server: Any = self._runner.server
        protocol: asyncio.Protocol = server()
        return protocol

    async def close_window(self, namespace: str) -> None:
        """Wait for no claims: nobody was there who could have any."""
        revision = self.state.namespaces[namespace].info.created_revision
        command = CloseWindow(namespace=namespace, created_revision=revision, at_ms=0)
        await self.replica.execute(command)

    async def stop(self) -> None:
        """Release whoever waits, and end."""
        self.replica.watches.close()
        await self._leader.stop()
        await self._runner.cleanup()
