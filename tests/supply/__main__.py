"""A release's bill of materials, and whether the lock file can be trusted.

`python -m tests.supply check` compares configs/requirements.lock with pyproject.toml and exits 1
with what is wrong; `python -m tests.supply bill` writes the bill of materials to stdout. Both ask
nobody. What is known of vulnerable versions only an index knows: `make audit` asks that, too.
"""

import argparse
import sys

from coordinator import __version__
from tests.supply.bill import bill_of
from tests.supply.lock import LOCK, asked_for, faults, read


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.supply", description=__doc__)
    parser.add_argument("what", choices=("check", "bill"))
    what = parser.parse_args().what
    pins = read(LOCK.read_text())
    wrong = faults(pins, asked_for())
    for line in wrong:
        sys.stderr.write(f"{LOCK.name}: {line}\n")
    if wrong:
        return 1
    if what == "bill":
        sys.stdout.write(bill_of(pins, __version__))
    return 0


if __name__ == "__main__":
    sys.exit(main())
