"""What makes a failing script short."""

import pytest

from tests.sim.shrink import shorten, shrink


@pytest.mark.parametrize("needed", [{17}, {0, 39}, {3, 4, 5}, set()], ids=str)
def test_only_what_the_failure_needs_is_left(needed):
    assert shorten(range(40), lambda numbers: needed <= set(numbers)) == sorted(needed)


def test_a_few_lines_of_many_are_found_in_few_tries():
    tries = []

    def fails(numbers):
        tries.append(numbers)
        return {11, 90} <= set(numbers)

    assert shorten(range(100), fails) == [11, 90]
    assert len(tries) < 60


def test_it_ends_with_what_it_has_when_it_may_not_go_on():
    allowed = iter([True] * 3)
    left = shorten(range(64), lambda numbers: 5 in numbers, lambda: next(allowed, False))
    assert 5 in left
    assert len(left) == 32  # the first half is needed, the second was dropped


def test_a_seed_that_holds_is_not_shrunk():
    with pytest.raises(ValueError, match="seed 0 holds"):
        shrink(0)
