"""The clock by which leases are judged on this machine.

Decides which clock that is, nothing else.
"""

import time
from typing import Final

# Linux's CLOCK_MONOTONIC stands still while a machine or a virtual machine is suspended, but the
# coordinator's clock goes on: a lease judged by it would outlive its end. CLOCK_BOOTTIME goes on.
_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def lease_now_s() -> float:
    """Seconds that never go back and never stand still; comparable within this machine only."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
