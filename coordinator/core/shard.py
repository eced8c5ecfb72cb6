"""The record of a shard: who owns it, under which epoch, and what is said of few of them.

A frozen value only. It knows no rule; `rules` decides and `namespace` keeps.
"""

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from coordinator.core.strikes import Strike


class ShardState(StrEnum):
    """Where a shard stands in its life; see `coordinator/DESIGN.md`, "Handoff"."""

    VACANT = "vacant"
    OWNED = "owned"
    PREPARING = "preparing"
    RELEASING = "releasing"
    PARKED = "parked"


HANDOFF_STATES: Final = (ShardState.PREPARING, ShardState.RELEASING)


class Cause(StrEnum):
    """Why a shard is where it is: the reason of its last assignment."""

    PLACED = "placed"
    BALANCE = "balance"
    DRAIN = "drain"
    LEAVING = "leaving"
    LOST = "lost"
    PIN = "pin"
    OPERATOR = "operator"
    RESTART = "restart"
    FAILED = "failed"
    CLAIM = "claim"
    """Its owner held it in a cluster that is no more."""


class Fate(StrEnum):
    """What was decided for a shard whatever the load: nobody runs it any more."""

    PARKED = "parked"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What is said of few shards at a time: nearly all share one record that says nothing.

    In the record of each of a million it would be 80 MB on every node.
    """

    target: str | None = None
    """The executor that gets it next."""
    is_warm: bool = False
    """Its target warmed up for the handoff that is open; a matter of the handoff, so that a change
    of policy meanwhile changes nobody's set."""
    overdue: bool = False
    """The release was not acknowledged in time: the owner's lease on this shard alone is
    no longer renewed."""
    next_cause: Cause | None = None
    """Why it is being moved, while a handoff is open."""
    fate: Fate | None = None
    """Parked or retired by an operator, at once or as soon as its owner has stopped it."""
    note: str = ""
    """Why it is parked."""
    pin: str | None = None
    pin_note: str = ""
    """The operator's reason of a pin; a shard can be pinned and parked."""
    pin_until_ms: int | None = None
    """Wall clock at which the leader takes the pin off; None: an operator does."""
    reserved: str | None = None
    """The executor for which it is kept while that restarts; only of a vacant shard."""
    strikes: tuple[Strike, ...] = ()
    """What speaks for its being poison, oldest first."""

    def changed(self, changes: dict[str, Any]) -> "Marks":
        """The same with other values in these fields, and the one record if it says nothing."""
        if all(getattr(self, name) == value for name, value in changes.items()):
            return self
        marks = replace(self, **changes)
        return UNMARKED if marks == UNMARKED else marks

    def settled(self) -> "Marks":
        """The same with no handoff open, and kept for nobody."""
        if self is UNMARKED or (
            self.target is None
            and self.next_cause is None
            and self.reserved is None
            and not self.is_warm
            and not self.overdue
        ):
            return self
        return self.changed(
            {
                "target": None,
                "next_cause": None,
                "reserved": None,
                "is_warm": False,
                "overdue": False,
            }
        )


UNMARKED: Final = Marks()


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Shard:
    """One unit of ownership.

    `executor` is who owns it now (None when vacant or parked), `epoch` the fencing token of
    that assignment (0 before the first). Each of its `marks` can be read, given and replaced as if
    it were a field.
    """

    key: str
    state: ShardState
    executor: str | None
    epoch: int
    cause: Cause
    previous: str | None
    """The owner before this one."""
    since_ms: int
    """Wall clock of the last assignment; for people, never compared by a rule."""
    claimed_epoch: int
    """The highest epoch claimed for the owner of an epoch that was given in a claim window: which
    of two claims came later shows by this, as `epoch` is new in either case."""
    marks: Marks

    def __init__(
        self,
        *,
        key: str,
        state: ShardState = ShardState.VACANT,
        executor: str | None = None,
        epoch: int = 0,
        cause: Cause = Cause.PLACED,
        previous: str | None = None,
        since_ms: int = 0,
        claimed_epoch: int = 0,
        marks: Marks = UNMARKED,
        **marked: Any,
    ) -> None:
        put = object.__setattr__
        put(self, "key", key)
        put(self, "state", state)
        put(self, "executor", executor)
        put(self, "epoch", epoch)
        put(self, "cause", cause)
        put(self, "previous", previous)
        put(self, "since_ms", since_ms)
        put(self, "claimed_epoch", claimed_epoch)
        put(self, "marks", marks.changed(marked) if marked else marks)

    def replace(self, **changes: Any) -> "Shard":
        """The same shard with other values in these fields."""
        values: dict[str, Any] = {
            "key": self.key,
            "state": self.state,
            "executor": self.executor,
            "epoch": self.epoch,
            "cause": self.cause,
            "previous": self.previous,
            "since_ms": self.since_ms,
            "claimed_epoch": self.claimed_epoch,
            "marks": self.marks,
        }
        values.update(changes)
        return Shard(**values)

    @property
    def target(self) -> str | None:
        """The executor that gets it next."""
        return self.marks.target

    @property
    def is_warm(self) -> bool:
        """Whether its target warmed up for the handoff that is open."""
        return self.marks.is_warm

    @property
    def overdue(self) -> bool:
        """Whether the release was not acknowledged in time."""
        return self.marks.overdue

    @property
    def next_cause(self) -> Cause | None:
        """Why it is being moved, while a handoff is open."""
        return self.marks.next_cause

    @property
    def fate(self) -> Fate | None:
        """Parked or retired, at once or as soon as its owner has stopped it."""
        return self.marks.fate

    @property
    def note(self) -> str:
        """Why it is parked."""
        return self.marks.note

    @property
    def pin(self) -> str | None:
        """Where an operator wants it."""
        return self.marks.pin

    @property
    def pin_note(self) -> str:
        """The operator's reason of a pin."""
        return self.marks.pin_note

    @property
    def pin_until_ms(self) -> int | None:
        """Wall clock at which the leader takes the pin off."""
        return self.marks.pin_until_ms

    @property
    def reserved(self) -> str | None:
        """The executor for which it is kept while that restarts."""
        return self.marks.reserved

    @property
    def strikes(self) -> tuple[Strike, ...]:
        """What speaks for its being poison, oldest first."""
        return self.marks.strikes


_OWN: Final = tuple(field.name for field in fields(Shard) if field.name != "marks")
_MARKS: Final = tuple(field.name for field in fields(Marks))
SHARD_FIELDS: Final = (*_OWN, *_MARKS)
"""All that is known of a shard, as it goes over the wire."""

_own_values = attrgetter(*_OWN)
_marks_values = attrgetter(*_MARKS)
_NO_MARKS: Final[tuple[Any, ...]] = _marks_values(UNMARKED)


def values_of(shard: Shard) -> tuple[Any, ...]:
    """Those of `SHARD_FIELDS`."""
    marks = shard.marks
    own: tuple[Any, ...] = _own_values(shard)
    return own + (_NO_MARKS if marks is UNMARKED else _marks_values(marks))
