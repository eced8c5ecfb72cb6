"""Commands about single shards: declared, retired, parked, pinned."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareShards:
    """Make shards of an open namespace known before their first use."""

    namespace: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireShard:
    """Forget a shard of an open namespace."""

    namespace: str
    key: str
    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkShard:
    """Nobody shall run this shard."""

    namespace: str
    key: str
    note: str
    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkPoison:
    """The leader found a shard to be poison; refused unless it is vacant with these strikes."""

    namespace: str
    key: str
    strikes: int
    note: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetStrikes:
    """What these shards were present at says nothing any more."""

    namespace: str
    keys: tuple[str, ...]
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A shard that an executor says it holds under this epoch, without owning it."""

    key: str
    executor: str
    epoch: int
    other: str | None
    """Another executor that says it holds it, its owner if that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteStrays:
    """Executors hold shards that are not theirs: only told, nothing follows from it."""

    namespace: str
    strays: tuple[Stray, ...]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnparkShard:
    """Somebody shall run this shard again."""

    namespace: str
    key: str
    reason: str = ""
    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PinShard:
    """A shard belongs to an executor whatever the load."""

    namespace: str
    key: str
    executor: str
    note: str
    by: str = ""
    at_ms: int = 0
    until_ms: int | None = None
    """When it ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpinShard:
    """The balancer may move this shard again."""

    namespace: str
    key: str
    reason: str = ""
    by: str = ""
    at_ms: int = 0
