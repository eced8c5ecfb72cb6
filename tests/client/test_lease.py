"""How long an executor may act, at every edge, on a clock that the test sets."""

import pytest

from client.lease import CLOCK_ERROR, Lease, LeaseState

TTL_S = 10.0
INTERVAL_S = 2.0
END = 100.0 + TTL_S * (1 - CLOCK_ERROR)


def renewed(sent_at=100.0, ttl_s=TTL_S, interval_s=INTERVAL_S):
    lease = Lease()
    lease.renew(sent_at, ttl_s, interval_s)
    return lease


def test_before_its_first_renewal_nothing_may_be_acted_on_and_nothing_is_lost():
    assert not Lease().may_act(0.0)
    assert Lease().state(0.0) is LeaseState.SUSPENDED
    assert Lease().changes_at(0.0) is None


def test_the_lease_counts_from_the_send_and_ends_a_clock_error_early():
    lease = renewed()
    assert lease.may_act(END - 0.001)
    assert not lease.may_act(END)
    assert lease.act_until == pytest.approx(END)


def test_a_late_renewal_suspends_after_an_interval_and_its_grace():
    lease = renewed()
    assert lease.state(102.9) is LeaseState.CONNECTED
    assert lease.state(103.0) is LeaseState.SUSPENDED
    assert lease.changes_at(100.0) == 103.0


def test_the_lease_counts_as_lost_before_its_end_so_that_stops_are_through_by_then():
    lease = renewed()
    assert lease.state(END - 1.001) is LeaseState.SUSPENDED
    assert lease.state(END - 1.0) is LeaseState.LOST
    assert lease.may_act(END - 1.0)
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
    lease.renew(109.5, TTL_S, INTERVAL_S)
    assert lease.state(110.0) is LeaseState.CONNECTED
    assert lease.may_act(119.3)


def test_a_shorter_lease_counts_from_its_first_answer():
    lease = renewed()
    lease.renew(101.0, 2.0, 0.5)
    assert not lease.may_act(103.0)


def test_a_lease_that_goes_on_ends_when_it_is_ended_and_not_before():
    lease = renewed()
    lease.go_on(END - 0.5)
    assert lease.state(END - 0.5) is LeaseState.CONTINUED
    assert lease.state(END + 100.0) is LeaseState.CONTINUED
    assert lease.may_act(END + 100.0)
    assert lease.act_until == END  # what was granted is what it was
    lease.end()
    assert lease.state(END + 100.0) is LeaseState.LOST
    assert not lease.may_act(END + 100.0)


def test_a_lease_that_was_to_go_on_is_an_ordinary_one_after_its_renewal():
    lease = renewed()
    lease.go_on(END - 0.5)
    lease.renew(150.0, TTL_S, INTERVAL_S)
    assert lease.state(150.0) is LeaseState.CONNECTED
    assert lease.state(160.0) is LeaseState.LOST


@pytest.mark.parametrize("now", [END, END + 100.0])
def test_a_lease_that_is_over_does_not_go_on(now):
    lease = renewed()
    lease.go_on(now)
    assert lease.state(now) is LeaseState.LOST
    assert not lease.may_act(now)


def test_a_closed_lease_does_not_go_on():
    lease = renewed()
    lease.close()
    lease.go_on(100.0)
    assert not lease.may_act(100.0)


def test_a_closed_lease_stays_lost_whatever_is_acknowledged():
    lease = renewed()
    lease.close()
    lease.renew(101.0, TTL_S, INTERVAL_S)
    assert not lease.may_act(101.0)
    assert lease.state(101.0) is LeaseState.LOST
