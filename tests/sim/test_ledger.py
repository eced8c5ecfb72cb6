"""The checkers themselves: each lie a cluster could tell is noticed."""

import pytest

from tests.sim.ledger import Ledger, Violation


def test_two_lives_that_lead_one_term_are_noticed():
    ledger = Ledger()
    ledger.leads("n1.1", 3)
    ledger.leads("n1.1", 3)
    with pytest.raises(Violation, match="two leaders in term 3"):
        ledger.leads("n2.1", 3)


def test_a_replaced_entry_is_noticed():
    ledger = Ledger()
    ledger.applied("n1.1", 5, (b"a", 5, 1))
    with pytest.raises(Violation, match="committed entry 5"):
        ledger.applied("n2.1", 5, (b"b", 5, 2))


def test_different_states_at_one_index_are_noticed():
    ledger = Ledger()
    ledger.holds("n1.1", 5, b"x")
    with pytest.raises(Violation, match="another state"):
        ledger.holds("n2.1", 5, b"y")


def test_a_lost_acknowledgement_is_noticed():
    ledger = Ledger()
    ledger.acknowledges(7, 3)
    with pytest.raises(Violation, match="lost 1 acknowledged"):
        ledger.settles("n1.1", {1, 2})


def test_an_applied_refusal_is_noticed():
    ledger = Ledger()
    ledger.refuses(7)
    with pytest.raises(Violation, match="refused command 7"):
        ledger.settles("n1.1", {7})


def test_a_confirmed_leader_that_was_replaced_before_the_question_is_noticed():
    ledger = Ledger()
    ledger.is_ready(4, 10.0)
    ledger.confirms("n1.1", 3, asked_s=9.0, must_hold=0, applied=1)
    with pytest.raises(Violation, match="term 4 was leading"):
        ledger.confirms("n1.1", 3, asked_s=11.0, must_hold=0, applied=1)


def test_a_confirmed_leader_that_misses_an_acknowledged_entry_is_noticed():
    ledger = Ledger()
    with pytest.raises(Violation, match="8 was acknowledged"):
        ledger.confirms("n1.1", 3, asked_s=1.0, must_hold=8, applied=7)
