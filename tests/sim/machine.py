"""What the simulated nodes replicate: numbered commands, and the real cluster state beside them.

Decides nothing. Must not know who proposes. The number's history shows what consensus did; the
real state shows what a client of the product would be told.
"""

import hashlib
import itertools
from collections.abc import Callable, Generator, Iterator

import msgpack

from coordinator.core.commands import Outcome
from coordinator.replica import StateMachine


def numbered(command: int) -> bytes:
    """The payload of a numbered command; it begins with a zero, as no entry of the product does.

    A small batch holds only a few of them.
    """
    return command.to_bytes(4) + b"." * 146


class Books:
    """A sliced state machine: all numbers in order, the real state, and a hash of all of it."""

    def __init__(self) -> None:
        self.commands: list[int] = []
        self.digest = b"\0" * 8
        self.registry = StateMachine()

    def apply(self, index: int, payload: bytes) -> int | Outcome:
        """A number is answered with its index, an entry with its outcome."""
        answer: int | Outcome = index
        told = payload
        if payload[0]:
            answer = self.registry.apply(index, payload)
            told += repr(answer).encode()
        else:
            self.commands.append(int.from_bytes(payload[:4]))
        self.digest = hashlib.blake2b(self.digest + told, digest_size=8).digest()
        return answer

    def parts(self) -> Iterator[bytes]:
        """The numbers first, then the state's own parts."""
        packed: bytes = msgpack.packb((self.commands, self.digest))
        return itertools.chain([packed], self.registry.parts())

    def prepare(self, parts: Iterator[bytes]) -> Generator[None, None, Callable[[], None]]:
        """Reads both; returns what replaces both."""
        commands, digest = msgpack.unpackb(next(parts))
        yield
        replace = yield from self.registry.prepare(parts)

        def install() -> None:
            self.commands, self.digest = commands, digest
            replace()

        return install
