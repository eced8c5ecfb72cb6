import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.api.cursor import REVISION_MAX, Cursor, Standing, parse


@given(
    st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=64),
    st.integers(0, REVISION_MAX),
)
def test_a_cursor_reads_back_as_it_was_written(cluster_id: str, revision: int):
    cursor = Cursor(cluster_id, revision)
    assert parse(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "c:",
        ":1",
        "c",
        "c:-1",
        "c:1.0",
        "c:x",
        "c:\u0661",
        "c:" + "9" * 17,
        "c" * 127 + ":1",
    ],
)
def test_what_never_was_a_cursor_is_none(text: str):
    assert parse(text) is None


@given(st.text(max_size=200))
def test_reading_a_cursor_never_raises(text: str):
    cursor = parse(text)
    assert cursor is None or cursor.revision <= REVISION_MAX


def test_a_cursor_stands_behind_level_ahead_or_elsewhere():
    cursor = Cursor("c", 5)
    assert cursor.standing("c", 6) is Standing.BEHIND
    assert cursor.standing("c", 5) is Standing.LEVEL
    assert cursor.standing("c", 4) is Standing.AHEAD
    assert cursor.standing("d", 4) is Standing.NEW
