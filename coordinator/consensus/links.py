"""TCP links between members: one per pair, pinged, replaced when silent, bounded.

Decides when a link is dead or refused, and when to dial again. Must not know Raft: messages are
handed on. The higher name dials, so a pair has one link.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

from coordinator.consensus.addresses import Addresses, Moved, decode_moved
from coordinator.consensus.certificates import LOOK_EVERY_S, Certificates
from coordinator.consensus.codec import Message, pack
from coordinator.consensus.contract import ConsensusConfig, ConsensusError
from coordinator.consensus.handshake import (
    TEXT_MAX,
    Hello,
    Refusal,
    check_formats,
    check_hello,
    is_loopback,
    split_address,
)
from coordinator.consensus.library import logger
from coordinator.consensus.link import Link
from coordinator.consensus.link_policy import LinkPolicy
from coordinator.consensus.session import Session

PING: Final = pack({"type": "ping"})


class Links:
    """All links of one node. Tells `opened`, `shut` and `received` about identified peers."""

    def __init__(
        self,
        config: ConsensusConfig,
        policy: LinkPolicy,
        *,
        rng: random.Random,
        noted_moves: str | None,
        opened: Callable[[str], None],
        shut: Callable[[str], None],
        received: Callable[[str, Message], None],
        read: Callable[[], None],
        moved: Callable[[str, list[str]], None],
    ) -> None:
        self.config = config
        self.addresses = Addresses(config.name, config.peers, noted_moves)
        self.format_in_force = 0
        self.policy = policy
        self.loop = asyncio.get_running_loop()
        self.cluster_id: str | None = None
        self.api_urls: dict[str, str] = {}
        self.up: dict[str, Link] = {}
        self.foreign: set[str] = set()
        """Peers that were last seen in another cluster."""
        self.outvoted: Callable[[], None] = lambda: None
        """Called when a majority of the members was."""
        self._rng = rng
        self._opened = opened
        self._shut = shut
        self._received = received
        self._note_moves = moved
        self.read = read
        self._certificates: Certificates | None = None
        self._unidentified: list[Link] = []
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[tuple[str, str], float] = {}
        self._heard: dict[str, float] = {}

    async def start(self) -> None:
        """Binds the own address and dials; raises ConsensusError when it cannot or must not."""
        address = self.config.raft_bind or self.config.peers[self.config.name]
        host, port = split_address(address)
        if self.policy.certificates is not None:
            self._certificates = Certificates(self.policy.certificates, self.config.name)
        elif self.policy.is_loopback_only and not is_loopback(host):
            raise ConsensusError(
                f"the Raft port {address} is not on loopback and has no encryption: anyone who "
                "reaches it owns the cluster; give it certificates, or insecure = true allows it"
            )
        try:
            self._server = await self.loop.create_server(
                lambda: Link(self, None), host, port, backlog=self.policy.backlog
            )
        except OSError as error:
            raise ConsensusError(f"cannot bind the Raft port {address}: {error}") from error
        peers = sorted(set(self.config.peers) - {self.config.name})
        self._tasks = [
            asyncio.create_task(self._dial(peer), name=f"dial {peer}")
            for peer in peers
            if self.config.name > peer
        ]
        self._tasks.append(asyncio.create_task(self._watch(), name="ping"))

    async def stop(self) -> None:
        """Ends everything; returns when no task and no socket is left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for link in [*self.up.values(), *self._unidentified]:
            link.close()
        await asyncio.sleep(0)  # lets the transports call connection_lost

    # Dialling.

    async def _dial(self, peer: str) -> None:
        delay_s = self.policy.redial_min_s
        while True:
            link = await self._connect(peer)
            if link is not None:
                started = self.loop.time()
                try:
                    await link.closed
                finally:
                    link.abort()
                if self.loop.time() - started > self.policy.redial_max_s:
                    delay_s = self.policy.redial_min_s
            await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.0))
            delay_s = min(delay_s * 2, self.policy.redial_max_s)

    async def _connect(self, peer: str) -> Link | None:
        host, port = split_address(self.addresses.of(peer))
        try:
            async with asyncio.timeout(self.policy.connect_s):
                _, link = await self.loop.create_connection(lambda: Link(self, peer), host, port)
        except (OSError, TimeoutError) as error:
            self.tell("link_unreachable", peer, str(error) or type(error).__name__)
            return None
        return link

    # What a link asks of its owner.

    def hello_to(self, peer: str) -> Hello:
        """What this node says of itself."""
        config = self.config
        return Hello(
            config.name,
            peer,
            self.cluster_id,
            config.api_url,
            address=config.peers[config.name],
            moved=self.addresses.moved,
            formats=config.formats,
        )

    def secure(self, *, is_server: bool) -> Session | None:
        """A TLS session for a new connection; None on a plaintext port."""
        certificates = self._certificates
        return None if certificates is None else certificates.session(is_server=is_server)

    def check_names(self, names: frozenset[str], dialled: str | None) -> Refusal | None:
        """Whether a certificate of these names may speak here at all."""
        expected = set(self.config.peers) - {self.config.name} if dialled is None else {dialled}
        if any(self._is_named(peer, names) for peer in expected):
            return None
        shown = ", ".join(sorted(names))[:TEXT_MAX] or "nobody"
        return Refusal(f"its certificate is for {shown}, not for {dialled or 'a peer'}")

    def _is_named(self, peer: str, names: frozenset[str]) -> bool:
        return self._certificates is not None and self._certificates.name_of(peer) in names

    def check(
        self, hello: Hello, dialled: str | None, names: frozenset[str] | None
    ) -> Refusal | None:
        """Whether the speaker is who it must be; `names` are those of its certificate."""
        if names is not None and not self._is_named(hello.name, names):
            return Refusal("the certificate shown is not for the name that was said")
        if dialled is not None and hello.name != dialled:
            return Refusal(f"{hello.name} answers at the address of {dialled}")
        if not self.policy.checks_cluster and hello.name in self.config.peers:
            return None
        refusal = check_hello(
            hello,
            own_name=self.config.name,
            members=self.config.peers,
            cluster_id=self.cluster_id,
        )
        if refusal is not None:
            return refusal
        self.learn_moves(hello.moved)  # first: it may know better where it is itself
        if self.policy.checks_addresses:
            fault = self.addresses.fault(hello.name, hello.address)
            if fault is not None:
                return Refusal(fault)
        return check_formats(hello, self.format_in_force)

    def refused(self, peer: str, refusal: Refusal) -> None:
        """Tells of it, and counts who is in another cluster."""
        self.tell("link_refused", peer, refusal.reason)
        if refusal.is_foreign and peer in self.config.peers:
            self.foreign.add(peer)
            if len(self.foreign) * 2 > len(self.config.peers):
                self.outvoted()

    def admit_unidentified(self, link: Link) -> None:
        """Keeps a few strangers; the oldest gives way to the newest."""
        self._unidentified.append(link)
        while len(self._unidentified) > self.policy.unidentified_max:
            self._unidentified[0].abort()

    def link_up(self, link: Link, hello: Hello) -> None:
        """An identified link replaces an older one of its peer."""
        peer = hello.name
        if link in self._unidentified:
            self._unidentified.remove(link)
        former = self.up.get(peer)
        if former is not None:
            former.abort()
        self.up[peer] = link
        self.foreign.discard(peer)
        self.api_urls[peer] = hello.api_url
        logger.info("link_up node=%s peer=%s", self.config.name, peer)
        self._opened(peer)

    def link_gone(self, link: Link, *, was_up: bool) -> None:
        """Forgets a link; its peer is unreachable until the next."""
        if link in self._unidentified:
            self._unidentified.remove(link)
        if was_up and link.hello is not None and self.up.get(link.hello.name) is link:
            peer = link.hello.name
            del self.up[peer]
            self._heard[peer] = link.heard_at_s
            logger.info("link_down node=%s peer=%s", self.config.name, peer)
            self._shut(peer)

    def deliver(self, link: Link, message: Message) -> None:
        """Hands a message on; a ping has done its work by arriving, unless it tells of a move."""
        if message["type"] == "ping":
            if "moved" in message:
                self.learn_moves(decode_moved(message["moved"]))
            return
        if link.hello is None:
            return
        try:
            self._received(link.hello.name, message)
        except Exception:  # noqa: BLE001 - one bad message costs its link, not the loop
            logger.exception("message_failed node=%s peer=%s", self.config.name, link.hello.name)
            link.abort()

    # Everything else.

    @property
    def certificate_left_s(self) -> float | None:
        """How long this node's certificate is good for; None without TLS."""
        return None if self._certificates is None else self._certificates.left_s

    def refresh_certificates(self) -> None:
        """Reads the certificates again; links that are up keep the ones they began with."""
        if self._certificates is not None:
            self._certificates.refresh(is_asked=True)

    def send(self, outbox: Mapping[str, list[bytes]]) -> None:
        """One write per peer for all that a step sends."""
        for peer, frames in outbox.items():
            link = self.up.get(peer)
            if link is not None:
                link.write(frames)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Checked from now on, also on the links that are up."""
        self.cluster_id = cluster_id
        self._check_again()

    def _check_again(self) -> None:
        for link in list(self.up.values()):
            refusal = self.check(link.hello, None, None) if link.hello else None
            if refusal is not None:
                self.refused(link.hello.name if link.hello else "", refusal)
                link.abort()

    def set_format(self, in_force: int) -> None:
        """The newest format of entries that was used; whoever does not read it is no member now."""
        if in_force > self.format_in_force:
            self.format_in_force = in_force
            self._check_again()

    def learn_moves(self, moved: Moved) -> None:
        """Members are elsewhere: their former links end, and this node dials where they are."""
        before = dict(self.addresses.moved)
        changed = self.addresses.learn(moved)
        if self.addresses.moved == before:
            return
        self._note_moves(self.addresses.note(), changed)
        self._check_again()
        told = pack({"type": "ping", "moved": dict(self.addresses.moved)})
        for link in list(self.up.values()):
            link.write((told,))

    def sever(self) -> None:
        """Ends every link at once; they come back by themselves."""
        for link in list(self.up.values()):
            link.abort()

    def hello_of(self, peer: str) -> Hello | None:
        """What a connected peer said of itself."""
        link = self.up.get(peer)
        return None if link is None else link.hello

    def last_heard_age_s(self, peer: str) -> float | None:
        """Since anything at all was heard of this peer."""
        link = self.up.get(peer)
        at = link.heard_at_s if link is not None else self._heard.get(peer)
        return None if at is None else max(0.0, self.loop.time() - at)

    def is_congested(self, peer: str) -> bool:
        """The peer reads slower than this node writes."""
        link = self.up.get(peer)
        return link is not None and link.unread_bytes() > self.policy.congested_bytes

    def tell(self, event: str, peer: str, why: str) -> None:
        """Logs one kind of trouble with a peer once in five seconds."""
        if peer not in self.config.peers:
            peer = "unidentified"  # a stranger's name is neither logged nor remembered
        now = self.loop.time()
        if now - self._told.get((event, peer), -5.0) >= 5.0:
            self._told[(event, peer)] = now
            logger.warning("%s node=%s peer=%s why=%r", event, self.config.name, peer, why)

    async def _watch(self) -> None:
        interval_s = self.policy.ping_interval_s
        look_next_s = 0.0
        while True:
            before = self.loop.time()
            await asyncio.sleep(interval_s)
            now = self.loop.time()
            if self._certificates is not None and now >= look_next_s:
                look_next_s = now + LOOK_EVERY_S
                self._certificates.refresh()
            # A loop that stood still has unread answers in its sockets: judge in the next round.
            is_late = now - before > self.policy.dead_after_s / 2
            for link in list(self.up.values()):
                if not is_late and now - link.heard_at_s > self.policy.dead_after_s:
                    link.abort()
                else:
                    link.write((PING,))
