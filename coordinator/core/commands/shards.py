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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpinShard:
    """The balancer may move this shard again."""

    namespace: str
    key: str
    reason: str = ""
    by: str = ""
    at_ms: int = 0
