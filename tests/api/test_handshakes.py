"""Who shakes hands at the same time, and who waits: time is an argument."""

import pytest

from coordinator.api.handshakes import AT_ONCE, UNDISTURBED_S, Handshakes


@pytest.fixture
def full() -> Handshakes[str]:
    """As many as may, begun one after the other."""
    shaking: Handshakes[str] = Handshakes()
    assert all(shaking.may_begin(f"first-{number}", number / 100) for number in range(AT_ONCE))
    return shaking


def test_the_newest_of_those_who_wait_is_next_and_each_begins_once(full: Handshakes[str]):
    assert full.next(0.5) is None, "nobody waits"
    for one in ("older", "newer", "newest"):
        assert not full.may_begin(one, 0.5)
    assert len(full) == 3
    assert full.next(0.5) is None, "there is no room"
    full.over("first-3")
    assert full.next(0.6) == "newest"
    assert full.next(0.6) is None
    full.over("older")
    full.over("older")
    for number in range(2):
        full.over(f"first-{number}")
    assert [full.next(0.7), full.next(0.7)] == ["newer", None]
    assert full.may_begin("one more", 0.7)
    assert not full.may_begin("one too many", 0.7)


def test_who_takes_long_goes_when_others_wait_and_no_sooner(full: Handshakes[str]):
    assert full.overdue_at is None
    assert full.overdue(9.0) == [], "it disturbs nobody"
    assert not full.may_begin("waits", 0.5)
    assert full.overdue_at == pytest.approx(UNDISTURBED_S)
    assert full.overdue(UNDISTURBED_S - 0.01) == []
    assert full.overdue(9.0) == ["first-0"], "one for each that waits"
    full.over("first-0")
    assert full.next(9.0) == "waits"
    assert full.overdue_at is None


def test_nothing_is_kept_of_who_is_gone(full: Handshakes[str]):
    assert not full.may_begin("waits", 0.5)
    for number in range(AT_ONCE):
        full.over(f"first-{number}")
    full.over("waits")
    assert (len(full), full.next(1.0), full.overdue_at) == (0, None, None)
