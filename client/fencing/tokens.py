"""What a write shows of its authority, and the plainest thing that can judge it.

Decides when an epoch is too low: when a higher one was seen for the same shard. It must not know
any store.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from client.errors import FencedOut


class Owned(Protocol):
    """Whatever names a shard and the epoch under which it is owned: a `Shard`, or a `Token`."""

    @property
    def namespace(self) -> str:
        """The namespace of the shard."""
        ...

    @property
    def key(self) -> str:
        """The shard's name within its namespace."""
        ...

    @property
    def epoch(self) -> int:
        """The fencing token. Of a `Shard` it can rise: it is read once for each write."""
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """A shard under one epoch, as it travels with a message to where the data is."""

    namespace: str
    key: str
    epoch: int

    @classmethod
    def of(cls, owned: Owned) -> "Token":
        """The token of a shard at this moment."""
        return cls(owned.namespace, owned.key, owned.epoch)


class Fence(Protocol):
    """Remembers the highest epoch per shard and refuses lower ones."""

    def admit(self, owned: Owned) -> None:
        """Let a write through and refuse every lower epoch from now on, or raise `FencedOut`."""
        ...


def fenced_out(token: Owned, highest: int) -> FencedOut:
    """The error of a write that came too late."""
    return FencedOut(
        f"shard {token.namespace}/{token.key} is written to under epoch {highest} by now:"
        f" epoch {token.epoch} comes too late",
        epoch=token.epoch,
        highest=highest,
    )


class MemoryFence:
    """A fence for data that lives in the memory of this one process. Usable from any thread.

    It holds one integer per shard for as long as it lives, and forgets none by itself: a shard
    that was forgotten admits any epoch.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.RLock()
        self._highest: Final[dict[tuple[str, str], int]] = {}

    def admit(self, owned: Owned) -> None:
        """Let a write through, or raise `FencedOut`.

        The write itself must follow before anybody else is admitted: without an `await` in
        between, or under `admitted`.
        """
        token = Token.of(owned)
        with self._lock:
            name = (token.namespace, token.key)
            highest = self._highest.get(name, token.epoch)
            if token.epoch < highest:
                raise fenced_out(token, highest)
            self._highest[name] = token.epoch

    @contextmanager
    def admitted(self, owned: Owned) -> Iterator[None]:
        """Admit a write and keep everybody else out until it is done, from other threads too."""
        with self._lock:
            self.admit(owned)
            yield
