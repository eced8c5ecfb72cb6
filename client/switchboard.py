"""A process that owns shards and is asked for any of them: this one here, or whose.

Decides where a call goes, and when it is sent again. It must not know how calls are carried: the
two ways are functions of the caller.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from client import errors
from client.clock import lease_now_s
from client.executor import Executor
from client.router import Router
from client.shard import Shard
from client.table import Owner

T = TypeVar("T")

CALL_TIMEOUT_S: Final = 10.0  # a shard of a lost executor is owned again after a lease and a second
# Between two tries of a call whose shard is on its way; the pause of a move is some 20 ms.
_LOOK_S: Final = 0.01
_LOOK_MAX_S: Final = 0.25


class Switchboard:
    """An executor and a router of the same namespace, in one process.

        switchboard = Switchboard(executor, router)
        match switchboard.find("orders"):
            case Shard() as shard: ...  # ours: act on it
            case Owner() as owner: ...  # theirs: at owner.address
            case None: ...  # nobody's, as far as is known

    Both must be entered by the caller.
    """

    def __init__(
        self,
        executor: Executor,
        router: Router,
        *,
        clock: Callable[[], float] = lease_now_s,
    ) -> None:
        self._executor: Final = executor
        self._router: Final = router
        self._clock: Final = clock

    def find(self, key: str) -> Shard | Owner | None:
        """The shard's handle if it may be acted on here, else its owner as the table knows it."""
        shard = self._executor.owned(key)
        if shard is not None:
            return shard
        owner = self._router.owner(key)
        # A table that names us is ahead of our start, or behind our stop.
        return None if owner is None or owner.executor == self._executor.name else owner

    async def owned(self, key: str, *, timeout_s: float = 0.0) -> Shard:
        """The handle of a shard that may be acted on here, waited for while it is on its way.

        For calls that somebody else has sent on to us: they are not sent on again. Raises
        `Misdirected` when the shard is not here within the time, and at once when the table says
        that it is somebody else's, or will be.
        """
        ends_at, look_s = self._clock() + timeout_s, _LOOK_S
        while (shard := self._executor.owned(key)) is None:
            if self._clock() >= ends_at or not self._is_coming(key):
                raise errors.Misdirected(f"shard {key!r} is not on {self._executor.name!r}")
            await asyncio.sleep(min(look_s, max(0.0, ends_at - self._clock())))
            look_s = min(look_s * 2, _LOOK_MAX_S)
        return shard

    def _is_coming(self, key: str) -> bool:
        owner, name = self._router.owner(key), self._executor.name
        if owner is None:
            return True  # whoever asks us has a table that is newer than ours
        return (owner.moving_to or owner.executor) == name

    async def call(
        self,
        key: str,
        here: Callable[[Shard], Awaitable[T]],
        there: Callable[[Owner], Awaitable[T]],
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> T:
        """What `here` answers if the shard is ours, else what `there` answers for its owner.

        `there` raises `Misdirected` when that process says that the shard is not its own; then
        the call goes to whom the table names next. Whatever else either raises ends the call. A
        shard of an open namespace that nobody has asked for yet is made.
        """
        ends_at, look_s = self._clock() + timeout_s, _LOOK_S
        refused: Owner | None = None
        while True:
            shard = self._executor.owned(key)
            if shard is not None:
                return await here(shard)
            owner = await self._target(key, refused, ends_at - self._clock())
            is_known = owner is not None and (refused is None or owner != refused)
            if owner is not None:
                try:
                    return await there(owner)
                except errors.Misdirected:
                    refused = owner
            if self._clock() >= ends_at:
                raise errors.TimedOut(f"nobody had shard {key!r} within {timeout_s:g} s")
            if not is_known:  # on its way: nobody has it, or the same process refused again
                await asyncio.sleep(look_s)
                look_s = min(look_s * 2, _LOOK_MAX_S)

    async def _target(self, key: str, refused: Owner | None, left_s: float) -> Owner | None:
        """Whom to ask; None while that would be ourselves."""
        if refused is None:
            owner = self._router.owner(key)
        else:
            owner = await self._router.misdirected(key, refused.epoch)
        if owner is None:
            owner = await self._router.lookup(key, timeout_s=max(left_s, _LOOK_S))
        if refused is not None and owner.executor == refused.executor and owner.moving_to:
            owner = replace(
                owner,
                executor=owner.moving_to,
                address=owner.moving_to_address,
                moving_to=None,
                moving_to_address="",
            )
        return None if owner.executor == self._executor.name else owner
