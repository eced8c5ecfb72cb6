"""The records of what happened, and of outages: a part of what operators are answered.

Decides their shape. It must not know how they come about.
"""

from typing import Literal

from msgspec import Struct

from coordinator.core.events import EventKind

OutageState = Literal["none", "holding", "proceeded"]


class EventView(Struct, frozen=True, kw_only=True):
    """One thing that happened, or `count` shards' worth of one kind in one commit."""

    id: int
    """Grows, and is unique in the cluster's life."""
    at: str
    kind: EventKind
    shard: str | None
    epoch: int | None
    executor: str | None
    """Whom it happened to; the owner of a shard before it moves."""
    target: str | None
    """The executor that gets the shard."""
    host: str | None
    cause: str
    """Why, as the coordinator sees it."""
    by: str
    """Who ordered it; empty when nobody did."""
    reason: str
    """Why, as whoever ordered it says."""
    detail: str
    count: int
    undoes: int | None
    """The event of the order that this one took back."""
    can_undo: bool
    """It is an order, and keeps what it takes to be taken back if nothing came in between."""


class EventsAnswer(Struct, frozen=True, kw_only=True):
    """A page of events, oldest first."""

    events: list[EventView]
    cursor: str
    """To be sent as `after` for what comes next."""
    more: bool
    """More is there already."""
    missed: bool
    """Some that came after `after` are not kept any more, or were another cluster's."""


class MassFailureView(Struct, frozen=True, kw_only=True):
    """Whether so many executors are silent that nothing is taken away from them."""

    namespace: str
    state: OutageState
    """`holding`: nothing is taken away. `proceeded`: an operator gave up those silent then."""
    since: str | None
    silent: int
    """When it was raised, as `total` and `executors`."""
    total: int
    executors: list[str]
    """At most 100 of the silent ones, by name."""
    proceeded_at: str | None
    by: str
    reason: str
    given_up: int
    """Executors on record that are given up; their shards move when their leases run out."""


class AlarmView(Struct, frozen=True, kw_only=True):
    """Something in a namespace that somebody should look at."""

    namespace: str
    alarm: Literal["mass_failure"]
    state: str
    since: str
