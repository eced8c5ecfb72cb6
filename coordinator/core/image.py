"""All of a namespace at one moment, as a snapshot holds it. It knows no rule and no index."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.core.events import Event
from coordinator.core.orders import Cordon, Drain
from coordinator.core.saved_loads import SavedLoads
from coordinator.core.shard import Shard
from coordinator.core.tenures import Tenure
from coordinator.core.types import CloseCause, Executor, Namespace, Reservation


@dataclass(frozen=True, slots=True)
class NamespaceImage:
    """All of a namespace that a snapshot holds; indices are made again from it."""

    info: Namespace
    revision: int
    shards: Iterable[Shard]
    executors: tuple[Executor, ...]
    drains: tuple[Drain, ...]
    cordons: tuple[Cordon, ...]
    closed: tuple[tuple[str, str, CloseCause], ...]
    reservations: tuple[Reservation, ...] = ()
    events: tuple[Event, ...] = ()
    forgotten: int = 0
    """The newest event that fell out."""
    loads: SavedLoads = field(default_factory=SavedLoads)
    tenures: tuple[Tenure, ...] = ()
    forgotten_ms: int | None = None
    """When the newest change of owners came that fell out."""
