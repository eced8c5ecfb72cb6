"""How a test waits for what real sockets and processes bring, in real time.

It decides for how long, and what running out of patience looks like: `TimeoutError`, which alone
of all failures the test run repeats once, because a machine that is busy with something else for
twenty seconds says nothing about the product. A broken promise is an assertion, and is never
repeated.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

# Far more than anything here takes, so that only a machine that stands still runs out of it. A
# test whose promise is a time says so itself.
PATIENCE_S = 20.0
LOOK_EVERY_S = 0.01


async def until(condition: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """The first true answer of a plain or an async condition; TimeoutError when there is none."""
    ends_at = time.monotonic() + within_s
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() >= ends_at:
            raise TimeoutError(f"not within {within_s:g} s")
        await asyncio.sleep(LOOK_EVERY_S)
