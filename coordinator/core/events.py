"""What happened in a namespace, for people: who, when, why; a bounded ring that every node holds.

Decides how events are numbered, how many are kept and how many at once become one. It must not
know what any of them means to a rule: none reads an event but the one that takes an order back,
which needs what the order replaced.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from heapq import merge
from itertools import takewhile
from operator import attrgetter
from typing import Final

from coordinator.core.orders import Former

EVENTS_MAX: Final = 4096
"""Kept of the routine, and as many of the rest: a deploy of a thousand executors notes three each.
Both together are some 3 MB of a namespace in which much happens."""

EACH_MAX: Final = 64
"""Of one kind in one commit: as many handoffs as drains have in flight. More become one event with
a count, so that one command cannot push out what an operator wants to read."""

TEXT_CHARS_MAX: Final = 1024
"""Of a reason or a detail: as long as an operator's reason may be."""

_INDEX_BITS: Final = 12
"""An id is `revision << 12 | index`: room for `EACH_MAX` of every kind in one commit, and for two
thousand billion commits below the 2^53 that JSON tells exactly."""


class EventKind(StrEnum):
    """What happened. The values are those of the HTTP API."""

    EXECUTOR_JOINED = "executor_joined"
    EXECUTOR_RESTARTED = "executor_restarted"
    """A new incarnation superseded the one on record."""
    SHARDS_INHERITED = "shards_inherited"
    """A restarted executor got back what its predecessor owned."""
    EXECUTOR_LEAVING = "executor_leaving"
    EXECUTOR_STAYING = "executor_staying"
    """It had said that it leaves, and took that back."""
    EXECUTOR_LEFT = "executor_left"
    EXECUTOR_LOST = "executor_lost"
    """Its lease ran out."""
    SHARDS_RESERVED = "shards_reserved"
    """An executor went that said when it will be back: its shards are kept for it."""
    RESERVATION_USED = "reservation_used"
    """It is back, and has them again."""
    RESERVATION_ENDED = "reservation_ended"
    """It was not back in time, or an operator's order came first."""
    EXECUTOR_EVICTED = "executor_evicted"
    """An operator closed its incarnation."""
    EXECUTOR_CLOSED = "executor_closed"
    """An evicted one can act no more: its shards were given away."""
    DRAIN_STARTED = "drain_started"
    DRAIN_FINISHED = "drain_finished"
    """Nothing is left on its target: every shard was acknowledged away, or its lease ran out."""
    DRAIN_ENDED = "drain_ended"
    CORDON_STARTED = "cordon_started"
    CORDON_ENDED = "cordon_ended"
    SHARDS_PLACED = "shards_placed"
    """Vacant shards got an owner."""
    MOVE_ORDERED = "move_ordered"
    HANDOFF_STARTED = "handoff_started"
    HANDOFF_FINISHED = "handoff_finished"
    """The owner stopped it; without a target nobody runs it now."""
    HANDOFF_ABORTED = "handoff_aborted"
    """The owner keeps it."""
    HANDOFF_OVERDUE = "handoff_overdue"
    """The stop was not acknowledged in time: the shard's own lease is let run out."""
    START_FAILED = "start_failed"
    SHARD_PARKED = "shard_parked"
    SHARD_UNPARKED = "shard_unparked"
    STRIKES_FORGOTTEN = "strikes_forgotten"
    """Crashes that shards were present at speak against none of them any more."""
    SHARD_DOUBLE_OWNED = "shard_double_owned"
    """Two live executors say that they hold it: the target as well, the executor without right."""
    SHARD_HELD_ASTRAY = "shard_held_astray"
    """An executor says that it holds it, and it is not its own."""
    SHARD_RETIRED = "shard_retired"
    SHARD_PINNED = "shard_pinned"
    SHARD_UNPINNED = "shard_unpinned"
    MASS_FAILURE_RAISED = "mass_failure_raised"
    """So many are silent that nothing is taken away."""
    MASS_FAILURE_PROCEEDED = "mass_failure_proceeded"
    """An operator gave up those that were silent."""
    MASS_FAILURE_OVER = "mass_failure_over"
    POLICY_CHANGED = "policy_changed"
    BALANCER_PAUSED = "balancer_paused"
    BALANCER_RESUMED = "balancer_resumed"
    CLAIMS_OPENED = "claims_opened"
    """A survivor goes on for a cluster that is lost: executors may know more than it does."""
    CLAIMS_ADOPTED = "claims_adopted"
    """What an executor held in a cluster that is no more goes on under new epochs."""
    CLAIMS_REFUSED = "claims_refused"
    """Claimed were shards that do not exist and may not be born."""
    CLAIM_CONFLICT = "claim_conflict"
    """Two claimed a shard: the target was given it last, the executor stops it."""
    CLAIMS_CLOSED = "claims_closed"
    """All leases of before have run out: what nobody claimed is placed now."""


ROUTINE: Final = (
    EventKind.SHARDS_PLACED,
    EventKind.HANDOFF_STARTED,
    EventKind.HANDOFF_FINISHED,
    EventKind.HANDOFF_ABORTED,
)
"""What a healthy fleet does all day. Kept apart, so that ten thousand handoffs of a drain do not
push out who ordered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened, or `count` of one kind in one commit."""

    id: int = 0
    """Grows, and is unique in a cluster's life; 0 until it is committed."""
    at_ms: int
    """Wall clock of who gave the command; for people, never compared by a rule."""
    kind: EventKind
    shard: str | None = None
    epoch: int | None = None
    """Of the shard, once it has happened."""
    executor: str | None = None
    """Whom it happened to; the owner of a shard before it moves."""
    target: str | None = None
    """The executor that gets the shard."""
    host: str | None = None
    cause: str = ""
    """A `Cause` or `CloseCause`: why, as the program sees it."""
    by: str = ""
    """Who ordered it."""
    reason: str = ""
    """Why, as whoever ordered it says."""
    detail: str = ""
    count: int = 1
    """How many shards it is about; 1 where it is about a single thing of any sort."""
    undoes: int = 0
    """The event of the order that this one took back."""
    former: Former | None = None
    """Of an order that can be taken back: what it replaced."""


class EventRing:
    """The newest events of a namespace, the routine and the rest bounded each for itself."""

    __slots__ = ("_rare", "_routine", "forgotten", "last_revision")

    def __init__(self) -> None:
        self._rare: deque[Event] = deque()
        self._routine: deque[Event] = deque()
        self.forgotten = 0
        """The newest event that fell out."""
        self.last_revision = 0
        """Of the newest event, kept or not."""

    def __len__(self) -> int:
        return len(self._rare) + len(self._routine)

    def __iter__(self) -> Iterator[Event]:
        """All of them, oldest first."""
        return merge(self._rare, self._routine, key=attrgetter("id"))

    def add(self, revision: int, noted: Sequence[Event]) -> None:
        """Number what one commit noted, and keep it; the oldest fall out beyond the bound."""
        first = revision << _INDEX_BITS
        self.load(replace(one, id=first + index) for index, one in enumerate(summed(noted)))

    def load(self, events: Iterable[Event]) -> None:
        """Keep events that have their numbers, later ones than those here."""
        for event in events:
            kept = self._routine if event.kind in ROUTINE else self._rare
            kept.append(event)
            self.last_revision = max(self.last_revision, revision_of(event.id))
            if len(kept) > EVENTS_MAX:
                self.forgotten = max(self.forgotten, kept.popleft().id)

    def find(self, event_id: int) -> Event | None:
        """The event of this number, if it is kept."""
        later = next(self.after(event_id - 1), None)
        return later if later is not None and later.id == event_id else None

    def after(self, position: int) -> Iterator[Event]:
        """Those later than a position, oldest first; costs as much as there are."""
        later = [
            [*takewhile(lambda event: event.id > position, reversed(kept))]
            for kept in (self._rare, self._routine)
        ]
        return merge(*map(reversed, later), key=attrgetter("id"))

    def kept(self) -> tuple[Event, ...]:
        """All of them for a snapshot: each of the two in its order, at the price of a copy."""
        return (*self._rare, *self._routine)


def summed(noted: Sequence[Event]) -> list[Event]:
    """What one commit noted, kind by kind; too many of one kind become one with a count."""
    by_kind: dict[EventKind, list[Event]] = {}
    for one in noted:
        by_kind.setdefault(one.kind, []).append(one)
    found: list[Event] = []
    for group in by_kind.values():
        found += group if len(group) <= EACH_MAX else [_sum(group)]
    return found


_TOLD: Final = tuple(f.name for f in fields(Event) if f.name not in {"id", "kind", "count"})


def _sum(group: Sequence[Event]) -> Event:
    """One event that says of many what is the same for all of them."""
    first = group[0]
    bare = Event(at_ms=first.at_ms, kind=first.kind)
    same = {
        name: getattr(first, name)
        for name in _TOLD
        if all(getattr(one, name) == getattr(first, name) for one in group)
    }
    return replace(bare, **same, count=sum(one.count for one in group))


def revision_of(position: int) -> int:
    """The revision of an event, or of a position among events."""
    return position >> _INDEX_BITS


def position_at(revision: int) -> int:
    """The position of who has seen all events up to a revision."""
    return (revision + 1 << _INDEX_BITS) - 1
