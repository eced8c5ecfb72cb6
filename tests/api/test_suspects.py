"""Who is suspect, and whose turn it is: time is an argument."""

import pytest

from coordinator.api.rates import ADDRESSES_MAX, WINDOW_S
from coordinator.api.suspects import STRIKES_MAX, Suspects


def struck(suspects: Suspects[str], address: str, times: int, now: float = 0.0) -> list[bool]:
    return [suspects.strike(address, now) for _ in range(times)]


def test_an_address_becomes_suspect_once_and_only_beyond_the_bound():
    suspects: Suspects[str] = Suspects(10)
    assert not any(struck(suspects, "a", STRIKES_MAX))
    assert suspects.may_begin("a", 0.0, "one")
    assert suspects.may_begin("a", 0.0, "two")
    assert struck(suspects, "a", 3) == [True, False, False]
    assert suspects.may_begin("a", 0.0, "three")
    assert not suspects.may_begin("a", 0.0, "four")
    assert suspects.may_begin("b", 0.0, "of another address")


def test_turns_come_at_a_pace_and_the_newest_is_next():
    suspects: Suspects[str] = Suspects(10)
    struck(suspects, "a", STRIKES_MAX + 1)
    assert suspects.next_at is None
    assert suspects.may_begin("a", 0.0, "first")
    for one in ("oldest", "older", "newest"):
        assert not suspects.may_begin("a", 0.05, one)
    assert suspects.next_at == pytest.approx(0.1)
    assert suspects.due(0.09) is None
    assert suspects.due(0.1) == "newest"
    assert suspects.due(0.1) is None
    suspects.gone("older")
    suspects.gone("older")
    assert suspects.due(0.3) == "oldest"
    assert (suspects.due(9.0), suspects.next_at, len(suspects)) == (None, None, 0)


def test_all_suspect_addresses_share_one_pace():
    suspects: Suspects[str] = Suspects(10)
    for address in ("a", "b"):
        struck(suspects, address, STRIKES_MAX + 1)
    assert suspects.may_begin("a", 0.0, "of a")
    assert not suspects.may_begin("b", 0.0, "of b")


def test_a_minute_later_it_is_nobody_special():
    suspects: Suspects[str] = Suspects(10)
    struck(suspects, "a", STRIKES_MAX + 1)
    assert suspects.may_begin("a", 0.0, "one")
    assert not suspects.may_begin("a", 0.0, "two")
    assert suspects.may_begin("a", WINDOW_S, "three")
    assert suspects.may_begin("a", WINDOW_S, "four")


def test_no_more_addresses_are_followed_than_there_is_room_for():
    suspects: Suspects[str] = Suspects(10)
    struck(suspects, "a", STRIKES_MAX + 1)
    for number in range(ADDRESSES_MAX + 5):
        suspects.strike(f"x{number}", 0.0)
    assert len(suspects._strikes) == ADDRESSES_MAX
    assert suspects.may_begin("a", 0.0, "forgotten")
    assert suspects.may_begin("a", 0.0, "forgotten, too")
