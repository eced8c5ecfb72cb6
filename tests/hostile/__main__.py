"""Sequences of requests against a model: python -m tests.hostile --sequences 2000 [--json].

Exit status: 0 when no sequence came to anything but what the model says; 1 otherwise, with the
steps that did. The same seed draws the same steps.
"""

import argparse
import json
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.hostile.machine import Machine
from tests.hostile.world import World

STEPS = 30


def play(sequences: int, first_seed: int, *, steps: int = STEPS) -> None:
    """Raises what a step came to; hypothesis prints the steps before it."""
    run_state_machine_as_test(
        seed(first_seed)(Machine),
        settings=settings(
            max_examples=sequences,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=False,
            phases=(Phase.generate,),  # a smaller story costs minutes of real requests
            suppress_health_check=list(HealthCheck),
        ),
    )


def _progress(sequences: int) -> None:
    if sequences % 100 == 0:
        sys.stderr.write(f"{sequences} sequences\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--sequences", type=int, default=2000, help="of some 30 steps (2000)")
    parser.add_argument("--seed", type=int, default=1, help="(1)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    began = time.monotonic()
    failed = ""
    with World() as world:
        Machine.world, Machine.played = world, _progress
        try:
            play(arguments.sequences, arguments.seed)
        except AssertionError as fault:
            failed = "\n".join([str(fault), *getattr(fault, "__notes__", ())])
    summary = {
        "sequences": Machine.ran.pop("sequences", 0),
        "requests": Machine.ran.pop("requests", 0),
        "answers": dict(Machine.ran.most_common()),
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - began, 1),
        "failed": failed,
    }
    if not arguments.json and failed:
        sys.stdout.write(f"{failed}\n")
    sys.stdout.write(json.dumps(summary, indent=None if arguments.json else 2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
