"""What one command would change in a namespace, before it is true.

Rules write into a `Draft` and nowhere else; it counts only if the outcome is `Applied`. It knows
how a shard is given and set free, and not when that is right.
"""

from dataclasses import dataclass, field

from coordinator.core.claims import rank
from coordinator.core.events import TEXT_CHARS_MAX, Event, EventKind
from coordinator.core.namespace import NamespaceState, Target
from coordinator.core.orders import Cordon, Drain, Former
from coordinator.core.saved_loads import SavedLoads
from coordinator.core.shard import Cause, Fate, Shard, ShardState
from coordinator.core.types import CloseCause, Executor, Namespace, Reservation


@dataclass(slots=True)
class Draft:
    """What one command would change in a namespace. Rules write here and nowhere else."""

    base: NamespaceState
    next_epoch: int
    at_ms: int = 0
    """Wall clock of the command, for people."""
    undoes: int = 0
    """The event of the order that is being taken back, for the orders that this draft notes."""
    shards: dict[str, Shard | None] = field(default_factory=dict)
    executors: dict[str, Executor | None] = field(default_factory=dict)
    drains: dict[Target, Drain | None] = field(default_factory=dict)
    cordons: dict[Target, Cordon | None] = field(default_factory=dict)
    reservations: dict[str, Reservation | None] = field(default_factory=dict)
    closed: list[tuple[str, str, CloseCause]] = field(default_factory=list)
    info: Namespace | None = None
    events: list[Event] = field(default_factory=list)
    loads: SavedLoads | None = None
    """Written by itself only: no reader sees it, so it takes no revision."""

    def shard(self, key: str) -> Shard | None:
        """The shard as this draft leaves it."""
        return self.shards[key] if key in self.shards else self.base.shards.get(key)

    def executor(self, executor: str) -> Executor | None:
        """The executor as this draft leaves it."""
        if executor in self.executors:
            return self.executors[executor]
        return self.base.executors.get(executor)

    def put(self, shard: Shard) -> None:
        """Write one shard."""
        self.shards[shard.key] = shard

    def grant(
        self, shard: Shard, executor: str, cause: Cause, at_ms: int, *, claimed: int = 0
    ) -> None:
        """Give a shard to an executor under a new epoch. Nobody else may act on it by now.

        `claimed` is the epoch of the claim that this answers: the new one is above it.
        """
        self.next_epoch = max(self.next_epoch, claimed + 1)
        window = self.base.info.window
        former = shard.executor or shard.reserved
        record = self.executor(executor)
        # One string for all that it owns: commands bring a new one each.
        executor = executor if record is None else record.id
        self.put(
            shard.replace(
                state=ShardState.OWNED,
                executor=executor,
                epoch=self.next_epoch,
                cause=cause,
                marks=shard.marks.settled(),
                previous=shard.previous if former in (None, executor) else former,
                since_ms=at_ms,
                claimed_epoch=0 if window is None else max(rank(window, shard), claimed),
            )
        )
        self.next_epoch += 1

    def free(self, shard: Shard, cause: Cause) -> None:
        """Nobody runs the shard any more: it turns vacant, parked, or is forgotten."""
        if shard.fate is Fate.RETIRED:
            self.shards[shard.key] = None
            return
        self.put(
            shard.replace(
                state=ShardState.PARKED if shard.fate is Fate.PARKED else ShardState.VACANT,
                executor=None,
                cause=cause,
                marks=shard.marks.settled(),
                previous=shard.executor or shard.reserved or shard.previous,
            )
        )

    def reserve(self, shard: Shard, cause: Cause) -> None:
        """Its owner runs it no more and will be back: nobody else gets it meanwhile."""
        self.put(
            shard.replace(
                state=ShardState.VACANT,
                executor=None,
                cause=cause,
                marks=shard.marks.settled().changed({"reserved": shard.executor}),
            )
        )

    def note(
        self,
        kind: EventKind,
        at_ms: int,
        *,
        shard: Shard | None = None,
        executor: str | None = None,
        target: str | None = None,
        host: str | None = None,
        cause: str = "",
        by: str = "",
        reason: str = "",
        detail: str = "",
        count: int = 1,
        former: Former | None = None,
    ) -> None:
        """Tell people of it, if the command takes effect.

        A command that places very many shards notes one event with a count. An order that can be
        taken back says what it replaces.
        """
        self.events.append(
            Event(
                at_ms=at_ms,
                kind=kind,
                shard=None if shard is None else shard.key,
                epoch=None if shard is None or not shard.epoch else shard.epoch,
                executor=executor,
                target=target,
                host=host,
                cause=cause,
                by=by,
                reason=reason[:TEXT_CHARS_MAX],
                detail=detail[:TEXT_CHARS_MAX],
                count=count,
                undoes=0 if former is None else self.undoes,
                former=former,
            )
        )

    def is_open(self, executor: str) -> bool:
        """Whether the executor may be given shards, as this draft leaves it."""
        record = self.executor(executor)
        return record is not None and self.base.accepts(record)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change that a reader sees."""
        return not (
            self.shards
            or self.executors
            or self.drains
            or self.cordons
            or self.reservations
            or self.closed
            or self.info is not None
            or self.events
        )
