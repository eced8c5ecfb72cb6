"""Whoever waits for a majority's word that this node leads, and for how long.

Decides who is told, once, and when it is too late. Must not know rounds, which are `probe`'s, nor
the network. Nobody is told inside a tick of the library, where a fault would be taken for its own.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from coordinator.consensus.contract import (
    IN_FLIGHT_MAX,
    ConsensusError,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    ProbeTimeout,
)
from coordinator.consensus.library import logger
from coordinator.consensus.replica import Replica

TIMEOUT_S: Final = 2.0
"""A round takes milliseconds; by then another node leads, or soon will."""

TELLING_S: Final = 0.002
"""Of one turn of the loop, and what the last one takes: a word that fifteen heartbeats of a
thousand loads had waited for took 50 ms of one turn to pass on, while all else stood still."""

Told = Callable[[int | ConsensusError], None]
"""Called once with the confirmed term, or with what stands against it."""


def resolve(future: asyncio.Future[int], found: int | ConsensusError) -> None:
    """Tell a task that waits for the future."""
    if future.done():
        return
    if isinstance(found, ConsensusError):
        future.set_exception(found)
    else:
        future.set_result(found)


class Confirmation:
    """One that was asked for."""

    __slots__ = ("_book", "deadline_s", "told")

    def __init__(self, book: "Confirmations", told: Told, deadline_s: float) -> None:
        self._book = book
        self.told = told
        self.deadline_s = deadline_s

    def forget(self) -> None:
        """Nobody wants to be told any more."""
        self._book.drop(self)

    def settle(self, term: int | None) -> None:
        """The round is over: a term, or None when this node does not lead."""
        self._book.settle(self, term)


class Confirmations:
    """All that were asked for and not told yet."""

    def __init__(
        self, replica: Replica, monotonic: Callable[[], float], kick: Callable[[], None]
    ) -> None:
        """`kick` brings a step of the replica."""
        self._replica = replica
        self._monotonic = monotonic
        self._kick = kick
        self._resting: asyncio.TimerHandle | None = None
        self._rests_until_s = 0.0
        self._waiting: dict[Confirmation, None] = {}
        self._settled: deque[tuple[Confirmation, int | None]] = deque()
        self._telling: asyncio.Handle | None = None
        """The next turn, once this one has told enough."""

    def ask(self, told: Told, timeout_s: float, patience_s: float) -> Confirmation:
        """Join the next round; raises NotLeader, or Overloaded when too many wait already.

        For so long others are waited for, who may share the round.
        """
        if not self._replica.engine.is_leader:
            raise NotLeader(self._replica.leader)
        if len(self._waiting) >= IN_FLIGHT_MAX:
            raise Overloaded(f"{len(self._waiting)} probes are waiting")
        now = self._monotonic()
        one = Confirmation(self, told, now + timeout_s)
        self._waiting[one] = None
        self._replica.confirm(one.settle, now + patience_s)
        self._see_to_a_round()
        return one

    def _see_to_a_round(self) -> None:
        """A step for whoever waits, when a round may begin for them."""
        now = self._monotonic()
        due_s = self._replica.probe.due_s(now)
        if due_s == 0.0:
            self._kick()
        elif due_s is not None and (self._resting is None or now + due_s < self._rests_until_s):
            if self._resting is not None:
                self._resting.cancel()
            self._rests_until_s = now + due_s
            self._resting = asyncio.get_running_loop().call_later(due_s, self._rested)

    def _rested(self) -> None:
        self._resting = None
        self._kick()

    def drop(self, one: Confirmation) -> None:
        """Tell it nothing."""
        self._waiting.pop(one, None)

    def settle(self, one: Confirmation, term: int | None) -> None:
        """Keep what it is to be told until the step is over, or a turn after it."""
        one.deadline_s = inf  # the word came in time, however long the others take
        self._settled.append((one, term))

    def tell(self) -> None:
        """Tell everybody whose round is over, a share of them each turn; called after a step."""
        if self._telling is None:
            self._tell_some()
        self._see_to_a_round()

    def _tell_some(self) -> None:
        self._telling = None
        until = self._monotonic() + TELLING_S
        while self._settled:
            one, term = self._settled.popleft()
            self._tell(one, NotLeader(self._replica.leader) if term is None else term)
            if self._monotonic() >= until:
                # Also with nobody left: more steps may come in this turn, with more to tell.
                self._telling = asyncio.get_running_loop().call_soon(self._tell_some)
                return

    def expire(self, now: float) -> None:
        """Tell those who have waited for long enough."""
        late = [one for one in self._waiting if one.deadline_s <= now]
        for one in late:
            self._tell(one, ProbeTimeout("no majority confirmed the leadership in time"))

    def give_up(self, why: str) -> None:
        """Tell everybody that there will be no word."""
        self._settled.clear()
        for one in list(self._waiting):
            self._tell(one, OutcomeUnknown(why))

    def _tell(self, one: Confirmation, found: int | ConsensusError) -> None:
        if one not in self._waiting:
            return
        del self._waiting[one]
        try:
            one.told(found)
        except Exception:  # noqa: BLE001 - a listener must not end a link or a step
            logger.exception("listener_raised node=%s", self._replica.name)
