"""Answers that take long to make, made once for all who ask while they are fresh.

Decides how long an answer is good for: ten times as long as it took, so that however many look, a
tenth of a node's time goes into it at most. It must not know what is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from coordinator.clock import Clock

FRESH_FOR: Final = 10.0
"""Times as long as an answer took to make, others are given the same."""

KEPT_MAX: Final = 64
"""Answers kept: of so many namespaces somebody looks at one at a time, and each may be 300 KB."""


class KeptAnswers:
    """One node's answers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[Hashable, tuple[float, bytes]] = {}
        self._making: dict[Hashable, asyncio.Task[bytes]] = {}

    async def of(self, name: Hashable, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The answer of this name, at most as old as it is good for."""
        until, body = self._kept.get(name, (0.0, b""))
        if self._clock.monotonic() < until:
            return body
        making = self._making.get(name)
        if making is None:
            making = asyncio.get_running_loop().create_task(self._made(name, make))
            self._making[name] = making
            making.add_done_callback(lambda _: self._making.pop(name, None))
        # Shielded: many share it, and one of them leaving must not take it from the others.
        return await asyncio.shield(making)

    async def _made(self, name: Hashable, make: Callable[[], Awaitable[bytes]]) -> bytes:
        began_at = self._clock.monotonic()
        body = await make()
        now = self._clock.monotonic()
        self._kept.pop(name, None)
        while len(self._kept) >= KEPT_MAX:
            self._kept.pop(next(iter(self._kept)))
        self._kept[name] = (now + FRESH_FOR * (now - began_at), body)
        return body
