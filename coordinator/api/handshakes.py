"""Who shakes hands by TLS at the same time, and who waits until others have.

Decides whose handshake is next; time is an argument. It must not know sockets nor certificates.

A handshake takes a node a millisecond, and one turn of its loop goes through all for which anything
came: a thousand strangers at once would have every honest caller wait for a second. So few go on at
the same time. The newest of those who wait is next, as among suspects, and one that takes long goes
when others wait, so that who says nothing holds up nobody.
"""

from typing import Final, Generic, TypeVar

AT_ONCE: Final = 32
"""Of a turn of the loop they take 20 ms at most: so long a heartbeat may well wait."""
UNDISTURBED_S: Final = 1.0
"""Several trips around the earth: who takes longer goes if others wait."""

Place = TypeVar("Place")


class Handshakes(Generic[Place]):
    """Who shakes hands now, and who waits for it."""

    def __init__(self) -> None:
        self._begun: dict[Place, float] = {}
        """When, the oldest first."""
        self._waiting: dict[Place, None] = {}
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._waiting)

    def may_begin(self, one: Place, now: float) -> bool:
        """Whether it may begin now; else it waits until it is `next`, or it is `over`."""
        if len(self._begun) < AT_ONCE:
            self._begun[one] = now
            return True
        self._waiting[one] = None
        return False

    def over(self, one: Place) -> None:
        """It shakes hands no more, nor waits for it. Said again, it means nothing."""
        self._begun.pop(one, None)
        self._waiting.pop(one, None)

    def next(self, now: float) -> Place | None:
        """Who begins now, if there is room."""
        if not self._waiting or len(self._begun) >= AT_ONCE:
            return None
        one, _ = self._waiting.popitem()
        self._begun[one] = now
        return one

    @property
    def overdue_at(self) -> float | None:
        """When somebody has to go; None while nobody waits."""
        if not self._waiting:
            return None
        return next(iter(self._begun.values())) + UNDISTURBED_S

    def overdue(self, now: float) -> list[Place]:
        """Who has to go, one for each that waits."""
        late = [one for one, at in self._begun.items() if at + UNDISTURBED_S <= now]
        return late[: len(self._waiting)]
