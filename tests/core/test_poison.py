"""When strikes make a shard poison: a comparison of counts, and nothing else."""

from collections import Counter
from dataclasses import replace

import pytest

from coordinator.core.poison import (
    Scene,
    Spared,
    crashes_of,
    failed_starts_of,
    is_storm,
    most_crashes,
    parked_max,
    places_at,
    spared_of_crashes,
    spared_of_failures,
)
from coordinator.core.shard import Shard
from coordinator.core.strikes import Strike, StrikeKind


def told(*executors: str) -> Counter[str]:
    return Counter(executors)


SCENE = Scene(
    threshold=3,
    shards=1000,
    parked=0,
    running=1000,
    failing=1,
    executors=50,
    open_executors=3,
    crashes=told(*"abc"),
)


def crashed(*executors: str, again: int = 0) -> Shard:
    """A shard that met a crash of each of these, the last ones in place."""
    return Shard(
        key="x",
        strikes=tuple(
            Strike(
                kind=StrikeKind.CRASH,
                executor=executor,
                at_ms=at,
                is_fresh=at < len(executors) - again,
            )
            for at, executor in enumerate(executors)
        ),
    )


def failed(*executors: str) -> Shard:
    return Shard(
        key="x",
        strikes=tuple(
            Strike(kind=StrikeKind.FAILED_START, executor=one, at_ms=0) for one in executors
        ),
    )


def test_crashes_and_failed_starts_are_counted_apart() -> None:
    shard = Shard(key="x", strikes=crashed("a", "b").strikes + failed("c").strikes)
    assert (crashes_of(shard), failed_starts_of(shard)) == (2, 1)
    assert most_crashes([shard, crashed("a"), Shard(key="y")]) == 2
    assert most_crashes([]) == 0


def test_a_shard_that_alone_met_every_crash_is_poison() -> None:
    assert spared_of_crashes(crashed("a", "b", "c"), 0, SCENE) is None


@pytest.mark.parametrize(
    ("suspect", "peers", "scene", "why"),
    [
        (crashed("a", "b"), 0, SCENE, Spared.BELOW_THRESHOLD),
        (crashed("a", "b", "c"), 1, SCENE, Spared.NOT_ALONE),
        (
            crashed("a", "b", "c"),
            0,
            replace(SCENE, crashes=told(*"abcdddd")),
            Spared.OTHER_CRASHES,
        ),
        (crashed("a", "a", "a"), 0, SCENE, Spared.ONE_PLACE),
        (crashed("a", "a", "a"), 0, replace(SCENE, executors=1), Spared.ONE_PLACE),
        # Two of the three crashed as often without it.
        (crashed("a", "b", "c"), 0, replace(SCENE, crashes=told(*"aabbc")), Spared.ONE_PLACE),
        # A thousand shards over ten executors: one of them meets three crashes by chance.
        (crashed("a", "b", "c"), 0, replace(SCENE, executors=10), Spared.CHANCE),
        (crashed("a", "b", "c", again=2), 0, SCENE, Spared.CHANCE),
        (crashed("a", "b", "c"), 0, replace(SCENE, parked=10), Spared.LIMIT),
    ],
)
def test_a_suspect_is_spared(suspect: Shard, peers: int, scene: Scene, why: Spared) -> None:
    assert spared_of_crashes(suspect, peers, scene) is why


def test_two_executors_need_fourteen_crashes_to_tell_one_of_a_thousand_shards() -> None:
    thirteen = crashed(*"ab" * 6, "a")
    scene = replace(SCENE, executors=2, crashes=told(*"ab" * 7))
    assert spared_of_crashes(thirteen, 0, scene) is Spared.CHANCE
    assert spared_of_crashes(crashed(*"ab" * 7), 0, scene) is None


def test_one_executor_alone_counts_as_two_for_chance() -> None:
    scene = replace(SCENE, executors=1, shards=3, crashes=told(*"ababa"))
    assert spared_of_crashes(crashed(*"abab"), 0, scene) is Spared.CHANCE
    assert spared_of_crashes(crashed(*"ababa"), 0, scene) is None


def test_crashes_without_it_make_it_likelier_that_it_met_the_others_by_chance() -> None:
    suspect = crashed("a", "b", "c")
    scene = replace(SCENE, shards=100, executors=10, crashes=told(*"abc"))
    assert spared_of_crashes(suspect, 0, scene) is None
    assert spared_of_crashes(suspect, 0, replace(scene, crashes=told(*"abcd"))) is Spared.CHANCE
    assert spared_of_crashes(suspect, 0, replace(SCENE, crashes=told(*"abcd"))) is None


def test_a_shard_that_failed_on_every_executor_is_poison() -> None:
    assert spared_of_failures(failed("a", "b", "c"), SCENE) is None
    assert spared_of_failures(failed("a", "a", "a"), replace(SCENE, open_executors=1)) is None


def test_a_shard_that_failed_on_eight_executors_is_not_tried_on_fifty() -> None:
    scene = replace(SCENE, open_executors=50)
    assert spared_of_failures(failed(*"abcdefg"), scene) is Spared.ONE_PLACE
    assert spared_of_failures(failed(*"abcdefgh"), scene) is None


@pytest.mark.parametrize(
    ("suspect", "scene", "why"),
    [
        (failed("a", "b"), SCENE, Spared.BELOW_THRESHOLD),
        (failed("a", "a", "b"), SCENE, Spared.ONE_PLACE),
        (failed("a", "b", "c"), replace(SCENE, failing=11), Spared.OTHERS_FAIL),
        (failed("a", "b", "c"), replace(SCENE, shards=4, failing=2, running=3), Spared.OTHERS_FAIL),
        (failed("a", "b", "c"), replace(SCENE, shards=1, running=0), Spared.OTHERS_FAIL),
        (failed("a", "b", "c"), replace(SCENE, parked=10), Spared.LIMIT),
    ],
)
def test_a_failing_shard_is_spared(suspect: Shard, scene: Scene, why: Spared) -> None:
    assert spared_of_failures(suspect, scene) is why


@pytest.mark.parametrize(
    ("least", "executors"), [(2, 1), (2, 2), (2, 4), (3, 5), (6, 12), (25, 50)]
)
def test_half_of_the_fleet_is_a_storm_and_one_never_is(least: int, executors: int) -> None:
    assert not is_storm(least - 1, executors)
    assert is_storm(least, executors)


def test_shards_are_placed_anew_before_the_crash_that_may_park_and_never_after_the_first() -> None:
    assert [places_at(threshold) for threshold in (2, 3, 5)] == [2, 2, 4]


def test_one_in_a_hundred_may_be_parked_and_three_in_any_case() -> None:
    assert [parked_max(shards) for shards in (1, 300, 1000)] == [3, 3, 10]
