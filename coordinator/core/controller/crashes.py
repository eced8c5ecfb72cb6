"""Which ends of incarnations count as crashes, and what the leader remembers of them.

Soft: a new leader knows the strikes, which are replicated, and begins to count crashes anew. It
then counts fewer than there were, which holds nothing against any shard that its strikes do not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from coordinator.core.namespace import NamespaceState
from coordinator.core.poison import (
    MEMORY_S,
    STORM_LEASES,
    is_storm,
    most_crashes,
    places_at,
)
from coordinator.core.shard import Shard
from coordinator.core.strikes import StrikeKind
from coordinator.core.struck import crashes_of
from coordinator.core.types import ExecutorStatus

if TYPE_CHECKING:
    from coordinator.core.controller.mind import Mind

FORGET_EVERY_S: Final = 10.0
"""How often strikes are looked at; they are kept for minutes."""

LOOKS_MAX: Final = 1_000
"""Struck shards looked at in one step: 1 ms. All shards of a tenth of a large fleet may be."""

CRASHES_MAX: Final = 1024
"""Remembered; what crashes more often in ten minutes is a storm with any fleet."""


@dataclass(frozen=True, slots=True)
class Weight:
    """What a crash is worth: fields of the command that tells of it."""

    is_crash: bool = False
    withhold_at: int = 0

    def fields(self) -> dict[str, Any]:
        """By the names that these have in commands."""
        return {"is_crash": self.is_crash, "withhold_at": self.withhold_at}


NO_CRASH: Final = Weight()


@dataclass(frozen=True, slots=True)
class _Seen:
    executor: str
    at: float
    is_explained: bool
    """It held a shard that had met a crash elsewhere."""


@dataclass(slots=True)
class CrashBook:
    """Crashes of one namespace's executors, forgotten after a while."""

    storm_until: float = float("-inf")
    last_at: float = float("-inf")
    struck_since: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of each struck shard how many strikes it has, and since when this leader knows."""
    looks_at: float = float("-inf")
    """When it is time again to look for strikes to forget."""
    _looking: Iterator[str] | None = None
    """Struck shards, and those that were, that are yet to be looked at this time."""
    _looks_began_at: float = 0.0
    _trial: tuple[float, float] = (0.0, 0.0)
    """After which crash it is, and when it ends."""
    _seen: dict[tuple[str, str], _Seen] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._seen)

    def weigh(
        self, namespace: NamespaceState, executor: str, incarnation: str, now: float
    ) -> Weight:
        """Take in that a process ended without a farewell; asked again it says the same."""
        threshold = namespace.info.policy.poison_threshold
        if threshold is None or not namespace.owned(executor):
            return NO_CRASH
        held = [namespace.shards[key] for key in namespace.struck.owned(executor)]
        if (executor, incarnation) not in self._seen:
            is_explained = any(_met_elsewhere(shard, executor) for shard in held)
            self._seen[executor, incarnation] = _Seen(executor, now, is_explained)
            self.last_at = now
        self._forget_old(now)
        window_s = STORM_LEASES * namespace.info.lease_bound_s
        lately = {
            one.executor: None
            for one in self._seen.values()
            if not one.is_explained and now - one.at <= window_s
        }
        if is_storm(len(lately), max(len(namespace.executors), len(lately))):
            self.storm_until = now + window_s
        if now < self.storm_until or namespace.info.mass_failure is not None:
            return NO_CRASH
        met = 1 + most_crashes(held)
        is_grave = met >= places_at(threshold) and 2 * met > namespace.struck.crashes
        return Weight(is_crash=True, withhold_at=met if is_grave else 0)

    def knows(self, executor: str, incarnation: str) -> bool:
        """Whether the end of this process was weighed before."""
        return (executor, incarnation) in self._seen

    def trial_end(self, now: float, trial_s: float) -> float:
        """When who was given suspects after the last crash, first now, has lived long enough."""
        if self._trial[0] != self.last_at:
            self._trial = (self.last_at, now + trial_s)
        return self._trial[1]

    def is_trial_over(self, now: float) -> bool:
        """Whether who was given a part of the suspects after the last crash outlived it."""
        return self._trial[0] == self.last_at and now >= self._trial[1]

    def crashed_since(self, executor: str, incarnation: str, at: float) -> bool:
        """Whether another incarnation of this executor crashed later than that."""
        return any(
            one.at > at and name == executor and other != incarnation
            for (name, other), one in self._seen.items()
        )

    def due(self, namespace: NamespaceState, now: float) -> list[str]:
        """Keys of those struck shards that run and met nothing new for long enough.

        Of very many the next `LOOKS_MAX`: all of them are through when `looks_at` lies ahead.
        """
        if self._looking is None:
            gone = [key for key in self.struck_since if key not in namespace.struck]
            self._looking = iter([*namespace.struck, *gone])
            self._looks_began_at = now
        some = [*islice(self._looking, LOOKS_MAX)]
        found: list[str] = []
        fresh: dict[int, tuple[int, float]] = {}  # one record for all: 14 MB of a hundred thousand
        for key, shard in zip(some, map(namespace.shards.get, some), strict=True):
            if shard is None or not shard.strikes or shard.fate is not None:
                self.struck_since.pop(key, None)
                continue
            count = len(shard.strikes)
            seen = self.struck_since.get(key)
            if seen is None or seen[0] != count or shard.executor is None:
                seen = fresh.setdefault(count, (count, now))
            self.struck_since[shard.key] = seen
            since = seen[1]
            if now - since >= MEMORY_S:
                found.append(shard.key)
        if len(some) < LOOKS_MAX:
            self._looking = None
            self.looks_at = self._looks_began_at + FORGET_EVERY_S
        return found

    def _forget_old(self, now: float) -> None:
        for name in [name for name, one in self._seen.items() if now - one.at > MEMORY_S]:
            del self._seen[name]
        while len(self._seen) > CRASHES_MAX:
            del self._seen[next(iter(self._seen))]


def weight_of(
    namespace: NamespaceState, mind: "Mind", executor: str, incarnation: str, now: float
) -> Weight:
    """What the end of an incarnation that may still own shards is worth as a crash.

    Nothing, if it said that it was leaving or was evicted: then it was told, or meant, to end.
    """
    record = namespace.executors.get(executor)
    if record is None or incarnation not in (record.incarnation, record.predecessor):
        return NO_CRASH
    is_present = record.incarnation == incarnation
    if is_present and (record.evicted or record.predecessor is not None):
        return NO_CRASH
    if is_present and record.profile.status is ExecutorStatus.LEAVING:
        return NO_CRASH
    if (executor, incarnation) in mind.leaving:
        return NO_CRASH
    heard_at = mind.leases.last_heard(executor)
    if heard_at is not None and mind.crashes.crashed_since(executor, incarnation, heard_at):
        return NO_CRASH  # it was silent already when it got what another had crashed with
    return mind.crashes.weigh(namespace, executor, incarnation, now)


def _met_elsewhere(shard: Shard, executor: str) -> bool:
    return crashes_of(shard) > 0 and any(
        one.kind is StrikeKind.CRASH and one.executor != executor for one in shard.strikes
    )
