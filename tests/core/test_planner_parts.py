"""Placing owed shards, levelling idle ones, figures and the move budget, by worked examples."""

import pytest

from coordinator.core.planner import (
    Bound,
    Hold,
    MoveBudget,
    MoveReason,
    Piece,
    Ramp,
    Seat,
    best_possible,
    fleet_figures,
    hash_place,
    place,
    waterfill,
)
from coordinator.core.planner.limits import RampUse
from tests.core.planner_fleets import Fleet, carried_out, fleet, level_idle


def owed(*loads: float, banned: frozenset[str] = frozenset()) -> list[Piece]:
    return [Piece(f"s{at}", load, banned=banned) for at, load in enumerate(loads)]


def placed(result: object) -> dict[str, str]:
    return {one.key: one.target for one in result.placed}  # type: ignore[attr-defined]


ABC = [Seat("a"), Seat("b"), Seat("c")]


def test_owed_shards_go_heaviest_first_to_the_least_loaded() -> None:
    result = place(owed(1, 5, 3), ABC, {"a": 4.0, "b": 1.0}, {})
    assert [(one.key, one.target, one.load) for one in result.placed] == [
        ("s1", "c", 5),
        ("s2", "b", 3),
        ("s0", "a", 1),
    ]
    assert result.owed == ()


def test_ties_go_to_fewer_shards_and_then_by_name() -> None:
    assert placed(place(owed(1), ABC, {}, {"a": 1, "b": 1})) == {"s0": "c"}
    assert placed(place(owed(1), ABC[::-1], {}, {})) == {"s0": "a"}


def test_ties_go_to_each_zone_in_turn() -> None:
    zones = {"a1": "x", "a2": "x", "a3": "x", "b1": "y", "b2": "y", "c1": "z"}
    seats = [Seat(name, zone=zone) for name, zone in zones.items()]
    some = list(placed(place(owed(5, 4, 3), seats[::-1], {}, {})).values())
    assert some == ["a1", "b1", "c1"]
    every = list(placed(place(owed(6, 5, 4, 3, 2, 1), seats, {}, {})).values())
    assert every == ["a1", "b1", "c1", "a2", "b2", "a3"]
    busy = place(owed(1), seats, {"a1": 1.0, "b1": 1.0, "c1": 2.0}, {})
    assert list(placed(busy).values()) == ["a2"]


def test_shards_without_any_known_load_are_spread_by_count() -> None:
    result = place(owed(*[0.0] * 7), ABC, {}, {"a": 2})
    targets = list(placed(result).values())
    assert {name: targets.count(name) for name in "abc"} == {"a": 1, "b": 3, "c": 3}


def test_idle_shards_do_not_pile_up_on_the_least_loaded() -> None:
    result = place(owed(*[1e-9] * 30), ABC, {"a": 10.0, "b": 10.0, "c": 9.0}, {})
    targets = list(placed(result).values())
    assert [targets.count(name) for name in "abc"] == [10, 10, 10]


def test_a_larger_executor_is_sent_more() -> None:
    seats = [Seat("large", 3.0), Seat("small", 1.0)]
    targets = list(placed(place(owed(*[1.0] * 8), seats, {}, {})).values())
    assert targets.count("large") == 6


def test_closed_executors_are_sent_nothing() -> None:
    seats = [Seat("a", is_open=False), Seat("b")]
    assert placed(place(owed(1), seats, {"b": 9.0}, {})) == {"s0": "b"}
    nowhere = place(owed(2, 1), seats[:1], {}, {})
    assert nowhere.placed == ()
    assert nowhere.owed == ("s0", "s1")


def test_a_banned_executor_is_passed_over_for_that_shard_only() -> None:
    shards = [Piece("x", 2.0, banned=frozenset("ab")), Piece("y", 1.0)]
    assert placed(place(shards, ABC, {"c": 50.0}, {})) == {"x": "c", "y": "a"}
    assert place(owed(1, banned=frozenset("abc")), ABC, {}, {}).owed == ("s0",)


def test_a_hold_does_not_keep_an_owed_shard_from_being_placed() -> None:
    assert placed(place([Piece("x", 1.0, Hold.PINNED)], ABC, {}, {})) == {"x": "a"}


def test_a_ramp_limits_what_a_newly_joined_executor_is_sent() -> None:
    loads = {"a": 10.0, "b": 10.0}
    by_count = place(owed(1, 1, 1, 1), ABC, loads, {}, {"c": Ramp(count=2)})
    assert list(placed(by_count).values()).count("c") == 2
    by_load = place(owed(3, 2, 1), ABC, loads, {}, {"c": Ramp(load=4.0)})
    assert [key for key, target in placed(by_load).items() if target == "c"] == ["s0", "s2"]
    over = place(owed(5, 0), ABC, loads, {}, {"c": Ramp(load=3.0, at_least=1)})
    assert [key for key, target in placed(over).items() if target == "c"] == ["s0"]
    alone = place(owed(1, 1), ABC[2:], {}, {}, {"c": Ramp(count=1)})
    assert (len(alone.placed), alone.owed) == (1, ("s1",))


def test_whoever_is_full_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand newcomers, all full, were asked at each of a thousand shards: for a second."""
    asked = 0
    has_room = RampUse.has_room

    def counted(use: RampUse, executor: str, load: float) -> bool:
        nonlocal asked
        asked += 1
        return has_room(use, executor, load)

    monkeypatch.setattr(RampUse, "has_room", counted)
    seats = [Seat(f"e{number:03}") for number in range(100)]
    full = {seat.executor: Ramp(count=0) for seat in seats[:99]}
    found = place(owed(*[1.0] * 100), seats, {"e099": 1e9}, {}, full)
    assert set(placed(found).values()) == {"e099"}
    assert asked <= 200


def test_nothing_owed_needs_nobody() -> None:
    assert place([], [], {}, {}).placed == ()


def test_hashing_over_no_executors_places_nothing() -> None:
    assert hash_place(["k"], []) == {}


def test_hashing_counts_an_executor_named_twice_once() -> None:
    assert hash_place(["k"], ["a", "a", "b"]) == hash_place(["k"], ["b", "a"])


def counts(one: Fleet, **options: object) -> list[int]:
    given = {"stop_gap": 0.1, "budget": 1000, **options}
    moves = level_idle(one.seats, one.pieces, **given)  # type: ignore[arg-type]
    assert all(move.reason is MoveReason.LEVEL_IDLE for move in moves)
    after = carried_out(one.pieces, moves)
    return [len(after[seat.executor]) for seat in one.seats]


def test_a_pile_of_idle_shards_is_brought_down_to_the_band() -> None:
    piled = fleet(a=[0.0] * 60, b=[1.0], c=[1.0])
    assert max(counts(piled)) == 26
    assert counts(piled, budget=3) == [57, 3, 3] or counts(piled, budget=3)[0] == 57


@pytest.mark.parametrize("pile", [(5, 3, 3), (4, 4, 4), (3, 1, 1), (1, 0, 0)])
def test_counts_within_the_band_are_left_alone(pile: tuple[int, int, int]) -> None:
    one = fleet(**{name: [0.0] * count for name, count in zip("abc", pile, strict=True)})
    assert counts(one) == list(pile)


def test_loaded_shards_are_not_levelled_by_count() -> None:
    assert counts(fleet(a=[1.0] * 50, b=[50.0])) == [50, 1]


def test_held_and_banned_idle_shards_stay() -> None:
    seats = fleet(a=[], b=[]).seats
    held = [Piece(f"h{at}", 0.0, Hold.PINNED) for at in range(20)]
    assert counts(Fleet(seats, {"a": held, "b": []})) == [20, 0]
    banned = [Piece(f"h{at}", 0.0, banned=frozenset("b")) for at in range(20)]
    assert counts(Fleet(seats, {"a": banned, "b": []})) == [20, 0]


def test_an_executor_that_is_no_source_keeps_its_idle_shards() -> None:
    one = fleet(a=[0.0] * 20, b=[])
    fixed = Fleet((Seat("a", is_source=False), Seat("b")), one.pieces)
    assert counts(fixed) == [20, 0]


def test_idle_levelling_obeys_the_limit_of_hands() -> None:
    piled = fleet(a=[0.0] * 60, b=[1.0], c=[1.0])
    assert counts(piled, per_executor=3)[0] == 57
    busy = Fleet((Seat("a"), Seat("b", in_flight=1), Seat("c", in_flight=1)), piled.pieces)
    assert counts(busy, per_executor=1) == [60, 1, 1]


def test_idle_levelling_fills_a_newcomer_no_faster_than_its_ramp() -> None:
    piled = fleet(a=[0.0] * 60, b=[1.0], c=[1.0])
    slow = counts(piled, ramps={"b": Ramp(count=3), "c": Ramp(count=2)})
    assert slow == [55, 4, 3]


def test_idle_levelling_never_lifts_an_executor_above_the_hottest() -> None:
    light = 1e-5
    one = fleet(a=[light] * 60, b=[1.0], c=[1.0])
    assert counts(one) == [60, 1, 1]


def test_without_open_executors_nothing_is_levelled() -> None:
    shut = [Seat("a", is_open=False)]
    assert level_idle(shut, {"a": [Piece("x", 0.0)]}, stop_gap=0.1, budget=5) == ()


def test_a_large_executor_may_hold_a_larger_pile() -> None:
    one = fleet(a=[0.0] * 20, b=[0.0] * 5)
    assert counts(Fleet((Seat("a", 4.0), Seat("b", 1.0)), one.pieces)) == [20, 5]


def test_figures_name_the_hottest_and_coldest_by_utilisation() -> None:
    figures = fleet_figures({"a": 6.0, "b": 3.0, "c": 1.0}, {"a": 4.0})
    assert (figures.hottest, figures.hottest_utilisation) == ("b", 3.0)
    assert (figures.coldest, figures.coldest_utilisation) == ("c", 1.0)
    assert figures.total == 10.0
    assert figures.mean == pytest.approx(10 / 6)
    assert figures.max_over_mean == pytest.approx(1.8)


def test_spread_is_standard_deviation_over_mean() -> None:
    assert fleet_figures({"a": 1.0, "b": 3.0}, {}).spread == pytest.approx(0.5)
    assert fleet_figures({"a": 2.0, "b": 2.0}, {}).spread == 0.0


def test_an_empty_fleet_has_empty_figures() -> None:
    figures = fleet_figures({}, {})
    assert (figures.hottest, figures.coldest, figures.total) == ("", "", 0.0)
    assert figures.max_over_mean == 1.0


NOTHING = Bound(spread=0.0, max=0.0, level=0.0, dominant=())


def test_light_shards_can_be_level() -> None:
    bound = waterfill({"a": 1.0, "b": 2.0, "c": 3.0}, 2)
    assert (bound.spread, bound.max, bound.level, bound.dominant) == (0.0, 3.0, 3.0, ())


def test_dominant_shards_are_found_one_after_the_other() -> None:
    # 9 is over 16/3; what it leaves, 7, makes 3.5 each, and 4 is over that.
    bound = waterfill({"x": 4.0, "y": 9.0, "z": 2.0, "w": 1.0}, 3)
    assert [one.key for one in bound.dominant] == ["y", "x"]
    assert (bound.max, bound.level) == (9.0, 3.0)
    assert bound.spread == pytest.approx(fleet_figures({"y": 9, "x": 4, "r": 3}, {}).spread)


def test_fewer_shards_than_executors_leave_some_empty() -> None:
    bound = waterfill({"x": 1.0, "y": 1.0}, 4)
    assert (bound.max, bound.level) == (1.0, 0.0)
    assert [one.key for one in bound.dominant] == ["x", "y"]
    assert bound.spread == pytest.approx(1.0)


@pytest.mark.parametrize("load", [0.1, 1 / 3, 1e-300, 1e15])
def test_as_many_equal_shards_as_executors_are_not_dominant(load: float) -> None:
    loads = {f"s{at}": load for at in range(7)}
    assert waterfill(loads, 7).dominant == ()
    assert waterfill(loads, 7).max == pytest.approx(load)


@pytest.mark.parametrize("executors", [-1, 0])
def test_no_executors_have_no_bound(executors: int) -> None:
    assert waterfill({"x": 1.0}, executors) == NOTHING
    assert waterfill({}, 3) == NOTHING


def test_shards_without_load_are_bounded_by_nothing() -> None:
    assert waterfill({"x": 0.0}, 3) == NOTHING
    assert best_possible({"x": 0.0}, [1.0, 2.0]) == NOTHING


def test_equal_capacities_scale_the_water_fill_bound() -> None:
    loads = {"x": 8.0, "y": 1.0, "z": 1.0}
    one, four = best_possible(loads, [1.0] * 2), best_possible(loads, [4.0] * 2)
    assert four.spread == one.spread == pytest.approx(0.6)
    assert (four.max, four.level) == (2.0, 0.5)
    assert four.dominant == one.dominant


def test_under_mixed_capacities_a_heavy_shard_bounds_by_the_largest_executor() -> None:
    bound = best_possible({"x": 9.0, "y": 1.0, "z": 1.0}, [1.0, 3.0, 1.0])
    assert bound.max == 3.0
    assert bound.level == 1.0
    assert [one.key for one in bound.dominant] == ["x"]
    # Reached exactly: 9 on the large one, 1 on each small one.
    reached = fleet_figures({"p": 9, "q": 1, "r": 1}, {"p": 3})
    assert bound.spread == pytest.approx(reached.spread)


def test_under_mixed_capacities_light_shards_can_be_level() -> None:
    bound = best_possible({f"s{at}": 1.0 for at in range(8)}, [1.0, 3.0])
    assert (bound.spread, bound.max, bound.level, bound.dominant) == (0.0, 2.0, 2.0, ())


def test_under_mixed_capacities_a_single_shard_leaves_the_rest_empty() -> None:
    bound = best_possible({"x": 6.0}, [1.0, 3.0])
    assert (bound.max, bound.level) == (2.0, 0.0)
    assert [one.key for one in bound.dominant] == ["x"]


def budget(ratio: float = 0.01, window_s: float = 60.0, **rest: float) -> MoveBudget:
    return MoveBudget(ratio, window_s, 0.0, **rest)


@pytest.mark.parametrize(
    ("ratio", "shards", "moves"),
    [
        (0.01, 1000, 10),
        (0.01, 1001, 11),
        (0.07, 100, 7),
        (0.01, 10, 2),
        (0.01, 1, 2),
        (0.01, 0, 0),
        (0.0, 1000, 0),
        (1.0, 50, 50),
    ],
)
def test_the_allowance_is_the_ratio_rounded_up_and_at_least_two(
    ratio: float, shards: int, moves: int
) -> None:
    assert budget(ratio).allowance(shards) == moves
    assert budget(ratio).available(shards, 0.0) == moves


def test_what_is_spent_comes_back_evenly_over_the_window() -> None:
    one = budget()
    assert one.take(10, 1000, 0.0) == 10
    assert one.available(1000, 5.9) == 0
    assert one.available(1000, 6.0) == 1
    assert one.available(1000, 30.0) == 5
    assert one.available(1000, 60.0) == 10
    assert one.available(1000, 6000.0) == 10


def test_no_more_is_taken_than_is_there() -> None:
    one = budget()
    assert one.take(25, 1000, 0.0) == 10
    assert one.take(1, 1000, 0.0) == 0
    assert one.take(-3, 1000, 0.0) == 0


def test_moves_that_were_not_made_can_be_given_back() -> None:
    one = budget()
    one.take(10, 1000, 0.0)
    one.give_back(4)
    assert one.available(1000, 0.0) == 4
    one.give_back(100)
    assert one.available(1000, 0.0) == 10


def test_a_new_leader_can_carry_on_from_what_was_spent() -> None:
    assert budget(spent=7.0).available(1000, 0.0) == 3


def test_a_clock_that_runs_back_refills_nothing() -> None:
    one = budget()
    one.take(10, 1000, 0.0)
    assert one.available(1000, -100.0) == 0
    assert one.available(1000, 6.0) == 1


def test_any_number_of_passes_in_a_window_spends_at_most_two_allowances() -> None:
    one = budget()
    taken = sum(one.take(10, 1000, at / 4) for at in range(241))
    assert taken == 20


def test_fewer_shards_later_leave_no_negative_budget() -> None:
    one = budget()
    one.take(10, 1000, 0.0)
    assert one.available(100, 0.0) == 0
