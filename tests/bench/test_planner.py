"""The measure of a pass: the real controller and the leader's own driver, on a small fleet."""

from bench.planner import fleet_of, longest_turn_s, pass_s
from coordinator.core.types import BalancerPolicy


def test_a_pass_is_made_by_the_controller_and_timed() -> None:
    free = BalancerPolicy(max_in_flight=100, max_in_flight_per_executor=100)
    fleet = fleet_of(2_000, 20, free)
    total_s, plan_s, moves = pass_s(fleet)
    assert plan_s > 0.0
    assert 0.0 < total_s < 5.0
    assert moves == 20
    assert not fleet.space.in_flight


async def test_the_leaders_driver_makes_a_pass_and_the_loop_turns_meanwhile() -> None:
    fleet = fleet_of(2_000, 20, BalancerPolicy(max_in_flight=8))
    turn_s, moves = await longest_turn_s(fleet)
    assert 0.0 < turn_s < 5.0
    assert moves == 8
    assert len(fleet.space.in_flight) == 8
    fleet.undo_moves()
    assert not fleet.space.in_flight
