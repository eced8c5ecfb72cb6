"""Runs a program that ends when its starter ends: `python bench/tether.py PID PROGRAM [ARG ...]`.

A bench that is killed outright cannot clean up; the kernel then does it (Linux; elsewhere the
program just runs). The process keeps its id, so that killing it kills the program itself.
"""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>: a signal for this process when its starter dies


def main(argv: list[str]) -> None:
    """Tie this process to its starter and become the program."""
    starter = int(argv[1])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != starter:  # it died before the tie was made
            sys.exit(1)
    os.execv(argv[2], argv[2:])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv)
