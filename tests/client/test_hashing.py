"""The hash that never changes: the same shard for a key in every version and on every machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client import shard_for
from client.hashing import hashed, place_of
from coordinator.core.planner import hash_place

# Written down once: a change here would send every key of every user to another shard.
VECTORS = {
    ("", 1024): "761",
    ("a", 1024): "656",
    ("customer-7", 1024): "335",
    ("Zürich", 1000): "318",
    ("鍵", 7): "4",
}


@pytest.mark.parametrize(("key", "count"), VECTORS)
def test_vectors(key, count):
    assert shard_for(key, count) == VECTORS[key, count]


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(1, 5_000))
def test_every_key_has_a_shard_that_exists(key, count):
    assert 0 <= place_of(key, count) < count
    assert shard_for(key, count) == str(place_of(key, count))


def test_a_fleet_is_hashed_over_as_the_coordinators_first_placement_does_it():
    fleet = [f"e{number}" for number in range(7)]
    keys = [f"tenant-{number}" for number in range(200)]
    assert {key: hashed(key, sorted(fleet)) for key in keys} == hash_place(keys, fleet)


def test_of_nothing_there_is_nothing_to_choose():
    with pytest.raises(ValueError, match="nothing to choose from"):
        shard_for("a", 0)
