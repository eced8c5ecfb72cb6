"""Which node a request goes to."""

import random

import pytest

from client.endpoints import SHUN_S, SHUNNED_MAX, Endpoints, checked_url

A, B, C = "http://a:7070", "http://b:7070", "http://c:7070"


def three(seed=0):
    return Endpoints([A, B, C], random.Random(seed))


def test_clients_start_at_different_nodes():
    starts = {three(seed).pick(needs_leader=False) for seed in range(20)}
    assert starts == {A, B, C}


def test_reads_stay_with_a_node_until_it_fails():
    nodes = three()
    first = nodes.pick(needs_leader=False)
    assert nodes.pick(needs_leader=False) == first
    nodes.observe_failure(first, 0.0)
    assert nodes.pick(needs_leader=False) != first


def test_what_needs_the_leader_goes_to_it_once_it_is_named():
    nodes = three()
    assert nodes.pick(needs_leader=True) == nodes.pick(needs_leader=False)
    nodes.observe_leader(C + "/", 0.0)
    assert nodes.leader == C
    assert nodes.pick(needs_leader=True) == C


def test_a_leader_may_be_a_node_that_was_not_configured():
    nodes = three()
    nodes.observe_leader("http://d:7070", 0.0)
    assert nodes.pick(needs_leader=True) == "http://d:7070"
    assert nodes.pick(needs_leader=False) in {A, B, C}


def test_a_leader_that_failed_is_not_followed_again_at_once():
    nodes = three()
    nodes.observe_leader(C, 0.0)
    nodes.observe_failure(C, 0.0)
    nodes.observe_leader(C, SHUN_S - 0.1)
    assert nodes.leader is None
    nodes.observe_leader(C, SHUN_S)
    assert nodes.leader == C


def test_a_leader_that_refuses_is_forgotten_but_may_be_named_again():
    nodes = three()
    nodes.observe_leader(C, 0.0)
    nodes.observe_refusal(C)
    assert nodes.leader is None
    nodes.observe_leader(C, 0.0)
    assert nodes.leader == C


def test_failures_of_another_node_leave_the_reads_where_they_are():
    nodes = three()
    here = nodes.pick(needs_leader=False)
    nodes.observe_failure(next(url for url in (A, B, C) if url != here), 0.0)
    assert nodes.pick(needs_leader=False) == here


def test_a_user_of_tls_is_not_led_to_plain_http():
    nodes = Endpoints(["https://a", "https://b"], random.Random(0))
    nodes.observe_leader("http://b", 0.0)
    assert nodes.leader is None
    nodes.observe_leader("https://b", 0.0)
    assert nodes.leader == "https://b"


def test_a_leader_that_is_no_url_is_ignored():
    nodes = three()
    nodes.observe_leader("javascript:alert(1)", 0.0)
    assert nodes.leader is None


def test_memory_of_failed_nodes_is_bounded():
    nodes = three()
    for number in range(3 * SHUNNED_MAX):
        nodes.observe_failure(f"http://gone-{number}", 0.0)
    assert len(nodes._shunned) == SHUNNED_MAX


def test_equal_endpoints_count_once():
    assert Endpoints([A, A + "/"], random.Random(0)).count == 1


@pytest.mark.parametrize(
    "url", ["", "a:7070", "ftp://a", "http://", "http://u:p@a", "http://a?x=1", "http://a:port"]
)
def test_what_is_no_base_url_is_refused(url):
    with pytest.raises(ValueError):  # noqa: PT011 - the text differs by what is wrong
        checked_url(url)


def test_no_endpoint_at_all_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Endpoints([], random.Random(0))
