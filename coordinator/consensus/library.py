"""The one place that reaches into PySyncObj 0.3.17: its clock, chance, journal and private names.

Decides nothing about Raft; it gives names to what the cures need. The contract tests compare
every private name used here with the installed library, and the version is pinned exactly.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

import pysyncobj.serializer as _serializer
import pysyncobj.syncobj as _syncobj
from pysyncobj.config import FAIL_REASON, SERIALIZER_STATE
from pysyncobj.node import Node
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from coordinator.consensus import codec

VERSION_EXPECTED: Final = "0.3.17"
if VERSION != VERSION_EXPECTED:  # pragma: no cover - another version is another library
    raise ImportError(f"PySyncObj {VERSION_EXPECTED} is needed, this is {VERSION}")

SUCCESS: Final[int] = FAIL_REASON.SUCCESS
QUEUE_FULL: Final[int] = FAIL_REASON.QUEUE_FULL
MISSING_LEADER: Final[int] = FAIL_REASON.MISSING_LEADER
DISCARDED: Final[int] = FAIL_REASON.DISCARDED
NOT_LEADER: Final[int] = FAIL_REASON.NOT_LEADER
UNKNOWN_OUTCOME: Final[int] = FAIL_REASON.UNKNOWN_OUTCOME
NOT_SERIALIZING: Final[int] = SERIALIZER_STATE.NOT_SERIALIZING
SERIALIZING: Final[int] = SERIALIZER_STATE.SERIALIZING
SERIALIZED: Final[int] = SERIALIZER_STATE.SUCCESS

REGULAR: Final = 0
NO_OP_ENTRY: Final = b"\x01"
FOLLOWER: Final = 0
CANDIDATE: Final = 1
LEADER: Final = 2

Entry = tuple[bytes, int, int]
"""(command, index, term), as the library keeps it."""
Answer = Callable[[Any, int], None]

logger = logging.getLogger("coordinator.consensus")


class _Clock:
    """The source of the library's time: one name for a whole process, set by whoever steps."""

    source: Callable[[], float] = staticmethod(time.monotonic)


def read_clock() -> float:
    """The time of whoever steps."""
    return _Clock.source()


def use_clock(source: Callable[[], float]) -> None:
    """Makes the library read this clock until the next call."""
    _Clock.source = source


_syncobj.monotonicTime = read_clock
_syncobj.pickle = codec.PickleStandIn
_serializer.pickle = codec.PickleStandIn


class RepeatsOnce(logging.Filter):
    """Lets each of the library's log templates through once in `interval_s`: it logs per tick."""

    def __init__(self, interval_s: float = 5.0) -> None:
        super().__init__()
        self._interval_s = interval_s
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True when this template was not let through lately."""
        now = time.monotonic()
        if now - self._last.get(record.msg, -self._interval_s) < self._interval_s:
            return False
        self._last[record.msg] = now
        return True


logging.getLogger("pysyncobj.syncobj").addFilter(RepeatsOnce())


class Member(Node):  # type: ignore[misc]  # the library has no types
    """A member by its name; hashes alike in every process, so that a seed repeats exactly."""

    def __init__(self, id: str, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self._hash: int = sum(self.id.encode())  # asked for twice per entry and follower

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and bool(self.id == other.id)


class Port(Transport):  # type: ignore[misc]  # the library has no types
    """The library's transport without a network: what it sends is handed to one function."""

    def __init__(self, send: Callable[[str, codec.Message], bool]) -> None:
        super().__init__(None, None, ())
        self._send = send

    def send(self, node: Node, message: codec.Message) -> bool:
        """True when the peer is connected and the message is on its way."""
        return self._send(node.id, message)

    def addNode(self, node: Node) -> None:
        """Members are static."""

    def dropNode(self, node: Node) -> None:
        """Members are static."""

    def destroy(self) -> None:
        """Nothing is held."""

    @property
    def ready(self) -> bool:
        """There is nothing to wait for: binding is not the engine's business."""
        return True

    def deliver(self, node: Node, message: codec.Message) -> None:
        """Hands a message of a peer to the library."""
        self._onMessageReceived(node, message)

    def open(self, node: Node) -> None:
        """Tells the library that a link is up."""
        self._onNodeConnected(node)

    def shut(self, node: Node) -> None:
        """Tells the library that a link is down."""
        self._onNodeDisconnected(node)
