"""Who may still act: the leader's soft leases of one namespace, and the mass-failure guard.

Decides when a lease has run out on the leader's side. All times are seconds of one monotonic
clock, the leader's own, given as arguments. Must not know what a lease protects, what is done
when it runs out, or how a heartbeat travelled; and it never compares clocks of two machines: the
executor counts its own, shorter, lease from the moment it *sent* the heartbeat.
"""

from collections.abc import Iterable, KeysView
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Final

EXPIRY: Final = "expiry"
"""Closes a lease because it ran out."""


@dataclass(slots=True)
class _Lease:
    """What the leader remembers of one incarnation of an executor."""

    deadline: float
    closers: list[object] = field(default_factory=list)
    """Proposals under way that would end it: while there is one it is not renewed."""


class LeaseBook:
    """Leases of the executors of one namespace, by (executor, incarnation).

    An incarnation that was superseded keeps its own lease until the caller forgets it: its
    successor may start only when that one has run out, left or acknowledged.
    """

    def __init__(self, clock_error: float = 0.01) -> None:
        # 1 %: quartz is a hundred times better; a virtual machine being migrated may not be.
        self._stretch = 1.0 + clock_error
        self._leases: dict[tuple[str, str], _Lease] = {}
        self._incarnations: dict[str, list[str]] = {}
        self._heard_at: dict[str, float] = {}
        self._shortest_s = inf
        """No executor's longest lease, from when it was last heard, is shorter than this."""
        # One queue entry per lease is true: the one whose deadline is in _queued. An entry may be
        # earlier than its lease (renewals do not touch the queue), never later.
        self._queue: list[tuple[float, str, str]] = []
        self._queued: dict[tuple[str, str], float] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, executor: str) -> bool:
        return executor in self._incarnations

    def names(self) -> KeysView[tuple[str, str]]:
        """Executor and incarnation of each lease."""
        return self._leases.keys()

    def begin_term(self, executors: Iterable[tuple[str, str]], ttl_s: float, now: float) -> None:
        """Start over as a new leader: everyone on record has a full lease from `now`.

        The former leader may have renewed any of them up to this moment, unseen by us.
        """
        self._leases.clear()
        self._incarnations.clear()
        self._heard_at.clear()
        self._queue.clear()
        self._queued.clear()
        self._shortest_s = inf
        for executor, incarnation in executors:
            self.renew(executor, incarnation, ttl_s, now)

    def renew(self, executor: str, incarnation: str, ttl_s: float, received_at: float) -> bool:
        """Note a heartbeat received at `received_at`; False while its incarnation is closing.

        A deadline never moves back: with a shorter `ttl_s` the longer promise made before stands.
        """
        name = (executor, incarnation)
        lease = self._leases.get(name)
        if lease is not None and lease.closers:
            return False
        heard_at = self._heard_at[executor] = max(
            self._heard_at.get(executor, received_at), received_at
        )
        deadline = self.lease_end(received_at, ttl_s)
        if lease is None:
            self._leases[name] = _Lease(deadline)
            self._incarnations.setdefault(executor, []).append(incarnation)
            self._enqueue(deadline, name)
        elif deadline > lease.deadline:
            lease.deadline = deadline
        length_s = ttl_s if received_at == heard_at else self._length_s(executor)
        self._shortest_s = min(self._shortest_s, length_s)
        return True

    def lease_end(self, received_at: float, ttl_s: float) -> float:
        """The moment from which a lease answered to a heartbeat cannot be valid any more."""
        return received_at + ttl_s * self._stretch

    def deadline(self, executor: str, incarnation: str) -> float | None:
        """When this incarnation's lease runs out; None if it has none."""
        lease = self._leases.get((executor, incarnation))
        return None if lease is None else lease.deadline

    def forget(self, executor: str, incarnation: str | None = None) -> None:
        """Drop one incarnation of an executor, or with None the executor altogether."""
        known = self._incarnations.get(executor, [])
        for gone in [one for one in known if incarnation in (None, one)]:
            known.remove(gone)
            del self._leases[executor, gone]
        if not known:
            self._incarnations.pop(executor, None)
            self._heard_at.pop(executor, None)
        else:
            # What is left may be the shorter lease of one that was not heard last.
            self._shortest_s = min(self._shortest_s, self._length_s(executor))

    def expired(self, now: float) -> list[tuple[str, str]]:
        """Incarnations whose lease has run out, closing ones too; earliest first, then by name.

        They are named again at every call until they are forgotten.
        """
        first = self.next_deadline()
        if first is None or first > now:
            return []
        over = [(one.deadline, *name) for name, one in self._leases.items() if one.deadline <= now]
        return [(executor, incarnation) for _, executor, incarnation in sorted(over)]

    def next_deadline(self, after: float | None = None) -> float | None:
        """The earliest deadline, or the earliest one later than `after`.

        With `after=now` a leader that must wait before it acts (guard, proposal under way) is not
        woken over and over by a deadline that has passed.
        """
        while self._queue:
            queued_at, executor, incarnation = self._queue[0]
            name = (executor, incarnation)
            lease = self._leases.get(name)
            if lease is not None and lease.deadline == queued_at:
                if after is None or queued_at > after:
                    return queued_at
                return min(
                    (one.deadline for one in self._leases.values() if one.deadline > after),
                    default=None,
                )
            heappop(self._queue)
            if self._queued.get(name) == queued_at:
                del self._queued[name]
                if lease is not None:
                    self._enqueue(lease.deadline, name)
        return None

    def last_heard(self, executor: str) -> float | None:
        """Receipt of its last heartbeat (or the start of the term); None if unknown."""
        return self._heard_at.get(executor)

    def silent_for(self, executor: str, now: float) -> float | None:
        """Seconds since its last heartbeat, never below 0; None if unknown."""
        heard_at = self._heard_at.get(executor)
        return None if heard_at is None else max(0.0, now - heard_at)

    def is_silent(self, executor: str, ttl_s: float, now: float) -> bool:
        """Whether an executor was not heard for more than half of its lease.

        `ttl_s` is what heartbeats are answered now. A lease from before it was made longer counts
        by its own length: it may run out before half of the longer one has passed.
        """
        heard_at = self._heard_at.get(executor)
        if heard_at is None:
            return False
        return now - heard_at > min(ttl_s, self._length_s(executor)) / 2

    def silent(self, ttl_s: float, now: float) -> set[str]:
        """All that are."""
        # Asked of thousands at each step of a leader, and nearly all were heard just now. A little
        # less than half of the shortest, or what was rounded off would hide somebody.
        enough_s = 0.49 * min(ttl_s, self._shortest_s)
        quiet = [one for one, heard_at in self._heard_at.items() if now - heard_at > enough_s]
        return {one for one in quiet if self.is_silent(one, ttl_s, now)}

    def _length_s(self, executor: str) -> float:
        """Of the longest lease of an executor, from when it was last heard; it may be below 0."""
        leases = (self._leases[executor, one] for one in self._incarnations[executor])
        ends_at = max(lease.deadline for lease in leases)
        return (ends_at - self._heard_at[executor]) / self._stretch

    def add_pause(self, gap_s: float) -> None:
        """Give everyone the time in which the leader itself stood still and could hear nobody."""
        if gap_s <= 0.0:
            return
        for lease in self._leases.values():
            lease.deadline += gap_s
        for executor in self._heard_at:
            self._heard_at[executor] += gap_s

    def close(self, executor: str, incarnation: str, by: object = EXPIRY) -> None:
        """Stop renewing: an expiry, eviction or supersession of it is proposed.

        Its heartbeats must not be acknowledged before the outcome is known. Several proposals may
        be under way; each is told by its `by`.
        """
        lease = self._leases.get((executor, incarnation))
        if lease is not None and by not in lease.closers:
            lease.closers.append(by)

    def reopen(self, executor: str, incarnation: str, by: object = EXPIRY) -> None:
        """A proposal came to nothing: it may renew again once no other is under way."""
        lease = self._leases.get((executor, incarnation))
        if lease is not None and by in lease.closers:
            lease.closers.remove(by)

    def is_closing(self, executor: str, incarnation: str) -> bool:
        """Whether heartbeats of this incarnation must go unanswered for now."""
        lease = self._leases.get((executor, incarnation))
        return lease is not None and bool(lease.closers)

    def _enqueue(self, deadline: float, name: tuple[str, str]) -> None:
        queued_at = self._queued.get(name)
        if queued_at is None or deadline < queued_at:
            self._queued[name] = deadline
            heappush(self._queue, (deadline, *name))


def mass_failure(silent: int, total: int, ratio: float, at_least: int = 3) -> bool:
    """Whether so many are silent at once that the network, not they, is the likely cause.

    `silent` counts the executors not heard for more than half of their lease. Below `at_least` (3:
    one crash, and one more by coincidence, are ordinary) the guard never holds anything up.
    """
    return silent >= at_least and silent >= ratio * total
