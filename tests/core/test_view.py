"""Views: what was there at one moment, whatever is changed while it is read."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.types import NamespaceKind
from tests.core.builders import applied, declare, fleet, park, retire, space, unpark

KEYS = [str(number) for number in range(6)]
orders = st.lists(
    st.tuples(st.sampled_from([park, unpark, retire, declare]), st.sampled_from([*KEYS, "x"])),
    max_size=12,
)


@given(orders, st.integers(0, 6))
def test_a_view_shows_the_shards_of_its_moment_in_slices_at_any_time(changes, at):
    state = fleet(2, 6, kind=NamespaceKind.OPEN)
    before = space(state).image()
    view = space(state).view()
    first = view.shards[:at]
    for order, key in changes:
        state.apply(order(key))
    assert (*first, *view.shards[at:]) == before.shards
    assert tuple(view.shards) == before.shards
    assert [view.shards[number] for number in range(6)] == list(before.shards)
    assert len(view.shards) == 6


def test_two_views_show_two_moments():
    state = fleet(2, 2)
    first = space(state).view()
    applied(state, park("0"))
    second = space(state).view()
    applied(state, park("1"))
    assert [shard.fate for shard in first.shards] == [None, None]
    assert [shard.fate is None for shard in second.shards] == [False, True]


def test_a_view_that_nobody_reads_any_more_is_told_nothing():
    state = fleet(2, 2)
    view = space(state).view()
    assert len(space(state)._views) == 1
    del view
    assert len(space(state)._views) == 0
