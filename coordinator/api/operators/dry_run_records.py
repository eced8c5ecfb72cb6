"""What a dry run answers: what an order would do, and what it would come to.

Decides the shape of the answers, which may grow. It must not know how they are found.
"""

from msgspec import Struct


class RoomView(Struct, frozen=True, kw_only=True):
    """The executors that would be left, with the load of those that are emptied."""

    executors: int
    """Left, and open to shards."""
    capacity: float
    mean_before: float
    """Utilisation now of all of them, those to be emptied included."""
    mean_after: float
    hottest_before: float
    hottest_after: float
    """As the planner would place the shards now; a balancing pass may level it further."""
    hottest_executor: str | None
    """Which one that would be; null when nobody is left."""
    mark: float | None
    """What the mean must not be above without `force`; null where loads are told in a unit of their
    own: then only `high_mark` says what is too much."""
    pinned: int
    """Shards that stay where they are until they are unpinned."""
    unplaced: int
    """Shards that nobody is left for."""


class DryRunAnswer(Struct, frozen=True, kw_only=True):
    """The change was checked and would be made. Nothing was changed."""

    dry_run: bool
    would: str
    """What would be done, in a sentence."""
    resource: str
    creates: bool
    """Whether something new would come to be; false where it is so already."""
    shards: int | None
    """How many shards it is about, where that is known."""
    moved_load: float | None = None
    """Of the shards that would go elsewhere, in the unit of capacity."""
    room: RoomView | None = None
    """Of an order that empties executors: how the others would stand."""
    target_before: float | None = None
    """Of an order that brings a shard somewhere: utilisation there, before and after."""
    target_after: float | None = None
