"""The clock by which leases are judged on this machine.

Decides which clock that is, nothing else.
"""

import time
from collections.abc import Callable
from typing import Final

# Linux's CLOCK_MONOTONIC stands still while a machine or a virtual machine is suspended, but the
# coordinator's clock goes on: a lease judged by it would outlive its end. CLOCK_BOOTTIME goes on.
_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def _machine_s() -> float:
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


_source: Callable[[], float] = _machine_s


def lease_now_s() -> float:
    """Seconds that never go back and never stand still; comparable within this machine only."""
    return _source()


def judge_by(source: Callable[[], float] | None) -> None:
    """For tests only: let this be the clock of the whole process, None for the machine's again."""
    global _source  # noqa: PLW0603 - a process has one time
    _source = _machine_s if source is None else source
