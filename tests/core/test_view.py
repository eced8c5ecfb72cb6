"""Views: what was there at one moment, whatever is changed while it is read."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.types import NamespaceKind
from tests.core.builders import applied, declare, fleet, park, retire, space, unpark

KEYS = [str(number) for number in range(6)]
orders = st.lists(
    st.tuples(st.sampled_from([park, unpark, retire, declare]), st.sampled_from([*KEYS, "x"])),
    max_size=12,
)


@given(st.sampled_from([0, 2]), orders, orders, st.integers(0, 6))
def test_a_view_shows_the_shards_of_its_moment_whenever_they_are_read(owners, earlier, later, at):
    state = fleet(owners, 6, kind=NamespaceKind.OPEN)  # without owners a retired shard is gone
    before = space(state).image()
    view = space(state).view()
    for order, key in earlier:
        state.apply(order(key))
    reading = iter(view.shards)
    read = [*islice(reading, at)]
    for order, key in later:
        state.apply(order(key))
    assert (*read, *reading) == before.shards
    assert [*view.shards] == []


def test_two_followers_show_two_moments():
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
    assert len(space(state)._followers) == 1
    del view
    assert len(space(state)._followers) == 0
