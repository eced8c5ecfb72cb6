"""How often somebody may ask, and how often an address may fail to say who it is.

Pure: time is an argument. It must not know who is asking, nor what a refusal looks like.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

FAILURES_MAX: Final = 20
"""Of one address in a window, before it is told to wait: more than a fleet with a wrong token sends
while somebody looks, and nothing beside the number of tokens."""
WINDOW_S: Final = 60.0
ADDRESSES_MAX: Final = 4_096
"""Followed at once. Beyond that the one that failed longest ago is forgotten."""
BURST_S: Final = 1.0
"""What was not asked for can be made up for so long."""


class Failures:
    """Failed attempts by address, in windows of a minute."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def count(self, address: str, now: float) -> int:
        """Note a failure; gives how many this address had in its window."""
        began_at, failures = self._seen.pop(address, (now, 0))
        if now - began_at >= WINDOW_S:
            began_at, failures = now, 0
        self._seen[address] = began_at, failures + 1
        if len(self._seen) > ADDRESSES_MAX:
            self._seen.popitem(last=False)
        return failures + 1

    def of(self, address: str, now: float) -> int:
        """How many failures this address had in its window."""
        began_at, failures = self._seen.get(address, (now, 0))
        return failures if now - began_at < WINDOW_S else 0

    def wait_s(self, address: str, now: float) -> float:
        """How long an address with too many failures is to wait."""
        began_at, _ = self._seen.get(address, (now, 0))
        return max(0.0, began_at + WINDOW_S - now)


class Rates:
    """A bucket for each name that has a rate: full at first, filled by time."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str, per_s: float, now: float) -> float:
        """Seconds until there is room for a request; 0 if there is, and then it is taken."""
        room = max(1.0, per_s * BURST_S)
        left, at = self._left.get(name, (room, now))
        left = min(room, left + max(0.0, now - at) * per_s)
        if left < 1.0:
            self._left[name] = left, now
            return (1.0 - left) / per_s
        self._left[name] = left - 1.0, now
        return 0.0

    def keep(self, names: Iterable[str]) -> None:
        """Forget everybody else."""
        known = set(names)
        self._left = {name: left for name, left in self._left.items() if name in known}
