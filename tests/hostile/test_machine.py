"""A few sequences of the machine; `python -m tests.hostile` plays thousands."""

import pytest

from tests.hostile.__main__ import play
from tests.hostile.machine import Machine
from tests.hostile.model import Life, Model, Table
from tests.hostile.world import World


@pytest.mark.timeout(180)
def test_any_order_of_requests_comes_to_what_the_model_says():
    with World() as world:
        Machine.world = world
        play(4, first_seed=20_261, steps=20)
    assert Machine.ran["sequences"] >= 4


def table(**owners: tuple[str, int]) -> Table:
    return Table("c:1", dict(owners))


def model() -> Model:
    known = Model(alive={"e1": Life("i"), "e2": Life("j")}, keys={"a", "b"})
    known.look(table(a=("e1", 5)))
    return known


@pytest.mark.parametrize(
    ("shown", "fault"),
    [
        (table(a=("e1", 4)), "fell"),
        (table(a=("e2", 5)), "changed hands"),
        (table(a=("e3", 6)), "gone"),
        (table(x=("e1", 6)), "never declared"),
        (table(a=("e1", 6), b=("e2", 6)), "given twice"),
        (Table("c:1", parked=frozenset({"b"})), "nobody parked"),
    ],
)
def test_a_broken_promise_is_noticed(shown: Table, fault: str):
    with pytest.raises(AssertionError, match=fault):
        model().look(shown)


def test_a_delta_makes_the_next_table_of_the_last_one():
    before = Table("c:1", {"a": ("e1", 5), "b": ("e1", 6), "d": ("e1", 7)}, {"a": "e2"})
    told = {
        "kind": "delta",
        "cursor": "c:2",
        "owners": {"a": ["e2", 8]},
        "moving": {},
        "parked": ["b"],
        "removed": ["d"],
    }
    assert before.after(told) == Table("c:2", {"a": ("e2", 8)}, {}, frozenset({"b"}))
