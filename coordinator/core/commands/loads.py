"""The command by which loads outlive the leader that measured them."""

from dataclasses import dataclass

from coordinator.core.balance_series import BalancePoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLoads:
    """One chunk of a sweep through the loads of all shards; nobody but a new leader reads it."""

    namespace: str
    sweep_ms: int
    """Wall clock at the beginning of the sweep, the same in all its chunks."""
    number: int
    """From 0 on: a chunk counts only behind the one before it."""
    chunk: bytes
    is_last: bool
    point: BalancePoint | None = None
    """How even the fleet was, with the last chunk: pictures of it outlive the leader as well."""
