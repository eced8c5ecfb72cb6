"""What holds for every plan on every fleet, and for places of owed shards."""

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from coordinator.core.planner import (
    Piece,
    Ramp,
    Seat,
    Stop,
    best_possible,
    fleet_figures,
    place,
)
from tests.core.planner_fleets import (
    Fleet,
    carried_out,
    fleet,
    fleets,
    level_idle,
    load_of,
    potential,
    settle,
    steps_of,
    utilisations,
)

GAPS = st.sampled_from([(0.2, 0.1), (0.1, 0.05), (0.01, 0.01), (0.0, 0.0)])
BUDGETS = st.sampled_from([0, 1, 2, 3, 100])
LIMITS = st.sampled_from([None, None, 1, 2, 4])
ROUNDING = 1e-9

# Enough to find each fault that was planted, and quick: thousands were run once.
SOME = settings(max_examples=50, deadline=None)


@SOME
@given(fleets(), GAPS, BUDGETS, LIMITS)
def test_every_step_lowers_the_potential_and_keeps_hottest_and_coldest_in_their_range(
    any_fleet: Fleet, gaps: tuple[float, float], budget: int, limit: int | None
) -> None:
    seats, pieces = any_fleet.seats, any_fleet.pieces
    start_gap, stop_gap = gaps
    plan = settle(
        seats,
        pieces,
        start_gap=start_gap,
        stop_gap=stop_gap,
        budget=budget,
        per_executor=limit,
    )
    taking_part = [one for one in seats if one.is_open or (one.is_source and pieces[one.executor])]
    for step in steps_of(plan.moves):
        before, heat = potential(pieces, taking_part), utilisations(pieces, taking_part)
        pieces = carried_out(pieces, step)
        after = utilisations(pieces, taking_part)
        scale = 1.0 + max(heat)
        # A gap of zero allows steps that gain less than rounding can show.
        if stop_gap > 0.0:
            assert potential(pieces, taking_part) < before
        else:
            assert potential(pieces, taking_part) <= before + ROUNDING * scale**2
        assert max(after) <= max(heat) + ROUNDING * scale
        assert min(after) >= min(heat) - ROUNDING * scale


@SOME
@given(fleets(), GAPS, BUDGETS, LIMITS)
def test_moves_obey_seats_holds_bans_budget_and_limits(
    any_fleet: Fleet, gaps: tuple[float, float], budget: int, limit: int | None
) -> None:
    plan = settle(
        any_fleet.seats,
        any_fleet.pieces,
        start_gap=gaps[0],
        stop_gap=gaps[1],
        budget=budget,
        per_executor=limit,
    )
    seats = {seat.executor: seat for seat in any_fleet.seats}
    home = {piece.key: (name, piece) for name, own in any_fleet.pieces.items() for piece in own}
    assert len(plan.moves) <= budget
    assert len({move.key for move in plan.moves}) == len(plan.moves)
    hands = {name: seat.in_flight for name, seat in seats.items()}
    for move in plan.moves:
        executor, piece = home[move.key]
        assert move.source == executor
        assert move.load == piece.load
        assert piece.is_movable
        assert move.target not in piece.banned
        assert seats[move.source].is_source
        assert seats[move.target].is_open
        hands[move.source] += 1
        hands[move.target] += 1
    if limit is not None:
        assert all(hands[name] <= max(limit, seat.in_flight) for name, seat in seats.items())


@SOME
@given(fleets(), GAPS, st.sampled_from([3, 100]), LIMITS, st.randoms(use_true_random=False))
def test_equal_inputs_in_any_order_give_equal_plans(
    any_fleet: Fleet, gaps: tuple[float, float], budget: int, limit: int | None, shuffler: object
) -> None:
    seats, names = list(any_fleet.seats), list(any_fleet.pieces)
    shuffle = shuffler.shuffle  # type: ignore[attr-defined] # hypothesis gives a random.Random
    shuffle(seats)
    shuffle(names)
    pieces = {name: list(any_fleet.pieces[name]) for name in names}
    for listed in pieces.values():
        shuffle(listed)
    options = {"start_gap": gaps[0], "stop_gap": gaps[1], "budget": budget, "per_executor": limit}
    first = settle(any_fleet.seats, any_fleet.pieces, **options)
    assert settle(seats, pieces, **options) == first
    assert level_idle(seats, pieces, stop_gap=gaps[1], budget=budget) == level_idle(
        any_fleet.seats, any_fleet.pieces, stop_gap=gaps[1], budget=budget
    )


@SOME
@given(fleets(), st.sampled_from([(0.2, 0.1), (0.05, 0.05)]))
def test_a_second_pass_with_the_moved_shards_at_rest_moves_nothing(
    any_fleet: Fleet, gaps: tuple[float, float]
) -> None:
    options = {"start_gap": gaps[0], "stop_gap": gaps[1], "budget": 1000}
    first = settle(any_fleet.seats, any_fleet.pieces, **options)
    assume(first.moves)
    pieces = carried_out(any_fleet.pieces, first.moves, are_resting=True)
    assert settle(any_fleet.seats, pieces, **options).moves == ()


@SOME
@given(fleets(), st.sampled_from([(0.2, 0.1), (0.05, 0.05)]), st.sampled_from([2, 1000]))
def test_passes_without_cooldown_come_to_rest(
    any_fleet: Fleet, gaps: tuple[float, float], budget: int
) -> None:
    pieces = any_fleet.pieces
    for _ in range(40):
        plan = settle(any_fleet.seats, pieces, start_gap=gaps[0], stop_gap=gaps[1], budget=budget)
        if not plan.moves:
            break
        pieces = carried_out(pieces, plan.moves)
    else:
        raise AssertionError("still moving after 40 passes")
    assert plan.stop is not Stop.BUDGET


_DUST = st.lists(st.sampled_from([0.0, 2e-5, 5e-5, 9e-5, 2e-4]), max_size=12)


@SOME
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.3, 1.0, 2.5]), _DUST), min_size=2, max_size=5),
    st.sampled_from([0.1, 0.006]),
)
@example([(1.0, [5e-5] * 12), (0.3, [5e-5]), (2.5, [])], 0.006)
def test_levelling_by_load_and_by_count_come_to_rest_together(
    executors: list[tuple[float, list[float]]], gap: float
) -> None:
    one = fleet(**{f"e{at}": [heavy, *dust] for at, (heavy, dust) in enumerate(executors)})
    pieces = one.pieces
    for _ in range(60):
        moves = settle(one.seats, pieces, start_gap=gap, stop_gap=gap, budget=50).moves
        moves = moves or level_idle(one.seats, pieces, stop_gap=gap, budget=50)
        if not moves:
            break
        pieces = carried_out(pieces, moves)
    else:
        raise AssertionError("still moving after 60 passes")


@SOME
@given(fleets(), GAPS, LIMITS)
def test_figures_and_gains_agree_with_the_moves(
    any_fleet: Fleet, gaps: tuple[float, float], limit: int | None
) -> None:
    seats, pieces = any_fleet.seats, any_fleet.pieces
    plan = settle(
        seats, pieces, start_gap=gaps[0], stop_gap=gaps[1], budget=100, per_executor=limit
    )
    after = carried_out(pieces, plan.moves)
    taking_part = [one for one in seats if one.is_open or (one.is_source and pieces[one.executor])]
    expected = fleet_figures(
        {one.executor: load_of(after, one.executor) for one in taking_part},
        {one.executor: one.capacity for one in taking_part},
    )
    scale = 1.0 + expected.total
    assert abs(plan.after.spread - expected.spread) <= ROUNDING * scale
    assert abs(plan.after.hottest_utilisation - expected.hottest_utilisation) <= ROUNDING * scale
    assert plan.after.spread <= plan.before.spread + ROUNDING
    open_seats = [one for one in seats if one.is_open]
    if plan.moves:
        mean = expected.total / len(open_seats)
        unit = mean**2 * len(open_seats) / sum(one.capacity for one in open_seats)
        fall = potential(pieces, taking_part) - potential(after, taking_part)
        assert abs(sum(move.gain for move in plan.moves) * unit - fall) <= ROUNDING * scale**2


@SOME
@given(fleets(), GAPS)
def test_no_placement_beats_the_bound(any_fleet: Fleet, gaps: tuple[float, float]) -> None:
    plan = settle(
        any_fleet.seats, any_fleet.pieces, start_gap=gaps[0], stop_gap=gaps[1], budget=100
    )
    for figures in (plan.before, plan.after):
        assert plan.bound.spread <= figures.spread + ROUNDING
        assert plan.bound.max <= figures.hottest_utilisation * (1.0 + ROUNDING)


@SOME
@given(
    st.lists(st.floats(0.0, 1e6), max_size=30),
    st.lists(st.sampled_from([0.25, 1.0, 1.0, 2.0, 5.0]), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), min_size=30, max_size=30),
)
@example([1.0, 2e-311, 2e-311], [0.25, 1.0], [0] * 30)
def test_no_random_placement_beats_the_bound_under_any_capacities(
    shards: list[float], rooms: list[float], targets: list[int]
) -> None:
    loads = {f"s{at}": load for at, load in enumerate(shards)}
    names = [f"e{at}" for at in range(len(rooms))]
    on = dict.fromkeys(names, 0.0)
    for load, target in zip(shards, targets, strict=False):
        on[names[target % len(names)]] += load
    figures = fleet_figures(on, dict(zip(names, rooms, strict=True)))
    bound = best_possible(loads, rooms)
    assert bound.spread <= figures.spread + ROUNDING
    assert bound.max <= figures.hottest_utilisation * (1.0 + ROUNDING)
    assert len(bound.dominant) < len(rooms)


@SOME
@given(fleets(), st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.0, 7.5]), max_size=12))
def test_owed_shards_are_each_placed_once_where_they_are_allowed_or_stay_owed(
    any_fleet: Fleet, loads: list[float]
) -> None:
    names = sorted(seat.executor for seat in any_fleet.seats)
    owed = [
        Piece(f"new{at}", load, banned=frozenset(names[: at % 3])) for at, load in enumerate(loads)
    ]
    counts = {name: len(own) for name, own in any_fleet.pieces.items()}
    ramps = {names[0]: Ramp(load=3.0, count=2)}
    result = place(owed, any_fleet.seats, any_fleet.loads, counts, ramps)
    is_open = {seat.executor for seat in any_fleet.seats if seat.is_open}
    banned = {piece.key: piece.banned for piece in owed}
    keys = [one.key for one in result.placed] + list(result.owed)
    assert sorted(keys) == sorted(banned)
    assert all(one.target in is_open - banned[one.key] for one in result.placed)
    ramped = [one.load for one in result.placed if one.target == names[0]]
    assert len(ramped) <= 2
    assert sum(ramped) <= 3.0
    for key in result.owed:
        unrestricted = is_open - banned[key] - {names[0]}
        assert not unrestricted
    again = place(owed[::-1], any_fleet.seats[::-1], any_fleet.loads, counts, ramps)
    assert again == result


@SOME
@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=40), st.integers(1, 6))
def test_placing_from_nothing_keeps_every_executor_within_one_shard_of_the_best(
    loads: list[float], executors: int
) -> None:
    seats = [Seat(f"e{at}") for at in range(executors)]
    owed = [Piece(f"s{at}", load) for at, load in enumerate(loads)]
    on = dict.fromkeys((seat.executor for seat in seats), 0.0)
    for one in place(owed, seats, {}, {}).placed:
        on[one.target] += one.load
    # Graham's bound for heaviest first: 4/3 of the best, which is at least the water-fill maximum
    # or, with one shard more than executors, the two lightest of them together.
    heaviest = sorted(loads, reverse=True)
    floor = best_possible({piece.key: piece.load for piece in owed}, [1.0] * executors).max
    if len(loads) > executors:
        floor = max(floor, heaviest[executors - 1] + heaviest[executors])
    assert max(on.values()) <= floor * 4 / 3 + ROUNDING


@SOME
@given(fleets(), st.integers(0, 30), LIMITS)
@example(fleet(a=[0.0] * 9, b=[1.0], c=[]), 3, None)
def test_levelling_idle_shards_moves_only_idle_ones_and_never_lifts_the_hottest(
    any_fleet: Fleet, budget: int, limit: int | None
) -> None:
    seats, pieces = any_fleet.seats, any_fleet.pieces
    moves = level_idle(seats, pieces, stop_gap=0.1, budget=budget, per_executor=limit)
    assert len(moves) <= budget
    open_seats = [seat for seat in seats if seat.is_open]
    held = {one.key for own in pieces.values() for one in own if not one.is_movable}
    assert not held & {move.key for move in moves}
    total = sum(load_of(pieces, seat.executor) for seat in seats)
    assert all(move.load <= total * 1e-4 for move in moves)
    if moves:
        after = carried_out(pieces, moves)
        assert max(utilisations(after, open_seats)) <= max(utilisations(pieces, open_seats))
