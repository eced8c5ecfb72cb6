"""How long to wait and how often."""

import random

from client.retry import CAP_S, Pace, RetryBudget, full_jitter_s, spread_s


def test_waits_lie_anywhere_below_a_bound_that_doubles_up_to_the_cap():
    rng = random.Random(1)
    for failures, bound in ((1, 0.1), (2, 0.2), (4, 0.8), (7, CAP_S), (10_000, CAP_S)):
        waits = [full_jitter_s(failures, rng) for _ in range(500)]
        assert 0.0 <= min(waits) < bound / 10
        assert bound * 0.9 < max(waits) <= bound


def test_what_a_node_asked_for_is_kept_and_spread():
    rng = random.Random(1)
    waits = [spread_s(2.0, rng) for _ in range(500)]
    assert min(waits) >= 2.0
    assert 2.9 < max(waits) <= 3.0
    assert spread_s(1e9, rng) <= 90.0
    assert spread_s(-1.0, rng) == 0.0


def test_retries_are_a_burst_then_a_share_of_the_requests():
    budget = RetryBudget(burst=3, per_request=0.5, per_s=0.0)
    assert [budget.spend(0.0) for _ in range(4)] == [True, True, True, False]
    budget.earn(0.0)
    assert not budget.spend(0.0)
    budget.earn(0.0)
    assert budget.spend(0.0)


def test_a_lone_caller_earns_retries_by_waiting():
    budget = RetryBudget(burst=1, per_request=0.0, per_s=0.5)
    assert budget.spend(0.0)
    assert not budget.spend(1.0)
    assert budget.spend(3.0)


def test_the_budget_never_exceeds_its_burst():
    budget = RetryBudget(burst=2, per_request=1.0, per_s=1.0)
    for second in range(100):
        budget.earn(float(second))
    assert [budget.spend(100.0) for _ in range(3)] == [True, True, False]


def test_answers_in_a_row_are_taken_at_once_and_a_flood_is_slowed():
    pace = Pace(burst=2, per_s=10)
    assert pace.delay_s(0.0) == 0.0
    assert pace.delay_s(0.0) == 0.0
    assert pace.delay_s(0.0) > 0.09
    assert pace.delay_s(100.0) == 0.0
