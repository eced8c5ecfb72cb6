"""Addresses whose callers are refused often, and which of their new connections is served next.

Decides who has to wait and in which order; time is an argument. It must not know sockets nor what
a refusal looks like.

Nobody is shut out: behind one address there may be a stranger and an honest fleet. What is open
goes on, and new connections of such addresses are served at a bounded pace, the newest first: who
opens many connections fills the queue behind him, and whoever comes now and then is next.
"""

from typing import Final, Generic, TypeVar

from coordinator.api.rates import Failures

STRIKES_MAX: Final = 300
"""Refusals of one address in a minute, beyond which it is suspect: more than a fleet of hundreds
that meets a limit, and a second's work for a program that means no good."""

KEPT_BYTES_MAX: Final = 32 << 20
"""Of what all who wait have said already: a header each of ten thousand, or a body of many."""

Waiting = TypeVar("Waiting")


class Suspects(Generic[Waiting]):
    """Who is suspect, and what waits for its turn."""

    def __init__(self, per_s: float) -> None:
        self._every_s = 1.0 / per_s
        self._strikes = Failures()
        self._waiting: dict[Waiting, int] = {}
        """Oldest first, each with the bytes that are kept of it."""
        self._kept_bytes = 0
        self._next_at = float("-inf")

    def __len__(self) -> int:
        return len(self._waiting)

    def strike(self, address: str, now: float) -> bool:
        """Note a refusal; True when this one makes the address suspect."""
        return self._strikes.count(address, now) == STRIKES_MAX + 1

    def may_begin(self, address: str, now: float, one: Waiting) -> bool:
        """Whether it may be served now; else it waits until `due`, or until it is `gone`."""
        if self._strikes.of(address, now) <= STRIKES_MAX:
            return True
        if now >= self._next_at:
            self._next_at = now + self._every_s
            return True
        self._waiting[one] = 0
        return False

    def has_room(self, one: Waiting, size: int) -> bool:
        """Whether so many more bytes of it may be kept until its turn; else it has none."""
        if one not in self._waiting or self._kept_bytes + size > KEPT_BYTES_MAX:
            self.gone(one)
            return False
        self._waiting[one] += size
        self._kept_bytes += size
        return True

    @property
    def next_at(self) -> float | None:
        """When to ask for the next one; None while nobody waits."""
        return self._next_at if self._waiting else None

    def due(self, now: float) -> Waiting | None:
        """The newest of those who wait, if it is time."""
        if not self._waiting or now < self._next_at:
            return None
        self._next_at = now + self._every_s
        one, size = self._waiting.popitem()
        self._kept_bytes -= size
        return one

    def gone(self, one: Waiting) -> None:
        """It waits no longer. Said of one that does not, it means nothing."""
        self._kept_bytes -= self._waiting.pop(one, 0)
