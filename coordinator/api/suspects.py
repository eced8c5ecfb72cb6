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

Waiting = TypeVar("Waiting")


class Suspects(Generic[Waiting]):
    """Who is suspect, and what waits for its turn."""

    def __init__(self, per_s: float) -> None:
        self._every_s = 1.0 / per_s
        self._strikes = Failures()
        self._waiting: dict[Waiting, None] = {}
        """Oldest first."""
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
        self._waiting[one] = None
        return False

    @property
    def next_at(self) -> float | None:
        """When to ask for the next one; None while nobody waits."""
        return self._next_at if self._waiting else None

    def due(self, now: float) -> Waiting | None:
        """The newest of those who wait, if it is time."""
        if not self._waiting or now < self._next_at:
            return None
        self._next_at = now + self._every_s
        return self._waiting.popitem()[0]

    def gone(self, one: Waiting) -> None:
        """It waits no longer. Said of one that does not, it means nothing."""
        self._waiting.pop(one, None)
