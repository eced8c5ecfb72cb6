"""Which shard is to blame: when crashes of executors, or failed starts, speak against one shard.

Decides from strikes alone: what a shard was present at. It must not know leases, loads, or who is
placed where now. No crash says by itself which of five hundred shards it was, so blame is a matter
of comparison: the shards of an executor that crashed again are placed anew, evenly over all
executors, and the one that meets every crash stands out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, comb
from typing import Final

from coordinator.core.shard import Shard
from coordinator.core.strikes import StrikeKind
from coordinator.core.struck import crashes_of

MEMORY_S: Final = 600.0
"""What a shard was present at is forgotten when it ran for so long since: whoever crashes once in
ten minutes serves for most of them, and an unrelated crash must not be its third."""

STORM_LEASES: Final = 2.0
"""A storm's crashes lie within so many leases: executors that die together are seen to within one,
and a deploy that cannot run crashes again at once."""

STORM_RATIO: Final = 0.5
"""And they are so many of the executors: fewer that crash on and on are told apart by counting."""

PARKED_MIN: Final = 3
PARKED_RATIO: Final = 0.01
"""So many shards of a namespace, or this share, may be parked for poison at a time, until somebody
looks: more of them at once have something else in common."""


TRIED_MAX: Final = 8
"""A shard that could not be started is tried on every executor before it is given up, but on no
more than so many: by then it is not they."""

PLACES_MIN: Final = 2
"""Executors that crashed with a shard more often than without it: one alone may be to blame itself,
so a fleet of one parks nothing for crashes, and a bad host does not blame what passes over it."""


CHANCE_MAX: Final = 0.1
"""Of innocent shards that would have met as many crashes by chance. With a tenth, executors that
crash at random every minute blame a shard in some forty crashes; each factor less costs a crash
more in small fleets, and everybody pays for that."""


class Spared(StrEnum):
    """Why a suspect is not parked."""

    BELOW_THRESHOLD = "below_threshold"
    NOT_ALONE = "not_alone"
    """Others were present at as many crashes."""
    ONE_PLACE = "one_place"
    """It may as well be the executors: they crash without it too, or there is but one of them."""
    CHANCE = "chance"
    """So many shards are placed over so few executors that one of them meets them all."""
    OTHER_CRASHES = "other_crashes"
    """There were more crashes without it than with it."""
    LIMIT = "limit"
    """As many as may be are parked already."""
    OTHERS_FAIL = "others_fail"
    """Other shards cannot start either, or there is none that runs to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a suspect is compared with."""

    threshold: int
    shards: int
    """All that are not parked."""
    parked: int
    """For poison, now."""
    running: int
    """That have an owner."""
    failing: int
    """That wait after a failed start."""
    executors: int
    open_executors: int
    """That may be given shards."""
    crashes: Mapping[str, int]
    """Of each executor, all that count and are not forgotten."""


def failed_starts_of(shard: Shard) -> int:
    """How often a shard could not be started."""
    return len(shard.strikes) - crashes_of(shard)


def parked_max(shards: int) -> int:
    """How many of so many shards may be parked for poison at a time."""
    return max(PARKED_MIN, int(shards * PARKED_RATIO))


def is_storm(unexplained: int, executors: int) -> bool:
    """Whether so many executors crashed together that no shard is the cause.

    Unexplained are those that held no shard which had met a crash elsewhere. Half of a fleet, and
    no fewer than two: one is what a poison shard does first.
    """
    return unexplained >= max(2, ceil(executors * STORM_RATIO))


def places_at(threshold: int) -> int:
    """From how many crashes on the shards that met them are placed anew instead of in place.

    One crash less than would park: the last one can then tell them apart. Never after the first,
    which is what a kill or a full memory does, and a restart moves nothing.
    """
    return max(2, threshold - 1)


def spared_of_crashes(suspect: Shard, peers: int, scene: Scene) -> Spared | None:
    """Why the crashes it met do not make a shard poison; None if they do.

    `peers` are the other shards that met as many.
    """
    met = crashes_of(suspect)
    if met < scene.threshold:
        return Spared.BELOW_THRESHOLD
    if peers:
        return Spared.NOT_ALONE
    if 2 * met < sum(scene.crashes.values()):
        return Spared.OTHER_CRASHES
    here = Counter(one.executor for one in suspect.strikes if one.kind is StrikeKind.CRASH)
    mostly = [name for name, count in here.items() if 2 * count > scene.crashes.get(name, 0)]
    if len(mostly) < PLACES_MIN:
        return Spared.ONE_PLACE
    if _innocents_by_chance(suspect, scene) > CHANCE_MAX:
        return Spared.CHANCE
    return _limited(scene)


def _innocents_by_chance(suspect: Shard, scene: Scene) -> float:
    """How many shards would have met as many crashes if these had nothing to do with any.

    A shard placed anew is on the executor that crashes next with a chance of one in all of them. A
    single executor counts as two: half of the suspects wait until the other half has proven itself.
    Crashes that it could not but meet, in place, say nothing; those it missed make it likelier that
    somebody met as many as this one.
    """
    fresh = sum(one.is_fresh for one in suspect.strikes if one.kind is StrikeKind.CRASH)
    forced = crashes_of(suspect) - fresh
    rounds = max(fresh, sum(scene.crashes.values()) - forced)
    executors = max(2, scene.executors, _places(suspect, StrikeKind.CRASH))
    return float(scene.shards * comb(rounds, fresh) / executors**fresh)


def spared_of_failures(suspect: Shard, scene: Scene) -> Spared | None:
    """Why the starts that failed do not make a shard poison; None if they do."""
    if failed_starts_of(suspect) < scene.threshold:
        return Spared.BELOW_THRESHOLD
    if _places(suspect, StrikeKind.FAILED_START) < min(TRIED_MAX, scene.open_executors):
        return Spared.ONE_PLACE
    if scene.failing > parked_max(scene.shards) or 2 * scene.failing > scene.running:
        return Spared.OTHERS_FAIL
    return _limited(scene)


def _limited(scene: Scene) -> Spared | None:
    return Spared.LIMIT if scene.parked >= parked_max(scene.shards) else None


def _places(suspect: Shard, kind: StrikeKind) -> int:
    return len({strike.executor for strike in suspect.strikes if strike.kind is kind})


def most_crashes(shards: Iterable[Shard]) -> int:
    """The most crashes that any of these met."""
    return max(map(crashes_of, shards), default=0)
