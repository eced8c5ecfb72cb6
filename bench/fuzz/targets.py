"""What is fuzzed: each target takes any bytes, and only what it documents may be raised.

The first byte of the input says how the rest is cut into reads, where that matters.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from coordinator.codec import FORMATS, UnknownFormatError, decode_snapshot
from coordinator.consensus.codec import Malformed, decode_message
from coordinator.consensus.handshake import Hello, Refusal, decode_hello, encode_hello
from coordinator.consensus.link import Link
from coordinator.consensus.link_policy import LinkPolicy
from coordinator.consensus.sealed import Opener
from coordinator.core.state import ClusterState

HELLO: Final = Hello("n2", "n1", "c", "http://n2", "h:2", {"n3": (7, "h:3")}, (1, 2))


class Loop:
    """As much of an event loop as a link asks for."""

    def time(self) -> float:
        return 0.0

    def call_later(self, _delay_s: float, _callback: Any) -> Any:
        return self

    def cancel(self) -> None:
        pass

    def create_future(self) -> Any:
        return self

    def done(self) -> bool:
        return True


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass

    abort = close


class Owner:
    """Keeps one link, and admits whoever says a well-formed hello."""

    def __init__(self) -> None:
        self.loop: Any = Loop()
        self.policy = LinkPolicy()
        self.delivered: list[Any] = []
        self.told: list[str] = []
        self.reads = 0

    def secure(self, *, is_server: bool) -> None:
        del is_server

    def check_names(self, _names: frozenset[str], _dialled: str | None) -> Refusal | None:
        return None

    def check(self, _hello: Hello, _dialled: Any, _names: Any) -> Refusal | None:
        return None

    def hello_to(self, _peer: str) -> Hello:
        return HELLO

    def refused(self, _peer: str, refusal: Refusal) -> None:
        self.told.append(refusal.reason)

    def admit_unidentified(self, _link: Link) -> None:
        pass

    def link_up(self, _link: Link, _hello: Hello) -> None:
        pass

    def link_gone(self, _link: Link, *, was_up: bool) -> None:
        del was_up

    def deliver(self, _link: Link, message: Any) -> None:
        self.delivered.append(message)

    def read(self) -> None:
        self.reads += 1

    def tell(self, event: str, _peer: str, _why: str) -> None:
        self.told.append(event)


def cut(data: bytes) -> Iterator[bytes]:
    """The rest of the input in reads of a size that its first byte names."""
    size = data[0] + 1 if data else 1
    return (data[at : at + size] for at in range(1, len(data), size))


def linked(owner: Owner) -> tuple[Link, Wire]:
    link, wire = Link(owner, None), Wire()
    link.connection_made(wire)  # type: ignore[arg-type]  # as much of a transport as is used
    return link, wire


def strangers(data: bytes) -> None:
    """A connection from its first byte on. Nothing is said before a hello was understood."""
    owner = Owner()
    link, wire = linked(owner)
    for read in cut(data):
        link.data_received(read)
        if link.transport is None:
            break
    assert link.hello is not None or owner.told or not wire.written
    assert link.hello is not None or not owner.delivered


def frames(data: bytes) -> None:
    """A connection of a member. It ends at the first thing that is wrong, and says so."""
    owner = Owner()
    link, _ = linked(owner)
    hello = encode_hello(HELLO)
    link.data_received(len(hello).to_bytes(4, "little") + hello)
    assert link.is_up
    for read in cut(data):
        link.data_received(read)
        if link.transport is None:
            assert owner.told == ["link_malformed"]
            break


def message(data: bytes) -> None:
    try:
        decode_message(data)
    except Malformed:
        return


def hello(data: bytes) -> None:
    try:
        said = decode_hello(data)
    except Malformed:
        return
    if isinstance(said, Hello):
        assert decode_hello(encode_hello(said)) == said


def entry(data: bytes) -> None:
    try:
        _, read = FORMATS.decode(data)
    except UnknownFormatError:
        return
    ClusterState().apply(read)


def snapshot(data: bytes) -> None:
    """A sealed snapshot as it comes from a peer, in chunks."""
    opener = Opener()
    try:
        for chunk in cut(data):
            opener.feed(chunk)
        opener.covered()
        parts = [*opener.parts()]
    except Malformed:
        return
    state(*parts)


def state(*parts: bytes) -> None:
    """The parts of a snapshot, once its seal was found whole."""
    try:
        decode_snapshot(parts)
    except UnknownFormatError:
        return


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "strangers": strangers,
    "frames": frames,
    "message": message,
    "hello": hello,
    "entry": entry,
    "snapshot": snapshot,
    "state": state,
}
