"""Fleets that are not there, moves that are not made, and the yardstick of static hashing."""

from bisect import bisect_right
from hashlib import blake2s

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.planner import (
    Aims,
    Court,
    Hold,
    Holdings,
    Piece,
    Rule,
    Scene,
    Seat,
    Stack,
    hash_place,
    measuring,
    plan_pass,
    rejected,
    waterfill,
    yardstick,
)
from coordinator.core.planner.verdicts import REJECTED_MAX
from coordinator.core.planner.whatif import (
    at_rest,
    executors_needed,
    outlook,
    outlooks,
    resized,
    unlimited,
    without,
)
from tests.core.planner_fleets import Fleet, fleet, fleets, hashed, snapshot

AIMS = Aims(start_gap=0.2, stop_gap=0.1, budget=100)


def scene_of(one: Fleet) -> Scene:
    return Scene(one.seats, Holdings.of(one.pieces))


def keys_of(scene: Scene) -> list[str]:
    return sorted(key for stack in scene.holdings.stacks.values() for key in stack.keys)


# -- fleets that are not there -----------------------------------------------------------------


@given(fleets(), st.integers(1, 9))
def test_no_shard_is_lost_or_doubled_in_a_fleet_of_another_size(one: Fleet, executors: int) -> None:
    scene = scene_of(one)
    changed = resized(scene, executors)
    assert len(changed.seats) == executors
    if not changed.unplaced:
        assert keys_of(changed) == keys_of(scene)
        assert changed.load == pytest.approx(scene.load)
    else:
        assert len(keys_of(changed)) == scene.shards - changed.unplaced


def test_executors_that_are_gone_leave_their_shards_to_the_least_loaded() -> None:
    changed = without(scene_of(fleet(a=[3, 1], b=[2], c=[9])), {"a"})
    assert {name: stack.total for name, stack in changed.holdings.stacks.items()} == {
        "b": 6.0,
        "c": 9.0,
    }
    assert [seat.executor for seat in changed.seats] == ["b", "c"]
    nobody = without(changed, {"b", "c"})
    assert (nobody.unplaced, nobody.shards) == (4, 0)


def test_a_smaller_fleet_loses_those_that_hold_least_and_all_that_are_on_their_way_out() -> None:
    one = fleet(a=[5], b=[1], c=[4], d=[9])
    closed = tuple(Seat("d", is_open=False) if s.executor == "d" else s for s in one.seats)
    changed = resized(Scene(closed, Holdings.of(one.pieces)), 2)
    # What lay on d is on b, which thereby holds more than c.
    assert [seat.executor for seat in changed.seats] == ["a", "b"]


def test_a_larger_fleet_has_new_executors_like_the_middle_of_the_others() -> None:
    seats = (Seat("a", 1.0), Seat("b", 2.0), Seat("c", 8.0))
    changed = resized(Scene(seats, Holdings({})), 5)
    assert [(seat.executor, seat.capacity) for seat in changed.seats[3:]] == [
        ("+1", 2.0),
        ("+2", 2.0),
    ]
    assert len(resized(Scene((), Holdings({})), 2).seats) == 2


def test_what_holds_a_shard_for_a_while_does_not_matter_and_a_pin_does() -> None:
    pieces = {
        "a": [Piece("p", 1.0, Hold.PINNED), Piece("c", 1.0, Hold.COOLDOWN), Piece("u", 1.0)],
        "b": [],
    }
    scene = at_rest(Scene((Seat("a", in_flight=4), Seat("b")), Holdings.of(pieces)))
    assert scene.holdings.holds == {"p": Hold.PINNED}
    assert [seat.in_flight for seat in scene.seats] == [0, 0]


def test_the_table_answers_would_eight_have_been_enough() -> None:
    one = hashed(snapshot("mergify_like.csv"), 12)
    table = {row.executors: row for row in outlooks(scene_of(one), range(8, 13), AIMS)}
    for executors, row in table.items():
        after = row.plan.after
        assert after.mean == pytest.approx(one.seats and scene_of(one).load / executors)
        assert row.plan.bound.max <= after.hottest_utilisation + 1e-9
        assert after.hottest_utilisation < row.hashed.modulo.hottest_utilisation
    assert table[12].owed == 0
    assert table[8].owed > 0
    needed = executors_needed(scene_of(one), 75.0)
    assert needed is not None
    assert needed <= 8
    assert table[8].plan.after.hottest_utilisation <= 80.0


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=30), st.floats(0.5, 30.0))
def test_so_many_executors_are_needed_and_one_less_is_never_enough(
    loads: list[float], mark: float
) -> None:
    named = {f"s{at}": load for at, load in enumerate(loads)}
    scene = Scene((Seat("a"),), Holdings({"a": Stack.of(list(named), loads)}))
    needed = executors_needed(scene, mark)
    if needed is None:
        assert max(loads) > mark
    else:
        assert waterfill(named, needed).max <= mark * (1 + 1e-6)
        assert needed == 1 or sum(loads) / (needed - 1) > mark * (1 - 1e-6)


def test_an_outlook_is_the_planners_own_plan() -> None:
    scene = scene_of(fleet(a=[3, 2, 2], b=[1]))
    found = outlook(scene, unlimited(AIMS, scene.shards))
    assert found.plan == plan_pass(scene.seats, scene.holdings, unlimited(AIMS, scene.shards))
    assert found.executors == 2


# -- moves that are not made -------------------------------------------------------------------


def rule(piece: Piece, seats: tuple[Seat, ...], loads: dict[str, float], **aims: float) -> str:
    court = Court.of_totals(seats, loads, Aims(start_gap=0.2, stop_gap=0.1, budget=9, **aims), 0.5)
    verdict = court.verdict(piece, "a", "b")
    assert verdict is not None
    return verdict.rule


@pytest.mark.parametrize(
    ("piece", "seats", "loads", "expected"),
    [
        (
            Piece("s", 1.0),
            (Seat("a", is_source=False), Seat("b")),
            {"a": 4, "b": 1},
            Rule.SOURCE_WAITS,
        ),
        *(
            (Piece("s", 1.0, hold), (Seat("a"), Seat("b")), {"a": 4, "b": 1}, Rule(hold.value))
            for hold in Hold
        ),
        (Piece("s", 1.0), (Seat("a"), Seat("b", is_open=False)), {"a": 4, "b": 1}, Rule.NOT_OPEN),
        (
            Piece("s", 1.0, None, frozenset("b")),
            (Seat("a"), Seat("b")),
            {"a": 4, "b": 1},
            Rule.BANNED,
        ),
        (Piece("s", 1.0), (Seat("a"), Seat("b")), {"a": 4, "b": 4}, Rule.NOT_COLDER),
        (Piece("s", 3.0), (Seat("a"), Seat("b")), {"a": 4, "b": 1}, Rule.TOO_HEAVY),
        (Piece("s", 0.001), (Seat("a"), Seat("b")), {"a": 4, "b": 1}, Rule.NOT_WORTH_IT),
        (Piece("s", 1.5), (Seat("a"), Seat("b")), {"a": 4, "b": 1}, Rule.OUTSCORED),
    ],
)
def test_the_first_rule_against_a_move_is_told(
    piece: Piece, seats: tuple[Seat, ...], loads: dict[str, float], expected: Rule
) -> None:
    assert rule(piece, seats, loads) == expected


def test_a_quiet_executor_is_told_as_quiet() -> None:
    seats = (Seat("a"), Seat("b"))
    assert rule(Piece("s", 1.5), seats, {"a": 4.0, "b": 1.0}, quiet_mark=4.0) == Rule.QUIET


def test_who_takes_no_part_is_not_judged() -> None:
    court = Court.of_totals(
        (Seat("a"), Seat("b", is_open=False, is_source=False)), {"a": 1.0}, AIMS, 0.5
    )
    assert court.verdict(Piece("s", 1.0), "a", "b") is None
    assert court.verdict(Piece("s", 1.0), "a", "a") is None
    assert court.verdict(Piece("s", 1.0), "gone", "a") is None


def test_without_load_or_room_there_is_nothing_to_reject() -> None:
    closed = (Seat("a", is_open=False),)
    holdings = Holdings({"a": Stack.of(["s"], [1.0])})
    assert rejected(closed, holdings, AIMS, plan_pass(closed, holdings, AIMS)) == []
    idle = (Seat("a"), Seat("b"))
    still = Holdings({"b": Stack.of(["s"], [0.0])})
    found = rejected(idle, still, AIMS, plan_pass(idle, still, AIMS))
    assert [one.rule for one in found] == [Rule.NOT_COLDER]
    assert found[0].worth == 0.0


def test_alone_a_hot_executor_has_nobody_to_give_to() -> None:
    one = fleet(a=[3, 1])
    holdings = Holdings.of(one.pieces)
    assert rejected(one.seats, holdings, AIMS, plan_pass(one.seats, holdings, AIMS)) == []


@given(fleets())
def test_what_a_plan_passed_over_is_bounded_and_never_what_it_moves(one: Fleet) -> None:
    holdings = Holdings.of(one.pieces)
    aims = Aims(start_gap=0.1, stop_gap=0.05, budget=3, per_executor=1)
    plan = plan_pass(one.seats, holdings, aims)
    found = rejected(one.seats, holdings, aims, plan)
    assert len(found) <= REJECTED_MAX
    assert not {move.key for move in plan.moves} & {verdict.key for verdict in found}
    for verdict in found:
        assert verdict.source != verdict.target
        if verdict.rule is Rule.OUTSCORED:
            assert verdict.worth > 1.0
        if verdict.rule is Rule.NOT_WORTH_IT:
            assert verdict.worth <= 1.0 + 1e-9


def test_what_is_held_back_for_want_of_hands_is_told_as_that() -> None:
    one = fleet(a=[3, 3, 3, 3], b=[], c=[])
    holdings = Holdings.of(one.pieces)
    aims = Aims(start_gap=0.1, stop_gap=0.05, budget=9, per_executor=1)
    plan = plan_pass(one.seats, holdings, aims)
    assert Rule.LIMIT in {verdict.rule for verdict in rejected(one.seats, holdings, aims, plan)}


# -- the yardstick -----------------------------------------------------------------------------


def test_the_yardstick_is_the_routers_own_hash_and_a_ring_lies_between() -> None:
    loads = snapshot("mergify_like.csv")
    names = [f"e{at}" for at in range(10)]
    found = yardstick([Stack.of(list(loads), list(loads.values()))], dict.fromkeys(names, 1.0))
    by_hash = dict.fromkeys(names, 0.0)
    for key, executor in hash_place(loads, names).items():
        by_hash[executor] += loads[key]
    assert found.modulo.hottest_utilisation == pytest.approx(max(by_hash.values()))
    assert found.ring.total == found.modulo.total == pytest.approx(sum(loads.values()))
    assert found.ring != found.modulo


def test_a_ring_keeps_most_shards_when_one_executor_comes() -> None:
    """The reason why anybody uses one; with equal loads it is uneven all the same."""
    keys = [str(number) for number in range(3_000)]
    stack = Stack.of(keys, [1.0] * len(keys))
    ring = yardstick([stack], dict.fromkeys("abcde", 1.0)).ring
    assert 0.0 < ring.spread < 0.3


def test_no_slice_of_the_yardstick_is_much_of_it() -> None:
    """A ring of a thousand executors once held the leader's loop for a tenth of a second."""
    keys = [str(number) for number in range(2_000)]
    names = [f"e{number}" for number in range(200)]
    slices = [*measuring([Stack.of(keys, [1.0] * len(keys))], dict.fromkeys(names, 1.0))]
    assert max(slices) <= 2_000
    assert len(slices) > 2 * 256  # what is let go of is let go of in slices, too


def test_a_ring_has_no_end() -> None:
    """Behind the last point of all comes the first, and most parts of a short one are empty."""
    points = sorted(
        (blake2s(f"{name}#{n}".encode()).digest(), name) for name in "ab" for n in range(100)
    )
    keys = [str(number) for number in range(500)]
    shares = dict.fromkeys("ab", 0)
    for key in keys:
        at = bisect_right([mark for mark, _ in points], blake2s(key.encode()).digest())
        shares[points[at % len(points)][1]] += 1
    found = yardstick([Stack.of(keys, [1.0] * len(keys))], dict.fromkeys("ab", 1.0)).ring
    assert found.hottest_utilisation == max(shares.values())
    assert found.coldest_utilisation == min(shares.values())


def test_without_executors_there_is_nothing_to_hash_to() -> None:
    assert yardstick([Stack.of(["s"], [1.0])], {}).modulo.total == 0.0
