"""A process that asks who owns a shard.

Decides when the table is refreshed and when it counts as stale. What answers do to it is decided
in `table`.
"""

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, Unpack

from client import calls, errors
from client.callbacks import is_being_ended
from client.clock import lease_now_s
from client.connection import NOT_MODIFIED, Access, Connection, decoded_answer
from client.lifecycle import Cursor
from client.protocol import RoutingAnswer
from client.retry import CAP_S, Pace, full_jitter_s, poll_wait_s, spread_s
from client.table import Owner, RoutingTable
from client.table_file import read_table, write_table
from client.transport import Transport

_log: Final = logging.getLogger(__name__)

POLL_WAIT_S: Final = 20.0  # bounds how long a table can rest on a node that was cut off
_POLL_SLACK_S: Final = 5.0  # a node may answer late by its jitter and the network
_SNAPSHOT_TIMEOUT_S: Final = 30.0  # of a million shards over a slow link
_CONTACT_MAX_S: Final = 3.0  # a node without its leader for so long does not see changes
LOOKUP_TIMEOUT_S: Final = 10.0
# A burst of refusals by executors is one event of the fleet, not one per call.
REFRESH_EVERY_S: Final = 0.2
_REFRESH_TIMEOUT_S: Final = 2.0
# The file is for outages: a few seconds behind are caught up by the first answer, and a fleet that
# moves shards all the time does not write the disk all the time.
SAVE_EVERY_S: Final = 5.0
_PRUNE_EVERY: Final = 1_000  # answers; executors come and go far more slowly


class Router:
    """Keeps the routing table of a namespace; `owner(key)` is a dictionary look-up.

        async with Router(endpoints, namespace="jobs") as router:
            await router.ready(timeout_s=10)
            owner = router.owner("orders")

    During an outage the last table goes on being served, and `is_stale` says so. With `table_file`
    it is kept on disk too, and serves a router that starts while no node answers. With
    `fallback_fleet` (executors and their addresses, the same for every reader) whatever the table
    does not know is where `hash % n` over that fleet puts it: see `hashing`.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        namespace: str,
        on_change: Callable[[], object] | None = None,
        table_file: str | os.PathLike[str] | None = None,
        fallback_fleet: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = lease_now_s,
        **access: Unpack[Access],
    ) -> None:
        self._namespace: Final = namespace
        self._clock: Final = clock
        self._rng: Final = rng or random.Random()
        self._connection: Final = Connection(
            endpoints, transport=transport, rng=self._rng, monotonic=clock, **access
        )
        self._table: Final = RoutingTable(fallback_fleet)
        self._file: Final = table_file
        self._is_changed: Final = asyncio.Event()
        """Something was taken in that is not on disk."""
        self._on_change: Final = on_change
        self._pace: Final = Pace()
        self._is_ready: Final = asyncio.Event()
        self._taken: Final = asyncio.Event()
        """Set for a moment by each answer that was taken in."""
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._confirmed_at: float | None = None
        self._last_error: errors.ShardCoordinatorError | None = None
        self._refresh: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._refreshed_at: float | None = None
        self._answers = 0

    async def __aenter__(self) -> Self:
        if self._file is not None:
            await self._restore(self._file)
            self._saving = asyncio.create_task(self._save(self._file))
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tasks = [one for one in (self._task, self._refresh, self._saving) if one is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._writing is not None:
            await self._writing
        if self._file is not None and self._is_changed.is_set():
            await self._write(self._file)
        await self._connection.close()

    # ---------------------------------------------------------------------------- look-ups

    def owner(self, key: str) -> Owner | None:
        """The owner of a shard as of the last answer; None when the table knows none."""
        return self._table.owner(key)

    def owners(self) -> dict[str, Owner]:
        """Every shard that has an owner, in a mapping of its own."""
        return self._table.owners()

    def is_parked(self, key: str) -> bool:
        """Whether nobody may run the shard until an operator says so."""
        return self._table.is_parked(key)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def cursor(self) -> Cursor | None:
        """The place in the namespace's history that the table stands for."""
        return self._table.cursor

    @property
    def is_ready(self) -> bool:
        """Whether a table has been received at all."""
        return self._is_ready.is_set()

    @property
    def is_stale(self) -> bool:
        """Whether the table may be behind: no node has confirmed it lately."""
        return self._failures > 0 or self.age_s > POLL_WAIT_S + _POLL_SLACK_S

    @property
    def age_s(self) -> float:
        """Seconds since a node confirmed the table; infinite before the first."""
        confirmed_at = self._confirmed_at
        return float("inf") if confirmed_at is None else max(0.0, self._clock() - confirmed_at)

    async def ready(self, timeout_s: float | None = None) -> None:
        """Return when a table has been received; raises `TimedOut`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_ready.wait()
        except TimeoutError:
            why = self._last_error or "no answer at all"
            raise errors.TimedOut(f"no routing table within {timeout_s} s: {why}") from None

    async def lookup(self, key: str, *, timeout_s: float = LOOKUP_TIMEOUT_S) -> Owner:
        """The owner as a node knows it now; in an open namespace this makes the shard.

        Waits while the shard has no owner; raises `ShardParked`, `NotFound` or, at the deadline,
        what stood in the way.
        """
        call = calls.owner(self._namespace, key)
        answer = await self._connection.send(call, timeout_s=timeout_s)
        return Owner(
            key=answer.key,
            executor=answer.executor,
            epoch=answer.epoch,
            address=answer.address,
            host=answer.host,
            moving_to=None if answer.next is None else answer.next.executor,
            moving_to_address="" if answer.next is None else answer.next.address,
        )

    async def misdirected(self, key: str, epoch: int) -> Owner | None:
        """The owner after an executor refused a call for this shard under this epoch.

        One that is newer than the call is known at once, and so is one whose `moving_to` says who
        gets the shard next: ask that one. Otherwise waits until the table says more, or a refresh
        had nothing newer. Callers at the same time share one refresh, and there is at most one in
        `REFRESH_EVERY_S`.
        """
        while not _says_more(known := self._table.owner(key), epoch):
            if self._refresh is None or self._refresh.done():
                self._refresh = asyncio.create_task(self._refresh_once())
            refresh, taken = self._refresh, asyncio.ensure_future(self._taken.wait())
            try:
                await asyncio.wait({refresh, taken}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                taken.cancel()
            if refresh.done():
                return self._table.owner(key)
        return known

    # ----------------------------------------------------------------------------- the table

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._pace.delay_s(self._clock()))
            try:
                # After a failure an answer at once, so that the table is known to be good again.
                await self._poll(0.0 if self._failures else poll_wait_s(POLL_WAIT_S, self._rng))
                self._failures = 0
            except errors.ShardCoordinatorError as error:
                await self._failed(error)
            except (Exception, asyncio.CancelledError) as error:
                if is_being_ended():
                    raise
                # A fault of ours, or of `on_change`: routing goes on, the table counts as stale.
                _log.exception("routing_broke namespace=%s", self._namespace)
                await self._failed(errors.BadAnswer(f"{type(error).__name__}: {error}"))

    async def _failed(self, error: errors.ShardCoordinatorError) -> None:
        self._failures += 1
        if self._table.cursor is not None:
            self._is_ready.set()  # with what was on disk: nobody has anything newer for us
        self._last_error = error
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        _log.log(level, "routing_failed namespace=%s error=%s", self._namespace, error)
        asked_s = spread_s(error.retry_after_s or 0.0, self._rng, cap_s=CAP_S)
        await asyncio.sleep(max(asked_s, full_jitter_s(self._failures, self._rng)))

    async def _refresh_once(self) -> None:
        now = self._clock()
        if self._refreshed_at is not None:
            await asyncio.sleep(max(0.0, self._refreshed_at + REFRESH_EVERY_S - now))
        self._refreshed_at = self._clock()
        # The node that gave us this table may be the one that is behind.
        self._connection.move_on()
        with contextlib.suppress(errors.ShardCoordinatorError):  # the last table is what there is
            await self._poll(0.0)

    async def _poll(self, wait_s: float) -> None:
        cursor = self._table.cursor
        after = None if cursor is None else str(cursor)
        call = calls.routing(self._namespace, after=after, wait_s=wait_s)
        timeout_s = wait_s + _POLL_SLACK_S if wait_s else _REFRESH_TIMEOUT_S
        if cursor is None:
            timeout_s = _SNAPSHOT_TIMEOUT_S
        response = await self._connection.once(call, timeout_s=timeout_s)
        is_taken = response.status == NOT_MODIFIED or self._take(decoded_answer(call, response))
        if not is_taken and self._table.cursor == cursor:
            self._connection.move_on()
            raise errors.Recovering("a node answered with an older table than this router has")
        self._is_ready.set()
        if response.leader_contact_s > _CONTACT_MAX_S:
            self._connection.move_on()
            raise errors.NoLeader("the node that answered has lost its leader")
        self._confirmed_at = self._clock()

    def _take(self, answer: RoutingAnswer) -> bool:
        before = self._table.cursor
        try:
            is_taken = self._table.apply(answer)
        except ValueError as error:
            raise errors.BadAnswer(str(error)) from error
        if not is_taken:
            return False
        self._taken.set()
        self._taken.clear()  # who waited is woken all the same
        self._answers += 1
        if self._answers % _PRUNE_EVERY == 0:
            self._table.prune()
        if self._table.cursor != before:
            self._is_changed.set()
            if self._on_change is not None:
                self._on_change()
        return True

    # ------------------------------------------------------------------------- the table's file

    async def _restore(self, path: str | os.PathLike[str]) -> None:
        kept = await asyncio.to_thread(read_table, path, self._namespace)
        if kept is None or self._table.cursor is not None:
            return
        try:
            self._table.apply(kept)
        except ValueError as error:
            _log.warning("table_file_unreadable path=%s error=%s", path, error)

    async def _save(self, path: str | os.PathLike[str]) -> None:
        while True:
            await self._is_changed.wait()
            # A thread cannot be cancelled: whoever ends this task waits for what it writes.
            self._writing = asyncio.create_task(self._write(path))
            await asyncio.shield(self._writing)
            await asyncio.sleep(SAVE_EVERY_S)

    async def _write(self, path: str | os.PathLike[str]) -> None:
        self._is_changed.clear()
        table = self._table.snapshot()
        if table is None:
            return
        try:
            await asyncio.to_thread(write_table, path, self._namespace, table)
        except OSError as error:
            # Routing goes on without it; the next change tries again.
            _log.warning("table_file_not_written path=%s error=%s", path, error)


def _says_more(owner: Owner | None, refused: int) -> bool:
    """Whether a caller whose call was refused under that epoch knows whom to ask now."""
    return owner is not None and (owner.epoch > refused or owner.moving_to is not None)
