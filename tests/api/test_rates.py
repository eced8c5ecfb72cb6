"""Buckets and windows, on a clock of the test's own."""

import pytest

from coordinator.api.addresses import network_of
from coordinator.api.rates import ADDRESSES_MAX, WINDOW_S, Failures, Rates


def test_a_bucket_gives_its_rate_and_what_a_second_saved():
    rates = Rates()
    assert [rates.take("a", 2.0, 100.0) for _ in range(2)] == [0.0, 0.0]
    assert rates.take("a", 2.0, 100.0) == pytest.approx(0.5)
    assert rates.take("a", 2.0, 100.25) == pytest.approx(0.25)
    assert rates.take("a", 2.0, 100.5) == 0.0
    assert [rates.take("a", 2.0, 900.0) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.5)]


def test_a_rate_below_one_a_second_lets_one_through_at_first():
    rates = Rates()
    assert rates.take("a", 0.1, 5.0) == 0.0
    assert rates.take("a", 0.1, 5.0) == pytest.approx(10.0)
    assert rates.take("a", 0.1, 15.1) == 0.0


def test_buckets_are_apart_and_a_clock_that_goes_back_fills_none():
    rates = Rates()
    assert rates.take("a", 1.0, 50.0) == rates.take("b", 1.0, 50.0) == 0.0
    assert rates.take("a", 1.0, 10.0) > 0.0


def test_buckets_of_who_is_known_no_more_are_forgotten():
    rates = Rates()
    for name in ("a", "b"):
        rates.take(name, 1.0, 0.0)
    rates.keep(["b", "c"])
    assert len(rates) == 1
    assert rates.take("b", 1.0, 0.0) > 0.0, "what was spent stays spent"


def test_failures_are_counted_by_address_within_a_window():
    failures = Failures()
    assert [failures.count("a", 10.0), failures.count("b", 10.0), failures.count("a", 20.0)] == [
        1,
        1,
        2,
    ]
    assert failures.wait_s("a", 20.0) == pytest.approx(WINDOW_S - 10.0)
    assert failures.count("a", 10.0 + WINDOW_S) == 1


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_a_subscriber_of_ipv6_is_one_address(host: str, network: str):
    assert network_of(host) == network


def test_only_so_many_addresses_are_followed_and_the_longest_quiet_one_goes():
    failures = Failures()
    for number in range(ADDRESSES_MAX):
        failures.count(f"a{number}", 0.0)
    failures.count("a0", 0.0)
    failures.count("new", 0.0)
    assert len(failures) == ADDRESSES_MAX
    assert failures.count("a0", 0.0) == 3
    assert failures.count("a1", 0.0) == 1
