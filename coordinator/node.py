"""One coordinator node put together: consensus, state, leader loop and API, started and stopped.

The composition root: the only module that knows all parts. It decides the order of starting and
stopping, nothing else.
"""

import asyncio
import contextlib
import logging
import random
from typing import ClassVar

from coordinator.api import (
    DESK,
    EXPRESS,
    SHELF,
    ApiTls,
    Door,
    Listener,
    Port,
    TlsRefused,
    TokensRefused,
    make_app,
)
from coordinator.clock import Clock, SystemClock
from coordinator.codec import FORMATS, Formats
from coordinator.consensus import (
    ConsensusConfig,
    ConsensusError,
    ConsensusNode,
    PeerCertificates,
)
from coordinator.core.commands import CreateNamespace
from coordinator.core.types import Policy
from coordinator.credentials import Credentials
from coordinator.leader import LeaderLoop
from coordinator.leadership import Leadership
from coordinator.meters import Meters
from coordinator.policy import merged
from coordinator.replica import Replica, StateMachine
from coordinator.settings import Settings
from coordinator.survivor import go_on_alone
from coordinator.watches import Watches

log = logging.getLogger("coordinator.node")


class StartError(Exception):
    """The node cannot start; the text says what to do."""


class Node:
    """A node of the cluster. `start`, then `stopped` to wait for a fatal end, then `stop`.

    Made with what its journal holds, if it has one; raises StartError when that cannot be used.
    """

    consensus_type: ClassVar[type[ConsensusNode]] = ConsensusNode
    """Tests give it other disks in a subclass."""
    port_type: ClassVar[type[Port]] = Port
    """And other wires."""

    def __init__(
        self,
        settings: Settings,
        *,
        bootstrap: bool = False,
        former_id: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        formats: Formats = FORMATS,
    ) -> None:
        """With `former_id` the journal goes on as another cluster first."""
        self.settings = settings
        clock, rng = clock or SystemClock(), rng or random.Random()
        machine = StateMachine(formats)
        config = ConsensusConfig(
            name=settings.node.name,
            peers=settings.node.peers,
            api_url=settings.api_url,
            raft_bind=settings.node.raft_bind,
            bootstrap=bootstrap,
            storage_dir=settings.storage.dir or None,
            formats=(machine.formats.oldest, machine.formats.newest),
            certificates=_certificates(settings),
            insecure=settings.security.insecure,
        )
        try:
            self._credentials = Credentials(settings.security)
        except (TlsRefused, TokensRefused) as error:
            raise StartError(f"cannot start: {error}") from error
        try:
            if former_id is not None:
                go_on_alone(config, formats, former_id, clock, rng)
            self.consensus = self.consensus_type(
                config, machine, rng=rng, monotonic=clock.monotonic
            )
        except ConsensusError as error:
            raise StartError(f"cannot start: {error}") from error
        meters = Meters(clock.monotonic)
        self.replica = Replica(machine, self.consensus, Watches(), meters)
        self.leader = LeaderLoop(self.replica, clock, _seeds(settings, clock))
        leadership = Leadership(self.leader, self.replica, clock)
        door = Door(settings, clock, self._credentials.book)
        self._credentials.on_book = door.exchange
        self.app = make_app(self.replica, leadership, settings, clock=clock, rng=rng, door=door)
        self._forwarder = self.app[DESK].forwarder
        self._forwarder.tls = self._credentials.tls.client
        self._credentials.on_tls = self._renew
        self.fatal: asyncio.Future[str] | None = None
        self._listener = Listener(
            self.app, settings.limits, self.app[SHELF].before, self.app[EXPRESS], self.port_type
        )
        meters.connections = machine.connections = lambda: self._listener.count
        meters.held_back = lambda: self._listener.held_back
        self.aside = machine.aside
        meters.api_certificate_left_s = lambda: self._credentials.certificate_left_s
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bind the API, then the Raft port, then take part; raises StartError."""
        self.fatal = asyncio.get_running_loop().create_future()
        self.consensus.on_fatal = self._fail
        try:
            await self._listener.start(*self.settings.api_address, self._credentials.tls.server)
            await self.consensus.start()
            self._watching = asyncio.create_task(self._credentials.watch())
        except (OSError, ConsensusError) as error:
            await self.stop()
            raise StartError(f"cannot start: {error}") from error
        log.info("node_started node=%s api=%s", self.settings.node.name, self.settings.api_url)

    def _fail(self, what: str) -> None:
        log.critical("node_failed why=%s", what)
        if self.fatal is not None and not self.fatal.done():
            self.fatal.set_result(what)

    async def _renew(self, tls: ApiTls) -> None:
        self._forwarder.tls = tls.client
        if tls.server is not None:
            self._listener.renew(tls.server)

    def reload(self) -> None:
        """Read certificates and tokens again, whether their files look changed or not."""
        self.consensus.refresh_certificates()
        self._credentials.refresh()

    async def hand_over(self) -> None:
        """Give the leadership to another node before stopping, if there is one to take it."""
        if self.leader.is_leading and len(self.settings.node.peers) > 1:
            with contextlib.suppress(ConsensusError):
                to = await self.consensus.transfer_leadership()
                log.info("leadership_transferred to=%s", to)

    async def stop(self) -> None:
        """Release whoever waits, then stop answering, then leave the cluster's links."""
        self.replica.watches.close()
        if self._watching is not None:
            self._watching.cancel()
        await self.leader.stop()
        await self._listener.stop()
        await self.consensus.stop()
        log.info("node_stopped node=%s", self.settings.node.name)


def _certificates(settings: Settings) -> PeerCertificates | None:
    security = settings.security
    if not security.peer_ca:
        return None
    return PeerCertificates(
        ca=security.peer_ca,
        certificate=security.peer_certificate,
        private_key=security.peer_key,
        names=security.peer_names,
    )


def _seeds(settings: Settings, clock: Clock) -> dict[str, CreateNamespace]:
    """The namespaces that the settings name."""
    return {
        name: CreateNamespace(
            namespace=name,
            kind=seed.kind,
            shard_count=seed.shard_count or 0,
            policy=merged(Policy(), seed.policy),
            at_ms=clock.wall_ms(),
        )
        for name, seed in settings.namespaces.items()
    }
