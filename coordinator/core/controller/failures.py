"""Shards that could not be started: where, and when to try again.

A shard is tried on every executor that it may go to before it comes back to one that failed it, and
rests after each such round, so that a shard that nobody can start does not keep everyone busy.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.shard import Cause, Shard

REST_S: Final = 5.0
"""Between two rounds: a dependency that restarts is back within seconds."""

MEMORY_S: Final = 60.0
"""A failure so long ago says nothing about the next start."""


@dataclass(slots=True)
class _Round:
    epoch: int
    """Of the last failed start, so that each counts once."""
    failed_at: float
    retry_at: float
    where: dict[str, None] = field(default_factory=dict)


class FailureBook:
    """Failed starts of one namespace's shards, forgotten after a while."""

    def __init__(self) -> None:
        self._rounds: dict[str, _Round] = {}

    def __len__(self) -> int:
        return len(self._rounds)

    def ready(
        self, vacant: Iterable[Shard], open_names: Collection[str], now: float
    ) -> list[Shard]:
        """Those of the vacant shards that need not rest; takes in failures not seen before."""
        return [shard for shard in vacant if self._retry_at(shard, open_names, now) <= now]

    def _retry_at(self, shard: Shard, open_names: Collection[str], now: float) -> float:
        if shard.cause is not Cause.FAILED or shard.previous is None:
            return now
        known = self._rounds.setdefault(shard.key, _Round(-1, now, now))
        if known.epoch != shard.epoch:
            known.epoch, known.failed_at = shard.epoch, now
            known.where[shard.previous] = None
        choices = {shard.pin} if shard.pin in open_names else set(open_names)
        if choices and choices <= known.where.keys():
            known.where.clear()
            known.retry_at = now + REST_S
        return known.retry_at

    def hung(self, key: str, executor: str, now: float) -> None:
        """A warm-up there did not come to an end: others are tried before."""
        known = self._rounds.setdefault(key, _Round(-1, now, now))
        known.failed_at = now
        known.where[executor] = None

    def bans(self, key: str, open_names: Collection[str]) -> frozenset[str]:
        """Executors that a shard is kept away from, unless that leaves it nowhere to go."""
        known = self._rounds.get(key)
        if known is None or all(name in known.where for name in open_names):
            return frozenset()
        return frozenset(known.where)

    def all_bans(self, open_names: Collection[str]) -> dict[str, frozenset[str]]:
        """The same of every shard that is kept away from anybody."""
        bans = {key: self.bans(key, open_names) for key in self._rounds}
        return {key: banned for key, banned in bans.items() if banned}

    def next_retry(self, after: float) -> float | None:
        """When the next shard has rested."""
        return min((r.retry_at for r in self._rounds.values() if r.retry_at > after), default=None)

    def forget_old(self, now: float) -> None:
        """Drop what happened too long ago to matter."""
        for key in [k for k, r in self._rounds.items() if now - r.failed_at > MEMORY_S]:
            del self._rounds[key]
