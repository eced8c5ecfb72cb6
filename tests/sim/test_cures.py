"""For each cure what shows that it is needed: a seed that fails without it, or a directed test.

A seed is found by leaving the cure out of the first five hundred. What no simulation of consensus
can see (a port, a link, a limit) has a test of its own that runs with and without the cure.
"""

import ast
import logging
from pathlib import Path

import pytest

from coordinator.consensus.node import CURES
from tests.sim.consensus import run_seed
from tests.sim.runner import repeat_command

TESTS = Path(__file__).resolve().parents[1]
WITHIN = 500
SEEN = {
    "durable": (1,),
    "quarantine": (50, 65, 78, 118, 145, 155),
    "step-down": (35, 81, 85),
    "snapshot-cap": (26, 42, 99, 111, 115),
    "reset-order": (101, 122, 136, 147, 153, 163),
    "prefix-match": (1, 2, 3),
}
"""Cure -> seeds that failed without it when this was written. A change of the code may give a seed
another meaning, so one that still fails is enough."""
DIRECTED = {
    "ack-term": "consensus/test_replication.py::"
    "test_an_acknowledgement_of_another_term_commits_nothing_only_with_the_cure",
    "pre-vote": "sim/test_flapping.py::"
    "test_a_flapping_minority_changes_no_leader_only_with_pre_vote",
    "once": "consensus/test_limits.py::"
    "test_without_once_a_queued_proposal_is_forwarded_and_may_never_be_answered",
    "bounded": "consensus/test_limits.py::"
    "test_a_log_that_nobody_acknowledges_stops_growing_only_with_the_cure",
    "total-apply": "consensus/test_limits.py::"
    "test_without_total_apply_one_entry_stops_the_node_and_it_says_so",
    "journal-floor": "consensus/test_limits.py::"
    "test_a_cut_past_the_end_leaves_a_working_node_only_with_the_cure",
    "membership-gate": "consensus/test_limits.py::"
    "test_no_entry_changes_the_members_only_with_the_cure",
    "own-links": "consensus/test_links.py::"
    "test_a_silent_link_is_dead_after_a_second_only_with_own_links",
    "closed-port": "consensus/test_links.py::"
    "test_another_cluster_is_refused_with_the_way_out_only_with_closed_port",
}
"""Cure -> the test that leaves it out and sees the fault."""


def test_every_cure_is_either_seen_by_a_seed_or_has_its_own_test():
    assert sorted([*SEEN, *DIRECTED]) == sorted(cure.name for cure in CURES)


@pytest.fixture(autouse=True)
def _quiet():
    # The nodes log each fault; what fails is told by the outcome.
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("cure", SEEN)
def test_a_seed_holds_with_the_cure_and_fails_without(cure):
    for seed in SEEN[cure]:
        if run_seed(seed, (cure,)).what is not None:
            assert run_seed(seed).what is None, repeat_command(seed, ())
            return
    pytest.fail(
        f"none of {SEEN[cure]} fails without {cure} any more: look for others with "
        f"python -m tests.sim --seeds 0-{WITHIN - 1} --without {cure}"
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cure", SEEN)
def test_some_seed_of_five_hundred_fails_without(cure):
    assert any(run_seed(seed, (cure,)).what is not None for seed in range(WITHIN))


@pytest.mark.parametrize("cure", DIRECTED)
def test_the_test_of_a_cure_is_there_and_leaves_it_out(cure):
    file, _, name = DIRECTED[cure].partition("::")
    source = (TESTS / file).read_text()
    (found,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    text = "\n".join(source.splitlines()[first - 1 : found.end_lineno])
    (made,) = [made for made in CURES if made.name == cure]
    helpers = [word for word in ("deposed_with_a_queue", "with_poison") if word in text]
    assert cure in text or made.__name__ in text or helpers, text
