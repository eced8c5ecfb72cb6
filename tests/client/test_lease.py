"""How long an executor may act, at every edge, on a clock that the test sets."""

import pytest

from client.lease import CLOCK_ERROR, Lease, LeaseState

TTL_S = 10.0
INTERVAL_S = 2.0
END = 100.0 + TTL_S * (1 - CLOCK_ERROR)


def renewed(sent_at=100.0, ttl_s=TTL_S, interval_s=INTERVAL_S, not_renewed=()):
    lease = Lease()
    lease.renew(sent_at, ttl_s, interval_s, not_renewed)
    return lease


def test_before_its_first_renewal_nothing_may_be_acted_on_and_nothing_is_lost():
    assert not Lease().may_act("a", 0.0)
    assert Lease().state(0.0) is LeaseState.SUSPENDED
    assert Lease().changes_at(0.0) is None


def test_the_lease_counts_from_the_send_and_ends_a_clock_error_early():
    lease = renewed()
    assert lease.may_act("a", END - 0.001)
    assert not lease.may_act("a", END)
    assert lease.left_s("a", END - 1.0) == pytest.approx(1.0)
    assert lease.left_s("a", END + 1.0) == 0.0


def test_a_late_renewal_suspends_after_an_interval_and_its_grace():
    lease = renewed()
    assert lease.state(102.9) is LeaseState.CONNECTED
    assert lease.state(103.0) is LeaseState.SUSPENDED
    assert lease.changes_at(100.0) == 103.0


def test_the_lease_counts_as_lost_before_its_end_so_that_stops_are_through_by_then():
    lease = renewed()
    assert lease.state(END - 1.001) is LeaseState.SUSPENDED
    assert lease.state(END - 1.0) is LeaseState.LOST
    assert lease.may_act("a", END - 1.0)
    assert lease.changes_at(103.0) == pytest.approx(END - 1.0)
    assert lease.changes_at(END) is None


def test_a_short_lease_keeps_a_short_margin():
    lease = renewed(ttl_s=1.0, interval_s=0.2)
    assert lease.state(100.88) is LeaseState.SUSPENDED
    assert lease.state(100.90) is LeaseState.LOST


def test_with_an_interval_longer_than_the_lease_suspension_comes_no_later_than_the_loss():
    lease = renewed(ttl_s=1.0, interval_s=5.0)
    assert lease.state(100.88) is LeaseState.CONNECTED
    assert lease.state(100.90) is LeaseState.LOST


def test_a_renewal_moves_the_end_even_after_a_loss():
    lease = renewed()
    lease.renew(109.5, TTL_S, INTERVAL_S, ())
    assert lease.state(110.0) is LeaseState.CONNECTED
    assert lease.may_act("a", 119.3)


def test_a_shorter_lease_counts_from_its_first_answer():
    lease = renewed()
    lease.renew(101.0, 2.0, 0.5, ())
    assert not lease.may_act("a", 103.0)


def test_a_shard_that_is_not_renewed_ends_with_the_last_answer_that_did_not_list_it():
    lease = renewed()
    lease.renew(102.0, TTL_S, INTERVAL_S, ["slow"])
    lease.renew(104.0, TTL_S, INTERVAL_S, ["slow"])
    assert lease.may_act("slow", END - 0.001)
    assert not lease.may_act("slow", END)
    assert lease.may_act("other", END + 3.9)


def test_a_shard_that_is_listed_no_longer_is_renewed_again():
    lease = renewed()
    lease.renew(102.0, TTL_S, INTERVAL_S, ["slow"])
    lease.renew(104.0, TTL_S, INTERVAL_S, [])
    assert lease.may_act("slow", END + 3.9)


def test_a_shard_that_is_listed_in_the_first_answer_may_never_be_acted_on():
    assert not renewed(not_renewed=["slow"]).may_act("slow", 100.0)


def test_a_closed_lease_stays_lost_whatever_is_acknowledged():
    lease = renewed()
    lease.close()
    lease.renew(101.0, TTL_S, INTERVAL_S, ())
    assert not lease.may_act("a", 101.0)
    assert lease.state(101.0) is LeaseState.LOST
