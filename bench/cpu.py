"""Processor time of processes, as the system counts it: what a busy machine changes least.

A closed loop of requests measures the machine's other users as much as the server. The time that
the server was on a processor per request does not, so what is judged is answers per core second.
"""

import contextlib
import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: Collection[int]) -> float:
    """Processor time that these processes have used; nan where the system does not tell."""
    try:
        stats = [Path(f"/proc/{pid}/stat").read_text() for pid in pids]
    except OSError:
        return math.nan
    # Behind the name, which may hold anything: fields 14 and 15, user and system time.
    fields = [stat.rpartition(")")[2].split()[11:13] for stat in stats]
    return sum(int(user) + int(system) for user, system in fields) / TICKS_PER_S


def give_way(nice: int) -> None:
    """Let others go first, as if this process were on a machine of its own.

    Where the system shares processors out by session (autogroups), niceness means nothing between
    programs that each have a session; there it is the session that has to be nice.
    """
    os.nice(nice)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))
