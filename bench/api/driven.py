"""Start a driver in a process of its own and read what it measured.

Decides how long it may take and what makes its figures worthless. Must not know who is driven.
"""

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.api.driver import Drive, Driven
from bench.processes import Processes

SLACK_S: Final = 15.0
"""A driver's start and end, beyond the time that it measures."""
END_S: Final = 5.0
_numbers = itertools.count(1)


async def driven(folder: Path, processes: Processes, task: Drive) -> Driven:
    """One driver at one server; raises when anything was not answered with 200."""
    name = f"driver-{next(_numbers)}"
    path = folder / f"{name}.json"
    path.write_bytes(msgspec.json.encode(task))
    argv = [sys.executable, "-m", "bench.api.driver", str(path)]
    process = await processes.start(name, argv, has_output=True)
    if process.stdout is None:
        raise RuntimeError("the driver has no output")
    async with asyncio.timeout(task.warm_up_s + task.seconds + SLACK_S):
        line = await process.stdout.readline()
    await processes.finish(name, END_S)
    if not line:
        raise RuntimeError(f"the driver broke; see {folder / name}.log")
    found = msgspec.json.decode(line, type=Driven)
    if found.failed:
        raise RuntimeError(f"{found.failed} requests failed: {found.example}")
    return found
