"""The whole system holds under its faults, and each seed is one number.

What each rule is for is shown in `test_rules`; more seeds: `python -m tests.sim --scope system`.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from tests.sim.runner import Request, repeat_command, run
from tests.sim.system.system import run_seed

SEEDS = range(6)


@pytest.mark.timeout(300)
def test_a_sample_of_seeds_breaks_no_invariant():
    summary = run(Request(SEEDS, jobs=2, scope="system"), sys.stderr)
    failure = summary["first_failure"]
    assert failure is None, (
        f"{failure}; repeat: {repeat_command(failure['seed'], (), scope='system')}"
    )
    # The schedules are worth something: they crash, cut, move and order.
    assert summary["crashes"] > 15
    assert summary["partitions"] > 8
    assert summary["moves"] > 30
    assert summary["orders"] > 30
    assert summary["answers"] > 1500
    assert summary["terms"] > 10


@pytest.mark.timeout(60)
def test_a_seed_repeats_exactly_in_another_process():
    program = (
        "import json, logging; from dataclasses import asdict; logging.disable(50);"
        "from tests.sim.system.system import run_seed; print(json.dumps(asdict(run_seed(2))))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(told.stdout) == asdict(run_seed(2))
