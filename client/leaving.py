"""How an executor leaves: in which order it says so, hands over, stops and deregisters.

Decides how long each of these may take. It must not know what made the executor leave, nor what
becomes of its tasks afterwards.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from client import calls, errors
from client.lease import LeaseState
from client.lifecycle import Leaving
from client.parts import Parts
from client.profile import ExecutorProfile

_log: Final = logging.getLogger(__name__)

# Leaving goes on without handoff when nobody has taken a shard for this long.
_STALL_S: Final = 3.0
# Kept back for stops out of the time for leaving.
_STOP_SHARE: Final = 0.3
# Who comes back soon has nothing to wait for but that its word is heard: a second try fits.
_GOODBYE_S: Final = 3.0
_DEREGISTER_TIMEOUT_S: Final = 2.0  # a courtesy: without it the lease runs out


# The contract's bound: a heartbeat that names more is refused, and who leaves is not heard.
BACK_WITHIN_MAX_S: Final = 86_400.0


def checked_return(back_within_s: float | None) -> float | None:
    """The time as it is; raises ValueError if no coordinator would take it."""
    if back_within_s is not None and not 0.0 <= back_within_s <= BACK_WITHIN_MAX_S:
        raise ValueError(f"one is back within 0 to {BACK_WITHIN_MAX_S:g} s, not {back_within_s!r}")
    return back_within_s


class Farewell:
    """The steps of leaving, for an executor that is inside."""

    def __init__(
        self,
        profile: ExecutorProfile,
        parts: Parts,
        *,
        clock: Callable[[], float],
        timeout_s: float,
        has_failed: asyncio.Event,
    ) -> None:
        self._profile: Final = profile
        self._parts: Final = parts
        self._clock: Final = clock
        self._timeout_s: Final = timeout_s
        self._has_failed: Final = has_failed

    async def go(self, back_within_s: float | None) -> None:
        """Say goodbye, part with every shard, and stop what is left."""
        give_up_at = self._clock() + self._timeout_s
        if not self._has_failed.is_set():
            self._parts.beats.leave(back_within_s)
            self._parts.keeper.feed(Leaving())
            if back_within_s is None:
                await self._hand_over()
            else:
                await self._be_heard()
            await self._stop_until(give_up_at)
        else:
            await self.stop_all()

    async def _hand_over(self) -> None:
        """Let the coordinator move every shard away, as long as it does."""
        machine, keeper = self._parts.keeper.machine, self._parts.keeper
        give_up_at = self._clock() + self._timeout_s * (1.0 - _STOP_SHARE)
        left = machine.live_count
        stalled_at = self._clock() + _STALL_S
        while not machine.is_empty and keeper.state is not LeaseState.LOST:
            now = self._clock()
            if machine.live_count < left or keeper.callbacks_under_way:
                left, stalled_at = machine.live_count, now + _STALL_S
            if self._has_failed.is_set() or now >= min(stalled_at, give_up_at):
                return
            await self._next_change(min(stalled_at, give_up_at) - now)

    async def _be_heard(self) -> None:
        """Without it the shards would not be kept, but placed elsewhere when we deregister."""
        timeout_s = min(_GOODBYE_S, self._timeout_s * (1.0 - _STOP_SHARE))
        heard = asyncio.create_task(self._parts.beats.has_said_goodbye.wait())
        failed = asyncio.create_task(self._has_failed.wait())
        try:
            await asyncio.wait(
                {heard, failed}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            heard.cancel()
            failed.cancel()

    async def stop_all(self) -> None:
        """Stop everything, as far as it ends in time."""
        await self._stop_until(self._clock() + self._timeout_s * _STOP_SHARE)

    async def _stop_until(self, give_up_at: float) -> None:
        machine = self._parts.keeper.machine
        self._parts.keeper.feed(Leaving(stops_all=True))
        while machine.live_count and (now := self._clock()) < give_up_at:
            await self._next_change(give_up_at - now)
        if left := machine.live_count:
            name = self._profile.name
            _log.error("shards_left_running executor=%s shards=%d", name, left)

    async def deregister(self) -> None:
        """Say that it is gone. The last heartbeat must be over: it would join again."""
        if self._parts.keeper.machine.live_count:
            return  # something still runs here: only the end of the lease proves it harmless
        incarnation = self._parts.beats.incarnation
        call = calls.deregister(self._profile.namespace, self._profile.name, incarnation)
        try:
            await self._parts.connection.send(call, timeout_s=_DEREGISTER_TIMEOUT_S)
        except errors.ShardCoordinatorError as error:
            _log.warning("deregister_failed executor=%s error=%s", self._profile.name, error)

    async def _next_change(self, timeout_s: float) -> None:
        self._parts.keeper.changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._parts.keeper.changed.wait()
