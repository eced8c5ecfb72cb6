"""Handing the leadership to another member, while proposals wait instead of failing.

Decides whom it goes to and when that has failed. Must not know who asked for it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from coordinator.consensus.contract import NotLeader, TransferFailed
from coordinator.consensus.replica import Replica

TRANSFER_S: Final = 2.0
"""A transfer takes one round trip and an election without waiting; then it has failed."""
OFFER_S: Final = 0.3
"""An offer that a broken link swallowed is repeated."""


class Handover:
    """At most one transfer of one member's leadership at a time."""

    def __init__(
        self, replica: Replica, kick: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self._replica = replica
        self._kick = kick
        self._monotonic = monotonic
        self._under_way: asyncio.Future[None] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Nobody is offered anything any more, and nobody waits."""
        self._is_stopped = True
        if self._under_way is not None and not self._under_way.done():
            self._under_way.set_result(None)

    @property
    def is_under_way(self) -> bool:
        """Whether proposals have to wait."""
        return self._under_way is not None

    async def over(self) -> None:
        """Waits while a transfer is under way."""
        while self._under_way is not None and not self._under_way.done():
            # A moment later there is another leader, or it is this one again.
            await asyncio.shield(self._under_way)

    async def to(self, wanted: str | None) -> str:
        """The new leader; by default the peer that holds most. Raises NotLeader, TransferFailed."""
        replica = self._replica
        if not replica.engine.is_leader:
            raise NotLeader(replica.leader)
        if self._under_way is not None:
            raise TransferFailed("another transfer is under way")
        target = wanted or self._most_caught_up()
        if target not in replica.links:
            raise TransferFailed(f"{target or 'no peer'} is not connected")
        self._under_way = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(TRANSFER_S):
                await self._offer(target)
        except TimeoutError:
            raise TransferFailed(f"{target} did not take over in {TRANSFER_S} s") from None
        finally:
            if not self._under_way.done():
                self._under_way.set_result(None)
            self._under_way = None
        return target

    async def _offer(self, target: str) -> None:
        replica = self._replica
        term = replica.engine.term
        repeat_s = 0.0
        while replica.leader != target:
            if self._is_stopped:
                raise TransferFailed("the node stopped")
            now = self._monotonic()
            if now >= repeat_s and replica.offer_leadership(target):
                repeat_s = now + OFFER_S
            if replica.engine.term > term and replica.leader not in (None, target):
                raise TransferFailed(f"{replica.leader} leads instead")
            self._kick()
            await asyncio.sleep(0.005)

    def _most_caught_up(self) -> str | None:
        replica = self._replica
        match = replica.engine.match_index
        candidates = [
            (match.get(replica.members[peer], 0), peer)
            for peer in sorted(replica.links)
            if not replica.peer_is_quarantined(peer)
        ]
        return max(candidates)[1] if candidates else None
