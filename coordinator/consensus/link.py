"""One connection between members: secured, a hello each way, then frames until it ends.

Decides when the other end is identified and which bytes break the rules. Must not know the other
links, Raft, or when to dial. With certificates nothing is read before the other end proved to be a
member: no frame is cut from bytes that are not authenticated.
"""

import asyncio
from struct import Struct
from typing import Final, Protocol, cast

from coordinator.consensus.codec import (
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    HANDSHAKE_BYTES_MAX,
    Malformed,
    Message,
    decode_message,
)
from coordinator.consensus.handshake import (
    Hello,
    Refusal,
    decode_hello,
    encode_hello,
    encode_refusal,
)
from coordinator.consensus.link_policy import LinkPolicy
from coordinator.consensus.session import Session, Untrusted

SIZE: Final = Struct("<I")
TURN_BYTES_MAX: Final = 256 << 10
"""Taken in of a link before others have their turn: 2,000 small entries, in 5 ms."""
FRAME_COST_BYTES: Final = 2 << 10
"""What a frame counts beside its bytes: 128 small ones take as long."""
STRANGE_BYTES_MAX: Final = 64 << 10
"""Of a connection that has not said who it is: a handshake with a chain of certificates takes 8."""


class Owner(Protocol):
    """What a link asks of whoever keeps the links."""

    loop: asyncio.AbstractEventLoop
    policy: LinkPolicy

    def secure(self, *, is_server: bool) -> Session | None:
        """A TLS session for a new connection; None on a plaintext port."""

    def check_names(self, names: frozenset[str], dialled: str | None) -> Refusal | None:
        """Whether a certificate of these names may speak here at all."""

    def check(
        self, hello: Hello, dialled: str | None, names: frozenset[str] | None
    ) -> Refusal | None:
        """Whether the speaker is who it must be."""

    def hello_to(self, peer: str) -> Hello:
        """What this node says of itself."""

    def refused(self, peer: str, refusal: Refusal) -> None:
        """A hello was not admitted, here or there."""

    def admit_unidentified(self, link: "Link") -> None:
        """One more stranger."""

    def link_up(self, link: "Link", hello: Hello) -> None:
        """A link identified its other end."""

    def link_gone(self, link: "Link", *, was_up: bool) -> None:
        """A link ended."""

    def deliver(self, link: "Link", message: Message) -> None:
        """One message of an identified link."""

    def read(self) -> None:
        """All that one read of a socket brought was delivered."""

    def tell(self, event: str, peer: str, why: str) -> None:
        """Trouble with a peer."""


class Link(asyncio.Protocol):
    """One connection: a hello each way, then frames until it ends."""

    def __init__(self, owner: Owner, dialled: str | None) -> None:
        self._owner = owner
        self._dialled = dialled
        self._buffer = b""
        self._strange_bytes = 0
        self._session = owner.secure(is_server=dialled is None)
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.hello: Hello | None = None
        self.is_up = False
        self.heard_at_s = 0.0
        self.closed: asyncio.Future[None] = owner.loop.create_future()
        self._turn_bytes = 0
        self._is_resting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The dialler speaks first; a stranger gets nothing."""
        # Not checked: uvloop's transports have the methods but not the class.
        self.transport = cast(asyncio.Transport, transport)
        self.heard_at_s = self._owner.loop.time()
        self._deadline = self._owner.loop.call_later(self._owner.policy.handshake_s, self.abort)
        if self._dialled is None:
            self._owner.admit_unidentified(self)
        elif self._session is not None:
            self.transport.write(self._session.begin())
        else:
            self.write((encode_hello(self._owner.hello_to(self._dialled)),))

    def data_received(self, data: bytes) -> None:
        """Cuts frames; what breaks the rules ends the link."""
        self.heard_at_s = self._owner.loop.time()
        strange_bytes = 0 if self.is_up else len(data)
        try:
            if self._session is not None:
                data = self._unseal(self._session, data)
            self._buffer = self._buffer + data if self._buffer else data
            if self._is_resting:
                return
            self._read_frames()
            if not self.is_up:
                self._count_strange(strange_bytes)
            self._owner.read()
        except Untrusted as error:
            self._owner.tell("link_untrusted", self._peer, str(error))
            if self.transport is not None and error.answer:
                self.transport.write(error.answer)
            self.close()
        except Malformed as error:
            self._owner.tell("link_malformed", self._peer, str(error))
            self.abort()

    def _rest(self) -> None:
        """The loop reads a socket as long as there is something in it: others must have a turn."""
        self._turn_bytes = 0
        if self.transport is not None:
            self._is_resting = True
            self.transport.pause_reading()
            self._owner.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._is_resting = False
        if self.transport is None or self.transport.is_closing():
            return
        self.data_received(b"")
        if not self._is_resting and self.transport is not None:
            self.transport.resume_reading()

    @property
    def _peer(self) -> str:
        return self.hello.name if self.hello else self._dialled or "unidentified"

    def _unseal(self, session: Session, data: bytes) -> bytes:
        was_secure = session.names is not None
        said, answer = session.receive(data)
        if answer and self.transport is not None:
            self.transport.write(answer)
        if session.names is None or was_secure:
            return said
        refusal = self._owner.check_names(session.names, self._dialled)
        if refusal is not None:
            raise Untrusted(refusal.reason)
        if self._dialled is not None:
            self.write((encode_hello(self._owner.hello_to(self._dialled)),))
        return said

    def _count_strange(self, size: int) -> None:
        self._strange_bytes += size
        if self._strange_bytes > STRANGE_BYTES_MAX:
            raise Malformed("too much was said before a hello")

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
            self._turn_bytes += FRAME_COST_BYTES + size
            if self.is_up:
                self._owner.deliver(self, decode_message(frame))
            else:
                self._shake(decode_hello(frame))
            if self._turn_bytes > TURN_BYTES_MAX:
                self._rest()
                break
        self._buffer = buffer[at:]

    def _shake(self, said: Hello | Refusal) -> None:
        if isinstance(said, Refusal):
            self._refuse(self._dialled or "unidentified", said)
            return
        names = None if self._session is None else self._session.names
        refusal = self._owner.check(said, self._dialled, names)
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
        self._owner.refused(peer, refusal)
        if self._dialled is None:
            self.write((encode_refusal(refusal),))
        self.close()

    def write(self, frames: tuple[bytes, ...] | list[bytes]) -> None:
        """One write for all frames; a peer that does not read loses its link."""
        if self.transport is None or self.transport.is_closing():
            return
        if len(frames) == 1:
            data = SIZE.pack(len(frames[0])) + frames[0]
        else:
            parts: list[bytes] = []
            for frame in frames:
                parts.append(SIZE.pack(len(frame)))
                parts.append(frame)
            data = b"".join(parts)
        self.transport.write(data if self._session is None else self._session.seal(data))
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
