"""Two hundred seeds hold every invariant, and each of them is one number.

What each cure is for is shown in `test_cures`; more seeds: `python -m tests.sim --seeds 0-9999`.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from tests.sim import consensus, network
from tests.sim.consensus import run_seed
from tests.sim.runner import Request, repeat_command, run

SEEDS = range(200)


@pytest.mark.timeout(600)
def test_two_hundred_seeds_of_faults_break_no_invariant():
    summary = run(Request(SEEDS, jobs=2), sys.stderr)
    failure = summary["first_failure"]
    assert failure is None, f"{failure}; repeat: {repeat_command(failure['seed'], ())}"
    assert summary["seeds"] == 200
    # The schedules are worth something: they crash, cut, elect, commit and confirm.
    assert summary["crashes"] > 400
    assert summary["losses"] > 115
    assert summary["partitions"] > 800
    assert summary["terms"] > 600
    assert summary["committed"] > 60_000
    assert summary["confirmed"] > 8000
    assert summary["operations"] > 20_000


# Seeds that once failed, with what had to be changed of their mix to see it.


@pytest.mark.parametrize(("without", "what"), [((), None), (("ack-term",), "two leaders in term")])
def test_a_vote_that_comes_twice_makes_no_second_leader(monkeypatch, without, what):
    mix = replace(consensus.draw_mix(29), size=5, stray_ratio=0.15, fault_every_s=(0.1, 0.6))
    monkeypatch.setattr(consensus, "draw_mix", lambda _seed: mix)
    monkeypatch.setattr(network, "STRAY_S", 1.0)
    found = run_seed(29, without).what
    assert found is None if what is None else what in found


def test_a_node_is_caught_up_once_parts_of_a_snapshot_come_once():
    assert run_seed(7244).what is None


@pytest.mark.parametrize("seed", [3, 12])
def test_a_seed_repeats_exactly_in_another_process(seed):
    program = (
        "import json, logging; from dataclasses import asdict; logging.disable(50);"
        f"from tests.sim.consensus import run_seed; print(json.dumps(asdict(run_seed({seed}))))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(told.stdout) == asdict(run_seed(seed))
