"""Whether what executors did was right: who ran which shard, when, and under which lease.

Decides overlaps, order of epochs and what counts as a move, from notes that the executors took
themselves. Pure: the notes are its input. All times are of one clock of one machine.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import msgspec


class Note(msgspec.Struct, frozen=True):
    """What an executor wrote down the moment it happened."""

    kind: Literal["start", "stop", "lease", "epoch"]
    at: float
    executor: str
    incarnation: str
    key: str = ""
    epoch: int = 0
    until: float = 0.0
    """How long its lease allowed it to act, as it knew at that moment."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """One executor running one shard, from start to stop."""

    key: str
    executor: str
    incarnation: str
    epoch_first: int
    epoch_last: int
    """An epoch can rise in place while the shard runs."""
    began_at: float
    ended_at: float | None
    """When it had stopped; None when it never did: it crashed, or runs still."""
    valid_until: float
    """The last moment at which it ran the shard with a lease that it knew to be valid."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two executors that ran a shard with valid leases at once."""

    earlier: Tenure
    later: Tenure

    @property
    def seconds(self) -> float:
        """For how long."""
        return self.earlier.valid_until - self.later.began_at


def tenures_of(notes: Iterable[Note]) -> list[Tenure]:
    """Every tenure in the notes, by key and time.

    A tenure without a stop is valid until the end of the last lease that its executor noted.
    """
    return sorted(
        (
            tenure
            for notes_of_one in _by_incarnation(notes).values()
            for tenure in _tenures_of_one(notes_of_one)
        ),
        key=lambda tenure: (tenure.key, tenure.began_at),
    )


def _by_incarnation(notes: Iterable[Note]) -> Mapping[tuple[str, str], list[Note]]:
    found: dict[tuple[str, str], list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: note.at):
        found[note.executor, note.incarnation].append(note)
    return found


def _tenures_of_one(notes: list[Note]) -> list[Tenure]:
    """The tenures of one incarnation, whose notes are in order."""
    finished: list[Tenure] = []
    open_notes: dict[str, Note] = {}
    epochs: dict[str, int] = {}
    lease_until = 0.0
    for note in notes:
        # Of a lease that is over a note says so, not since when: the last one before it does.
        is_over = note.until == note.at
        if not is_over:
            lease_until = max(lease_until, note.until)
        match note.kind:
            case "start":
                open_notes[note.key], epochs[note.key] = note, note.epoch
            case "epoch":
                epochs[note.key] = note.epoch
            case "stop" if note.key in open_notes:
                begun = open_notes.pop(note.key)
                epoch = max(epochs.pop(note.key), note.epoch)
                until = lease_until if is_over else note.until
                finished.append(_tenure(begun, epoch, note.at, min(note.at, until)))
            case "stop" | "lease":
                pass
    return finished + [
        _tenure(begun, epochs[key], None, lease_until) for key, begun in open_notes.items()
    ]


def _tenure(begun: Note, epoch: int, ended_at: float | None, valid_until: float) -> Tenure:
    return Tenure(
        key=begun.key,
        executor=begun.executor,
        incarnation=begun.incarnation,
        epoch_first=begun.epoch,
        epoch_last=epoch,
        began_at=begun.at,
        ended_at=ended_at,
        valid_until=valid_until,
    )


def by_key(tenures: Iterable[Tenure]) -> dict[str, list[Tenure]]:
    """The tenures of each shard in the order in which they began."""
    found: dict[str, list[Tenure]] = defaultdict(list)
    for tenure in sorted(tenures, key=lambda tenure: tenure.began_at):
        found[tenure.key].append(tenure)
    return dict(found)


def overlaps(tenures: Iterable[Tenure]) -> list[Overlap]:
    """Where a tenure began while another executor's was valid."""
    found: list[Overlap] = []
    for of_key in by_key(tenures).values():
        longest: Tenure | None = None
        for tenure in of_key:
            if longest is not None:
                is_same = (longest.executor, longest.incarnation) == (
                    tenure.executor,
                    tenure.incarnation,
                )
                if tenure.began_at < longest.valid_until and not is_same:
                    found.append(Overlap(longest, tenure))
            if longest is None or tenure.valid_until > longest.valid_until:
                longest = tenure
    return found


def epoch_faults(tenures: Iterable[Tenure]) -> list[tuple[Tenure, Tenure]]:
    """Pairs of tenures of a shard whose epochs do not rise: a fencing token that is no token.

    An incarnation that stopped for want of a lease, and won it back before anybody was given the
    shard, goes on under the epoch that it had.
    """
    return [
        (earlier, later)
        for of_key in by_key(tenures).values()
        for earlier, later in pairwise(of_key)
        if later.epoch_first < earlier.epoch_last
        or (later.epoch_first == earlier.epoch_last and not _is_same_process(earlier, later))
    ]


def _is_same_process(one: Tenure, other: Tenure) -> bool:
    return (one.executor, one.incarnation) == (other.executor, other.incarnation)


def moves(tenures: Iterable[Tenure], since: float, until: float) -> int:
    """How often a shard came to another executor within this time."""
    return sum(
        1
        for of_key in by_key(tenures).values()
        for earlier, later in pairwise(of_key)
        if since <= later.began_at < until and earlier.executor != later.executor
    )


def orphaned_s(tenures: Iterable[Tenure], executor: str, crashed_at: float) -> dict[str, float]:
    """Seconds from an executor's crash until each of its shards ran again; infinite if never."""
    found: dict[str, float] = {}
    for key, of_key in by_key(tenures).items():
        for tenure in of_key:
            if tenure.executor == executor and tenure.ended_at is None:
                later = [
                    other.began_at
                    for other in of_key
                    if other.began_at > max(crashed_at, tenure.began_at)
                ]
                found[key] = min(later, default=float("inf")) - crashed_at
    return found
