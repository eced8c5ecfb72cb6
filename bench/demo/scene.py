"""What is shown of a running demo, as plain values.

Decides nothing: the stage fills it in, the view draws it.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import msgspec

EVENTS_SHOWN: Final = 8
SPREADS_SHOWN: Final = 60


class Share(msgspec.Struct, frozen=True):
    """One executor in the balance."""

    executor: str
    load: float = 0.0
    utilisation: float = 0.0
    shards: int = 0


class LastPass(msgspec.Struct, frozen=True):
    """What the balancer did last."""

    at: str = ""
    moves: int = 0
    stopped: str = ""


class Balance(msgspec.Struct, frozen=True):
    """The answer of `GET …/balance`, as far as the demo needs it."""

    mode: str = ""
    executors: list[Share] = []
    hottest: float = 0.0
    mean: float = 0.0
    coldest: float = 0.0
    spread: float = 0.0
    best_possible: float = 0.0
    static_hash: float | None = None
    last_pass: LastPass | None = None
    in_flight: int = 0
    unmeasured: int = 0
    blocked: str | None = None


@dataclass(slots=True)
class Scene:
    """The state of the demo at this moment."""

    seconds: float
    phase: str = "starting"
    passed_s: float = 0.0
    leader: str = ""
    nodes: dict[str, str] = field(default_factory=dict)
    executors: dict[str, str] = field(default_factory=dict)
    """Name -> what became of it: "active", "draining", "drained", "killed"."""
    balance: Balance | None = None
    """The last one in which every shard was measured."""
    unmeasured: int = 0
    """Shards of whose load the leader has not heard yet."""
    spreads: deque[float] = field(default_factory=lambda: deque(maxlen=SPREADS_SHOWN))
    moves: int = 0
    drain: str = ""
    lookups: int = 0
    ownerless: int = 0
    events: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=EVENTS_SHOWN))

    def tell(self, text: str) -> None:
        """Something happened that people should read."""
        self.events.append((self.passed_s, text))
