"""Tables in parts: a mapping like any other, whose order follows from the names."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.table import PARTS, Table, part_of

names = st.text("abé0", max_size=3)
changes = st.lists(st.tuples(names, st.integers(0, 3) | st.none()), max_size=60)


def after(changes):
    """A table and the dict that it must equal."""
    table, plain = Table(), {}
    for name, record in changes:
        if record is not None:
            table[name] = plain[name] = record
        elif name in plain:
            del table[name]
            del plain[name]
        else:
            with pytest.raises(KeyError):
                del table[name]
    return table, plain


@given(changes, names)
def test_a_table_holds_what_a_dict_would(changes, name):
    table, plain = after(changes)
    assert table == plain
    assert sorted(table) == sorted(plain)
    assert sorted(table.items()) == sorted(plain.items())
    assert [*table.values()] == [table[key] for key in table]
    assert (len(table), bool(table)) == (len(plain), bool(plain))
    assert (name in table, table.get(name), table.get(name, "no")) == (
        name in plain,
        plain.get(name),
        plain.get(name, "no"),
    )
    assert table.pop(name, None) == plain.pop(name, None)
    assert 0 not in table
    with pytest.raises(KeyError):
        table[name]


@given(changes)
def test_a_table_made_in_the_order_of_another_has_its_order(changes):
    table, _ = after(changes)
    again = Table()
    for name, record in table.items():
        again[name] = record
    assert [*again.items()] == [*table.items()]


def test_the_order_is_the_same_in_every_process():
    script = "from coordinator.core.table import Table\nt = Table()\n"
    script += "for n in range(200): t[str(n)] = n\nprint(*t)"
    shown = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1
    assert shown.pop().split() != [str(n) for n in range(200)]


@pytest.mark.parametrize("pattern", ["{}", "tenant-{}", "{}:production", "{:032x}"])
def test_names_of_any_kind_are_spread_over_the_parts(pattern):
    table: Table[None] = Table()
    for number in range(PARTS * 100):
        table[pattern.format(number)] = None
    assert max(map(len, table.parts)) < 190
    assert min(map(len, table.parts)) > 35


def test_parts_do_not_grow_together():
    """All of them once grew with the same few names: 0.1 s of a million."""
    table: Table[None] = Table()
    sizes, number = [*map(sys.getsizeof, table.parts)], 0
    while number < 60_000:
        for _ in range(max(1, number // 50)):
            table[f"tenant-{number:07}"] = None
            number += 1
        grown = [*map(sys.getsizeof, table.parts)]
        assert number < 4_000 or sum(map(int.__ne__, sizes, grown)) <= PARTS // 6
        sizes = grown


def test_a_part_that_was_emptied_gives_its_memory_back():
    table: Table[None] = Table()
    same = [name for name in map(str, range(20_000)) if part_of(name) == 0]
    assert same
    size = sys.getsizeof(table.parts[0])
    for name in same:
        table[name] = None
    assert sys.getsizeof(table.parts[0]) > size
    for name in same:
        del table[name]
    assert sys.getsizeof(table.parts[0]) <= size
