"""TCP links between members: one per pair, pinged, replaced when silent, bounded.

Decides when a link is up, dead or refused, and when to dial again. Must not know Raft: messages
are bytes that are decoded and handed on. The higher name dials, so a pair has one link.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, cast

from coordinator.consensus.codec import (
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    HANDSHAKE_BYTES_MAX,
    Malformed,
    Message,
    decode_message,
    pack,
)
from coordinator.consensus.contract import ConsensusConfig, ConsensusError
from coordinator.consensus.handshake import (
    Hello,
    Refusal,
    check_hello,
    decode_hello,
    encode_hello,
    encode_refusal,
    is_loopback,
    split_address,
)
from coordinator.consensus.library import logger
from coordinator.consensus.link_policy import LinkPolicy

SIZE: Final = Struct("<I")
PING: Final = pack({"type": "ping"})


class Link(asyncio.Protocol):
    """One connection: a hello each way, then frames until it ends."""

    def __init__(self, owner: "Links", dialled: str | None) -> None:
        self._owner = owner
        self._dialled = dialled
        self._buffer = b""
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.hello: Hello | None = None
        self.is_up = False
        self.heard_at_s = 0.0
        self.closed: asyncio.Future[None] = owner.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The dialler speaks first; a stranger gets nothing."""
        # Not checked: uvloop's transports have the methods but not the class.
        self.transport = cast(asyncio.Transport, transport)
        self.heard_at_s = self._owner.loop.time()
        self._deadline = self._owner.loop.call_later(self._owner.policy.handshake_s, self.abort)
        if self._dialled is None:
            self._owner.admit_unidentified(self)
        else:
            self.write((encode_hello(self._owner.hello_to(self._dialled)),))

    def data_received(self, data: bytes) -> None:
        """Cuts frames; what breaks the rules ends the link."""
        self.heard_at_s = self._owner.loop.time()
        try:
            self._buffer = self._buffer + data if self._buffer else data
            self._read_frames()
            self._owner.read()
        except Malformed as error:
            peer = self.hello.name if self.hello else "unidentified"
            self._owner.tell("link_malformed", peer, str(error))
            self.abort()

    def _read_frames(self) -> None:
        buffer = self._buffer
        at, held = 0, len(buffer)
        view = memoryview(buffer)
        while held - at >= FRAME_HEADER_BYTES and self.transport is not None:
            (size,) = SIZE.unpack_from(buffer, at)
            if size > (FRAME_BYTES_MAX if self.is_up else HANDSHAKE_BYTES_MAX):
                raise Malformed(f"a frame of {size} bytes")
            end = at + FRAME_HEADER_BYTES + size
            if end > held:
                break
            frame = view[at + FRAME_HEADER_BYTES : end]
            at = end
            if self.is_up:
                self._owner.deliver(self, decode_message(frame))
            else:
                self._shake(decode_hello(frame))
        self._buffer = buffer[at:]

    def _shake(self, said: Hello | Refusal) -> None:
        if isinstance(said, Refusal):
            self._refuse(self._dialled or "unidentified", said)
            return
        refusal = self._owner.check(said, self._dialled)
        if refusal is not None:
            self._refuse(self._dialled or said.name, refusal)
            return
        self.hello = said
        if self._dialled is None:
            self.write((encode_hello(self._owner.hello_to(said.name)),))
        self.is_up = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._owner.link_up(self, said)

    def _refuse(self, peer: str, refusal: Refusal) -> None:
        self._owner.tell("link_refused", peer, refusal.reason)
        if self._dialled is None:
            self.write((encode_refusal(refusal),))
        self.close()

    def write(self, frames: tuple[bytes, ...] | list[bytes]) -> None:
        """One write for all frames; a peer that does not read loses its link."""
        if self.transport is None or self.transport.is_closing():
            return
        if len(frames) == 1:
            self.transport.write(SIZE.pack(len(frames[0])) + frames[0])
        else:
            parts: list[bytes] = []
            for frame in frames:
                parts.append(SIZE.pack(len(frame)))
                parts.append(frame)
            self.transport.write(b"".join(parts))
        if self.transport.get_write_buffer_size() > self._owner.policy.buffered_bytes_max:
            self._owner.tell("link_overflow", self.hello.name if self.hello else "", "")
            self.abort()

    def unread_bytes(self) -> int:
        """What was written and has not left this process."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def close(self) -> None:
        """Ends the link after what was written; nothing more of it is delivered."""
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.close()
            self._gone()

    def abort(self) -> None:
        """Ends the link at once."""
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.abort()
            self._gone()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The other side ended it."""
        if self.transport is not None:
            self.transport = None
            self._gone()

    def _gone(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        was_up, self.is_up = self.is_up, False
        self._owner.link_gone(self, was_up=was_up)
        if not self.closed.done():
            self.closed.set_result(None)


class Links:
    """All links of one node. Tells `opened`, `shut` and `received` about identified peers."""

    def __init__(
        self,
        config: ConsensusConfig,
        policy: LinkPolicy,
        *,
        rng: random.Random,
        opened: Callable[[str], None],
        shut: Callable[[str], None],
        received: Callable[[str, Message], None],
        read: Callable[[], None],
    ) -> None:
        self.config = config
        self.policy = policy
        self.loop = asyncio.get_running_loop()
        self.cluster_id: str | None = None
        self.api_urls: dict[str, str] = {}
        self.up: dict[str, Link] = {}
        self._rng = rng
        self._opened = opened
        self._shut = shut
        self._received = received
        self.read = read
        self._unidentified: list[Link] = []
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[tuple[str, str], float] = {}
        self._heard: dict[str, float] = {}

    async def start(self) -> None:
        """Binds the own address and dials; raises ConsensusError when it cannot bind."""
        address = self.config.peers[self.config.name]
        host, port = split_address(address)
        if self.policy.is_loopback_only and not is_loopback(host):
            raise ConsensusError(
                f"the Raft port {address} is not on loopback and has no encryption: anyone who "
                "reaches it owns the cluster; insecure = true allows it"
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
        host, port = split_address(self.config.peers[peer])
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
        return Hello(self.config.name, peer, self.cluster_id, self.config.api_url)

    def check(self, hello: Hello, dialled: str | None) -> Refusal | None:
        """Whether the speaker is who it must be."""
        if dialled is not None and hello.name != dialled:
            return Refusal(f"{hello.name} answers at the address of {dialled}")
        if not self.policy.checks_cluster and hello.name in self.config.peers:
            return None
        return check_hello(
            hello,
            own_name=self.config.name,
            members=self.config.peers,
            cluster_id=self.cluster_id,
        )

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
        """Hands a message on; a ping has done its work by arriving."""
        if message["type"] == "ping" or link.hello is None:
            return
        try:
            self._received(link.hello.name, message)
        except Exception:  # noqa: BLE001 - one bad message costs its link, not the loop
            logger.exception("message_failed node=%s peer=%s", self.config.name, link.hello.name)
            link.abort()

    # Everything else.

    def send(self, outbox: Mapping[str, list[bytes]]) -> None:
        """One write per peer for all that a step sends."""
        for peer, frames in outbox.items():
            link = self.up.get(peer)
            if link is not None:
                link.write(frames)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Checked from now on, also on the links that are up."""
        self.cluster_id = cluster_id
        for link in list(self.up.values()):
            refusal = self.check(link.hello, None) if link.hello else None
            if refusal is not None:
                self.tell("link_refused", link.hello.name if link.hello else "", refusal.reason)
                link.abort()

    def sever(self) -> None:
        """Ends every link at once; they come back by themselves."""
        for link in list(self.up.values()):
            link.abort()

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
        while True:
            before = self.loop.time()
            await asyncio.sleep(interval_s)
            now = self.loop.time()
            # A loop that stood still has unread answers in its sockets: judge in the next round.
            is_late = now - before > self.policy.dead_after_s / 2
            for link in list(self.up.values()):
                if not is_late and now - link.heard_at_s > self.policy.dead_after_s:
                    link.abort()
                else:
                    link.write((PING,))
