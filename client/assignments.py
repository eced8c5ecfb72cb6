"""The two tasks between an executor's assignments and the coordinator: the poll and the acks.

They carry sets in and acknowledgements out and decide nothing about shards.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from client import calls, errors
from client.connection import NOT_MODIFIED, Connection, decoded_answer
from client.keeper import ShardKeeper
from client.lifecycle import Acknowledge, AssignmentSet, Cursor, Outcome, SetArrived
from client.profile import ExecutorProfile
from client.protocol import Acks, AssignmentsAnswer, EpochRef, FailedStart
from client.retry import CAP_S, Pace, full_jitter_s, poll_wait_s, spread_s

_log: Final = logging.getLogger(__name__)

# Bounds how long a release can go unheard when the node that is polled was cut off or paused; a
# poll each five seconds is little beside the heartbeats.
POLL_WAIT_S: Final = 5.0
_POLL_SLACK_S: Final = 2.0  # a node may answer late by its jitter and the network
_TRY_S: Final = 5.0
# A node without its leader for so long does not see changes: another one does.
_CONTACT_MAX_S: Final = 3.0
_BEHIND_WAIT_S: Final = 0.05  # replicas follow within milliseconds
_BEHIND_TRIES: Final = 3
# In one request, so that it stays under the contract's mebibyte with the longest keys and errors.
ACKS_MAX: Final = 200


class AssignmentPolls:
    """Long-polls the assignments of the incarnation that is current."""

    def __init__(
        self,
        profile: ExecutorProfile,
        connection: Connection,
        keeper: ShardKeeper,
        *,
        incarnation: Callable[[], str],
        clock: Callable[[], float],
        rng: random.Random,
        suspect: Callable[[], object],
    ) -> None:
        self._profile: Final = profile
        self._connection: Final = connection
        self._keeper: Final = keeper
        self._incarnation: Final = incarnation
        self._clock: Final = clock
        self._rng: Final = rng
        self._suspect: Final = suspect  # told when a node says that the incarnation is over
        self._pace: Final = Pace()
        self._failures = 0
        self._answers_behind = 0

    async def run(self) -> None:
        """Runs for ever."""
        while True:
            if self._keeper.machine.floor is None:  # no lease: nothing that is told would count
                await self._next_change()
                continue
            await asyncio.sleep(self._pace.delay_s(self._clock()))
            await self._poll_until_outdated()

    async def _next_change(self) -> None:
        self._keeper.basis_changed.clear()
        await self._keeper.basis_changed.wait()

    async def _poll_until_outdated(self) -> None:
        """One poll; given up when the machine no longer waits for what it asked."""
        incarnation, after = self._incarnation(), self._keeper.machine.cursor
        changed = self._keeper.basis_changed
        poll = asyncio.create_task(self._poll_once(incarnation, after))
        poll.add_done_callback(lambda _: changed.set())
        try:
            while not poll.done():
                changed.clear()
                await changed.wait()
                is_current = incarnation == self._incarnation()
                if not is_current or self._keeper.machine.cursor != after:
                    break
        finally:
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)
        if not poll.cancelled():
            poll.result()  # a fault of ours ends the executor, as in every other of its tasks

    async def _poll_once(self, incarnation: str, after: Cursor | None) -> None:
        wait_s = 0.0 if after is None else poll_wait_s(POLL_WAIT_S, self._rng)
        call = calls.assignments(
            self._profile.namespace,
            self._profile.name,
            incarnation,
            after=None if after is None else str(after),
            wait_s=wait_s,
        )
        try:
            response = await self._connection.once(call, timeout_s=wait_s + _POLL_SLACK_S)
            if response.leader_contact_s > _CONTACT_MAX_S:
                self._connection.move_on()
            if response.status == NOT_MODIFIED:
                self._repeat_set()
            else:
                await self._take(decoded_answer(call, response))
            self._failures = 0
        except errors.ShardCoordinatorError as error:
            await self._failed(error)

    def _repeat_set(self) -> None:
        """What is still the newest is told again: lost acknowledgements are repeated by it."""
        assigned = self._keeper.machine.assigned
        if assigned is not None:
            self._keeper.feed(SetArrived(assigned))

    async def _take(self, answer: AssignmentsAnswer) -> None:
        try:
            cursor = Cursor.parse(answer.cursor)
        except ValueError as error:
            raise errors.BadAnswer(str(error)) from error
        duties = {line.key: (line.epoch, line.state) for line in answer.assignments}
        self._keeper.observe_lease()
        self._keeper.feed(SetArrived(AssignmentSet(cursor, duties)))
        if self._keeper.machine.cursor == cursor:
            self._answers_behind = 0
            return
        # Dropped: the node is behind the heartbeat that restored the lease, or of another cluster.
        self._answers_behind += 1
        if self._answers_behind % _BEHIND_TRIES == 0:
            self._connection.move_on()
        await asyncio.sleep(_BEHIND_WAIT_S * (1.0 + self._rng.random()))

    async def _failed(self, error: errors.ShardCoordinatorError) -> None:
        self._failures += 1
        _log.log(
            self._level(error),
            "assignments_failed namespace=%s executor=%s error=%s",
            self._profile.namespace,
            self._profile.name,
            error,
        )
        if isinstance(error, errors.IncarnationClosed):
            self._suspect()
        elif isinstance(error, errors.NotFound):
            self._connection.move_on()  # a node that has not seen us join yet
        asked_s = spread_s(error.retry_after_s or 0.0, self._rng, cap_s=CAP_S)
        if not asked_s or not isinstance(error, errors.Recovering):
            # A cluster that starts cold knows when it is worth asking again; others do not.
            asked_s = max(asked_s, full_jitter_s(self._failures, self._rng))
        await asyncio.sleep(asked_s)

    def _level(self, error: errors.ShardCoordinatorError) -> int:
        if self._failures > 1:
            return logging.DEBUG
        # A namespace that is new, or a node that is, is recovering for a while: nothing is wrong.
        return logging.INFO if isinstance(error, errors.Recovering) else logging.WARNING


class AckSender:
    """Sends acknowledgements at once, and again until they are answered."""

    def __init__(
        self,
        profile: ExecutorProfile,
        connection: Connection,
        *,
        incarnation: Callable[[], str],
        rng: random.Random,
        suspect: Callable[[], object],
    ) -> None:
        self._profile: Final = profile
        self._connection: Final = connection
        self._incarnation: Final = incarnation
        self._rng: Final = rng
        self._suspect: Final = suspect
        # One per shard and outcome, the newest epoch: bounded by the shards this executor was
        # given.
        self._owed: dict[tuple[Outcome, str], Acknowledge] = {}
        self._more: Final = asyncio.Event()

    def add(self, ack: Acknowledge) -> None:
        """Owe this acknowledgement."""
        self._owed[ack.outcome, ack.key] = ack
        self._more.set()

    def forget(self) -> None:
        """The incarnation is over: nobody waits for its acknowledgements."""
        self._owed.clear()

    async def run(self) -> None:
        """Runs for ever."""
        failures = 0
        while True:
            if not self._owed:
                self._more.clear()
                await self._more.wait()
            batch = list(self._owed.values())[:ACKS_MAX]
            try:
                await self._send(batch)
            except errors.IncarnationClosed:
                self.forget()
                self._suspect()
            except (errors.Unavailable, errors.RateLimited) as error:
                failures += 1
                _log.info("acks_failed executor=%s error=%s", self._profile.name, error)
                wait_s = full_jitter_s(failures, self._rng, cap_s=1.0)
                await asyncio.sleep(max(wait_s, min(error.retry_after_s or 0.0, 1.0)))
            except errors.ShardCoordinatorError as error:
                # Repeating would be refused again; the next set asks for what is still owed.
                _log.warning("acks_refused executor=%s error=%s", self._profile.name, error)
                self._drop(batch)
            else:
                failures = 0
                self._drop(batch)

    async def _send(self, batch: list[Acknowledge]) -> None:
        def refs(outcome: Outcome) -> list[EpochRef]:
            return [EpochRef(ack.key, ack.epoch) for ack in batch if ack.outcome is outcome]

        done = Acks(
            incarnation=self._incarnation(),
            released=refs(Outcome.RELEASED),
            prepared=refs(Outcome.PREPARED),
            failed=[
                FailedStart(ack.key, ack.epoch, ack.error)
                for ack in batch
                if ack.outcome is Outcome.FAILED
            ],
        )
        call = calls.acks(self._profile.namespace, self._profile.name, done)
        await self._connection.once(call, timeout_s=_TRY_S)

    def _drop(self, batch: list[Acknowledge]) -> None:
        for ack in batch:
            if self._owed.get((ack.outcome, ack.key)) == ack:
                del self._owed[ack.outcome, ack.key]
