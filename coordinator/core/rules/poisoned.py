"""What crashes and failed starts leave on shards, and what follows from it once that is decided.

Strikes are kept with the shard. Whether they make it poison is the leader's to say (`core/poison`,
`controller/poison`), and so is whether a crash counts at all.
"""

from dataclasses import dataclass, replace
from typing import Final

from coordinator.core.commands import (
    Applied,
    ForgetStrikes,
    Outcome,
    ParkPoison,
    Reason,
    Refused,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.shard import UNMARKED, Cause, Fate, Marks, Shard, ShardState
from coordinator.core.strikes import Strike, StrikeKind
from coordinator.core.struck import crashes_of
from coordinator.core.types import Ending

STRIKES_MAX: Final = 32
"""Kept of a shard, the newest: among a million shards 21 halvings leave less than half of one."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The end of a process that held shards. One strike serves all of them, or one of two."""

    fresh: Strike
    again: Strike
    withhold_at: int
    first: dict[bool, Marks]
    """Of shards of which nothing was said before, by whether the strike is fresh: they share it."""

    @classmethod
    def of(cls, executor: str, ending: Ending) -> "Crash | None":
        """The crash that an end was, if the leader counts it as one."""
        if not ending.is_crash:
            return None
        fresh = Strike(kind=StrikeKind.CRASH, executor=executor, at_ms=ending.at_ms)
        again = replace(fresh, is_fresh=False)
        first = {one.is_fresh: Marks(strikes=(one,)) for one in (fresh, again)}
        return cls(fresh, again, ending.withhold_at, first)

    def struck(self, shard: Shard) -> Shard:
        """A shard that was there."""
        strike = self.again if shard.cause is Cause.RESTART else self.fresh
        if shard.marks is UNMARKED:
            return shard.replace(marks=self.first[strike.is_fresh])
        return struck(shard, strike)

    def withholds(self, shard: Shard) -> bool:
        """Whether a shard that was there shall not be run until its place is chosen anew."""
        return 0 < self.withhold_at <= crashes_of(shard)


def struck(shard: Shard, strike: Strike) -> Shard:
    """A shard with one more strike, the oldest given up beyond the bound."""
    return shard.replace(strikes=(*shard.strikes[1 - STRIKES_MAX :], strike))


def conclude(draft: Draft, command: ParkPoison | ForgetStrikes) -> Outcome:
    """What the leader made of strikes."""
    return _park(draft, command) if isinstance(command, ParkPoison) else _forget(draft, command)


def _park(draft: Draft, command: ParkPoison) -> Outcome:
    """Let nobody run a shard that is poison. It is vacant: nobody has to stop it."""
    shard = draft.shard(command.key)
    if shard is None:
        return Refused(Reason.SHARD_NOT_FOUND, f"no shard {command.key!r}")
    if shard.state is not ShardState.VACANT or len(shard.strikes) != command.strikes:
        return Refused(Reason.CONFLICT, f"shard {command.key!r} is not what it was judged by")
    draft.free(shard.replace(fate=Fate.PARKED, note=command.note), shard.cause)
    draft.note(
        EventKind.SHARD_PARKED,
        command.at_ms,
        shard=shard,
        executor=shard.previous,
        cause="poison",
        detail=command.note,
    )
    return Applied(resource=command.key, count=1)


def _forget(draft: Draft, command: ForgetStrikes) -> Outcome:
    """Wipe strikes out, except of shards that are parked for them."""
    count = 0
    for key in command.keys:
        shard = draft.shard(key)
        if shard is not None and shard.strikes and shard.fate is None:
            draft.put(shard.replace(strikes=()))
            count += 1
    if count:
        draft.note(EventKind.STRIKES_FORGOTTEN, command.at_ms, reason=command.reason, count=count)
    return Applied(count=count)
