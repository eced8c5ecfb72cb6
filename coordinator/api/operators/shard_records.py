"""How a shard is shown to operators: where it is, why, and what speaks against it.

Decides the shape of the answers, which may grow. It must not know how they are found.
"""

from msgspec import UNSET, Struct, UnsetType

from coordinator.api.operators.news import EventView
from coordinator.core.shard import ShardState
from coordinator.core.strikes import StrikeKind


class StrikeView(Struct, frozen=True, kw_only=True):
    """A crash or a failed start that a shard was present at."""

    kind: StrikeKind
    executor: str
    at: str


class NotThere(Struct, frozen=True, kw_only=True):
    """An executor that a shard is not on, and why."""

    executor: str
    rule: str
    why: str


class ShardThen(Struct, frozen=True, kw_only=True):
    """Who owned a shard at a time that is past."""

    at: str
    known: bool
    """Whether that is known: if not, all else but `known_from` is null."""
    executor: str | None
    """Null also when nobody owned it."""
    epoch: int | None
    since: str | None
    until: str | None
    """When it changed hands next; null when it has not."""
    known_from: str | None
    """The earliest time for which it is known who owned this shard."""
    told: str
    """The same in words."""


class ShardView(Struct, frozen=True, kw_only=True):
    """A shard: where it is and why."""

    key: str
    state: ShardState
    executor: str | None
    host: str | None
    epoch: int
    next: str | None
    """The executor that gets it next."""
    load: float | None
    """Smoothed; null when unmeasured, or where the leader cannot be asked."""
    pinned: str | None
    pinned_until: str | None
    """When the pin ends by itself; null when an operator ends it, or there is none."""
    pin_reason: str
    parked: str | None
    """Why it is parked: an operator's reason, or what made it poison; null when it is not."""
    strikes: list[StrikeView]
    """What speaks for its being poison, oldest first; forgotten when it ran well for a while."""
    retiring: bool
    """It is forgotten as soon as its owner has stopped it."""
    overdue: bool
    """Its owner did not stop it in time: its own lease runs out."""
    cooldown_left_s: float | None
    reserved: str | None
    """The executor that it is kept for, while that restarts."""
    previous: str | None
    """The owner before this one."""
    since: str | None
    """When it was given to its owner."""
    why: str
    """Why it is where it is: the reason of its last assignment."""
    next_why: str | None
    """Why it is being moved."""
    why_here: str | UnsetType = UNSET
    """In words. This and what follows is told of a single shard, by the leader."""
    why_no_move: str | UnsetType = UNSET
    """Why nothing moves it now, or where it goes."""
    why_not_there: list[NotThere] | UnsetType = UNSET
    """Of the coldest executors that could have it: at most 8."""
    decision: str | UnsetType | None = UNSET
    """The balancer's decision that brought it here, if this leader made it."""
    history: list[EventView] | UnsetType = UNSET
    """What last happened to it, newest first: at most 10."""
    then: ShardThen | UnsetType = UNSET
    """Who owned it at the time that was asked for with `at`."""


class ShardsAnswer(Struct, frozen=True, kw_only=True):
    """One page of shards."""

    shards: list[ShardView]
    total: int
    """How many match, on all pages."""
    next_page: str | None
    """To be sent as `page`; null on the last page."""
