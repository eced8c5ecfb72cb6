"""The judgement of histories has teeth: two shortcuts that no invariant of the log notices."""

import logging

import pytest

from coordinator.core.state import ClusterState
from tests.sim.consensus import run_seed
from tests.sim.node import SimNode


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def found(seeds):
    """Of the first seed that fails; a change of the code may give one of them another meaning."""
    return next((what for seed in seeds if (what := run_seed(seed).what) is not None), None)


def test_a_leader_that_answers_without_asking_a_majority_is_found_out(monkeypatch):
    def look_up(node, read, told):
        has_space = "s" in node.machine.registry.state.namespaces
        if node.replica.engine.is_leader and has_space:
            told("done", read(node.machine))
        else:
            told("refused", node.replica.leader)

    monkeypatch.setattr(SimNode, "look_up", look_up)
    what = found((6, 10, 1, 2, 3, 4, 5))
    assert what is not None
    assert "is not linearizable" in what
    assert "read(None)" in what


def test_a_state_that_forgets_what_it_did_under_a_key_is_found_out(monkeypatch):
    monkeypatch.setattr(ClusterState, "_recall", lambda _state, _once: None)
    what = found((1, 2, 3, 4, 5, 6))
    assert what is not None
    assert "is not linearizable" in what
