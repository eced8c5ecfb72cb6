"""Leases from the leader's side, at every edge."""

import random

import pytest

from coordinator.core.liveness import LeaseBook, mass_failure


def book_with(*executors: str, ttl_s: float = 10.0, at: float = 0.0) -> LeaseBook:
    book = LeaseBook(clock_error=0.01)
    for executor in executors:
        book.renew(executor, "i1", ttl_s, at)
    return book


def test_a_lease_runs_out_at_receipt_plus_ttl_and_clock_error_and_not_before() -> None:
    book = book_with("a")
    assert book.deadline("a", "i1") == 10.1
    assert book.expired(10.0999) == []
    assert book.expired(10.1) == [("a", "i1")]


def test_expired_executors_are_named_until_they_are_forgotten() -> None:
    book = book_with("a")
    assert book.expired(11.0) == book.expired(12.0) == [("a", "i1")]
    book.forget("a")
    assert book.expired(12.0) == []
    assert len(book) == 0


def test_expired_are_ordered_by_deadline_then_name() -> None:
    book = book_with("c", "b")
    book.renew("a", "i1", 10.0, 1.0)
    book.renew("d", "i1", 1.0, 0.0)
    assert [executor for executor, _ in book.expired(100.0)] == ["d", "b", "c", "a"]


def test_a_renewal_moves_the_deadline_on_and_never_back() -> None:
    book = book_with("a")
    assert book.renew("a", "i1", 10.0, 5.0)
    assert book.deadline("a", "i1") == 5.0 + 10.1
    assert book.renew("a", "i1", 2.0, 6.0)
    assert book.deadline("a", "i1") == 5.0 + 10.1
    assert book.last_heard("a") == 6.0
    book.renew("a", "i1", 10.0, 3.0)
    assert book.last_heard("a") == 6.0


def test_unknown_executors_have_no_deadline_no_silence_and_nothing_to_close() -> None:
    book = LeaseBook()
    book.close("a", "i1")
    book.reopen("a", "i1")
    book.forget("a")
    assert book.deadline("a", "i1") is None
    assert book.last_heard("a") is None
    assert book.silent_for("a", 5.0) is None
    assert not book.is_closing("a", "i1")
    assert "a" not in book
    assert book.next_deadline() is None
    assert book.expired(1e9) == []


def test_a_new_leader_grants_everyone_a_full_lease_from_its_start() -> None:
    book = book_with("gone")
    book.close("gone", "i1")
    book.begin_term([("a", "i7"), ("b", "i8")], 10.0, 100.0)
    assert "gone" not in book
    assert book.expired(110.0999) == []
    assert book.expired(110.1) == [("a", "i7"), ("b", "i8")]
    assert book.silent_for("a", 104.0) == 4.0


def test_a_closing_incarnation_is_not_renewed_until_it_is_reopened() -> None:
    book = book_with("a")
    book.close("a", "i1")
    assert book.is_closing("a", "i1")
    assert not book.renew("a", "i1", 10.0, 5.0)
    assert book.deadline("a", "i1") == 10.1
    assert book.last_heard("a") == 0.0
    book.reopen("a", "i1")
    assert not book.is_closing("a", "i1")
    assert book.renew("a", "i1", 10.0, 6.0)
    assert book.deadline("a", "i1") == 16.1


def test_an_incarnation_is_renewed_again_only_when_no_proposal_against_it_is_left() -> None:
    book = book_with("a")
    order = object()
    book.close("a", "i1", order)
    book.close("a", "i1")
    book.close("a", "i1")
    book.reopen("a", "i1", order)
    book.reopen("a", "i1", order)
    assert book.is_closing("a", "i1")
    assert not book.renew("a", "i1", 10.0, 5.0)
    book.reopen("a", "i1")
    assert book.renew("a", "i1", 10.0, 6.0)


def test_a_superseded_incarnation_keeps_its_own_lease_beside_its_successor() -> None:
    book = book_with("a")
    book.close("a", "i1")
    assert book.renew("a", "i2", 10.0, 5.0)
    assert book.expired(10.1) == [("a", "i1")]
    book.forget("a", "i1")
    assert "a" in book
    assert book.last_heard("a") == 5.0
    assert book.expired(15.1) == [("a", "i2")]
    book.forget("a", "i2")
    assert "a" not in book
    assert book.last_heard("a") is None


def test_the_next_deadline_is_the_earliest_and_follows_renewals() -> None:
    book = book_with("a", "b")
    book.renew("b", "i1", 10.0, 3.0)
    assert book.next_deadline() == 10.1
    book.renew("a", "i1", 10.0, 5.0)
    assert book.next_deadline() == 13.1
    book.forget("b")
    assert book.next_deadline() == 15.1
    book.forget("a")
    assert book.next_deadline() is None


def test_a_past_deadline_is_skipped_when_asked_for_what_comes_after_now() -> None:
    book = book_with("a")
    book.renew("b", "i1", 10.0, 5.0)
    assert book.next_deadline(after=10.0) == 10.1
    assert book.next_deadline(after=10.1) == 15.1
    assert book.next_deadline(after=15.1) is None


def test_an_executor_that_returns_with_a_shorter_lease_is_seen_in_time() -> None:
    book = book_with("a", ttl_s=100.0)
    book.forget("a")
    book.renew("a", "i1", 1.0, 0.0)
    assert book.next_deadline() == 1.01
    assert book.expired(2.0) == [("a", "i1")]
    book.forget("a")
    # Both entries that were queued for the name are gone with it.
    assert book.next_deadline() is None


def test_a_name_that_returns_again_and_again_leaves_nothing_behind() -> None:
    book = LeaseBook()
    for at in range(1000):
        book.renew("a", "i1", 10.0, float(at))
        assert book.next_deadline() == pytest.approx(at + 10.1)
        book.forget("a")
    assert book.next_deadline() is None
    assert len(book) == 0


def test_a_pause_of_the_leader_moves_every_deadline_and_nobody_was_silent_in_it() -> None:
    book = book_with("a", "b")
    book.close("b", "i1")
    book.add_pause(5.0)
    assert book.expired(15.0) == []
    assert book.expired(15.1) == [("a", "i1"), ("b", "i1")]
    assert book.silent_for("a", 6.0) == 1.0
    assert book.next_deadline() == 15.1


@pytest.mark.parametrize("gap_s", [0.0, -3.0])
def test_no_pause_changes_nothing(gap_s: float) -> None:
    book = book_with("a")
    book.add_pause(gap_s)
    assert book.deadline("a", "i1") == 10.1


def test_silence_is_counted_from_the_last_heartbeat_and_never_negative() -> None:
    book = book_with("a", at=3.0)
    assert book.silent_for("a", 8.0) == 5.0
    assert book.silent_for("a", 1.0) == 0.0


def test_the_silent_are_those_not_heard_for_half_a_lease() -> None:
    book = book_with("b", "a")
    book.renew("c", "i1", 10.0, 1.0)
    assert book.silent(10.0, 5.0) == set()
    assert book.silent(10.0, 5.5) == {"a", "b"}
    assert book.silent(10.0, 6.5) == {"a", "b", "c"}


def test_a_lease_from_before_it_was_made_longer_is_half_over_by_its_own_length() -> None:
    book = book_with("a", "b")
    book.renew("b", "i1", 60.0, 1.0)
    assert book.silent(60.0, 5.5) == {"a"}
    assert book.silent(60.0, 31.5) == {"a", "b"}


def test_a_lease_that_was_made_shorter_is_half_over_by_what_is_answered_now() -> None:
    book = book_with("a", ttl_s=60.0)
    assert book.silent(10.0, 5.5) == {"a"}


def test_of_one_whose_newest_incarnation_is_forgotten_the_older_lease_counts() -> None:
    book = book_with("a", "b")
    book.renew("a", "i2", 10.0, 4.0)
    assert book.silent(10.0, 8.9) == {"b"}
    book.forget("a", "i2")
    assert book.silent(10.0, 6.9) == {"b"}
    assert book.silent(10.0, 7.1) == {"a", "b"}


def test_nobody_unknown_is_silent() -> None:
    assert not LeaseBook().is_silent("a", 10.0, 1e9)


def test_the_end_of_a_lease_can_be_asked_for_any_heartbeat() -> None:
    assert LeaseBook(clock_error=0.5).lease_end(100.0, 10.0) == 115.0


@pytest.mark.parametrize(
    ("silent", "total", "is_mass"),
    [
        (2, 2, False),  # all of a tiny fleet, but fewer than three
        (3, 3, True),
        (3, 6, True),  # exactly the ratio
        (3, 7, False),
        (4, 7, True),
        (0, 0, False),
        (499, 1000, False),
        (500, 1000, True),
    ],
)
def test_mass_failure_needs_the_ratio_and_three(silent: int, total: int, is_mass: bool) -> None:  # noqa: FBT001 - a parametrised expectation
    assert mass_failure(silent, total, 0.5) is is_mass


def test_mass_failure_with_another_least_count() -> None:
    assert mass_failure(1, 1, 0.5, at_least=1)
    assert not mass_failure(4, 4, 0.5, at_least=5)


def test_renewals_of_a_thousand_executors_keep_the_queue_as_long_as_the_fleet() -> None:
    book = LeaseBook()
    for beat in range(20):
        for at in range(1000):
            book.renew(f"e{at}", "i1", 10.0, beat * 2.0 + at / 1000.0)
        assert book.next_deadline() == pytest.approx(beat * 2.0 + 10.1)
    assert len(book._queue) == 1000


def test_all_that_are_silent_are_those_that_are_by_themselves() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        book, now = LeaseBook(), 0.0
        for _ in range(60):
            now += chance.choice([0.0, 0.5, 3.0])
            executor, incarnation = chance.choice("abcde"), chance.choice(["i1", "i2"])
            match chance.randrange(8):
                case 0:
                    book.forget(executor, chance.choice([incarnation, None]))
                case 1:
                    book.add_pause(chance.choice([0.0, 1.0]))
                case 2:
                    book.close(executor, incarnation)
                case 3:
                    book.reopen(executor, incarnation)
                case _:
                    ttl_s = chance.choice([2.0, 10.0, 60.0])
                    book.renew(executor, incarnation, ttl_s, now - chance.choice([0.0, 2.0]))
            for ttl_s in (2.0, 10.0, 60.0):
                alone = {one for one in "abcde" if book.is_silent(one, ttl_s, now)}
                assert book.silent(ttl_s, now) == alone
