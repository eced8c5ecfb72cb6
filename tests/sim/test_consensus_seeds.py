"""Two hundred seeds hold every invariant, and stop holding without the cures that matter."""

import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from tests.sim.consensus import run_seed
from tests.sim.runner import Request, repeat_command, run

SEEDS = range(200)


@pytest.mark.timeout(300)
def test_two_hundred_seeds_of_faults_break_no_invariant():
    summary = run(Request(SEEDS), sys.stderr)
    failure = summary["first_failure"]
    assert failure is None, f"{failure}; repeat: {repeat_command(failure['seed'], ())}"
    assert summary["seeds"] == 200
    # The schedules are worth something: they crash, cut, elect, commit and confirm.
    assert summary["crashes"] > 100
    assert summary["partitions"] > 1000
    assert summary["terms"] > 400
    assert summary["committed"] > 50_000
    assert summary["confirmed"] > 3000


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "without",
    [("prefix-match",), ("ack-term", "quarantine"), ("snapshot-cap",), ("reset-order",)],
    ids="+".join,
)
def test_the_same_seeds_fail_without(without):
    summary = run(Request(SEEDS, without=without, stops_at_failure=True))
    assert summary["failed"] == 1


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
