"""The task that renews the lease. Nothing that user code does can hold it up.

Decides when a heartbeat goes out and what its answer means for the incarnation. It must not know
assignments or callbacks: it tells the keeper, and reads from it what is held.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import UNSET, UnsetType

from client import calls, errors
from client.connection import Connection, decoded_answer
from client.keeper import ShardKeeper
from client.lifecycle import Cursor
from client.name_lock import NameLock
from client.profile import ExecutorProfile
from client.protocol import Heartbeat
from client.retry import full_jitter_s
from client.signals import Signals

_log: Final = logging.getLogger(__name__)

# Until the first answer names them: the contract's defaults.
_LEASE_TTL_S: Final = 10.0
_INTERVAL_S: Final = 2.0
# Far beyond what a policy may say: an answer gone wrong must not grant a shard for ever.
_LEASE_TTL_MAX_S: Final = 86_400.0
# One try may take a quarter of a lease: after a try that hung there is time for three more.
_TRY_RATIO: Final = 0.25
_TRY_MIN_S: Final = 0.25
_TRY_MAX_S: Final = 2.5


class Heartbeats:
    """Renews the lease of an executor, across its incarnations."""

    def __init__(
        self,
        profile: ExecutorProfile,
        connection: Connection,
        keeper: ShardKeeper,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        mint: Callable[[], str],
        lock: NameLock | None,
        signals: Signals,
        sampled_loads: Callable[[], Mapping[str, float] | None],
        recorded_loads: Callable[[], Mapping[str, float]] | None,
        observe_incarnation: Callable[[], object],
    ) -> None:
        self.incarnation = mint()
        self.status = "active"  # of the executor, as the coordinator sees it
        self.joined: Final = asyncio.Event()  # the first heartbeat of all has been acknowledged
        self.has_said_goodbye: Final = asyncio.Event()  # one that says leaving, acknowledged
        self.interval_s = _INTERVAL_S
        self.last_error: errors.ShardCoordinatorError | None = None
        self._profile: Final = profile
        self._connection: Final = connection
        self._keeper: Final = keeper
        self._clock: Final = clock
        self._rng: Final = rng
        self._mint: Final = mint
        self._lock: Final = lock
        self._signals: Final = signals
        self._sampled_loads: Final = sampled_loads
        self._recorded_loads: Final = recorded_loads
        self._observe_incarnation: Final = observe_incarnation
        self._lease_ttl_s = _LEASE_TTL_S
        self._sequence = 0
        self._is_joining = True
        self._is_leaving = False
        self._back_within_s: float | UnsetType = UNSET
        self._goes_on = False  # what the namespace wants of who can reach no coordinator
        self._cluster_id = ""  # which granted the lease
        self._silent_since: float | None = None  # the first try of those that nobody answered
        self._hurry: Final = asyncio.Event()

    def leave(self, back_within_s: float | None = None) -> None:
        """Say from now on that this executor is leaving, and that it comes back if it does."""
        self._is_leaving = True
        self._back_within_s = UNSET if back_within_s is None else back_within_s
        self._hurry.set()

    def hurry(self) -> None:
        """Send the next heartbeat now."""
        self._hurry.set()

    def may_go_on(self) -> bool:
        """Whether an executor whose lease runs out goes on.

        Its namespace wants it so, and for at least one whole try no node has answered anything: a
        node without a leader is a coordinator too, which is not reached by everybody.
        """
        since = self._silent_since
        if not self._goes_on or since is None or self._connection.answered_at >= since:
            return False
        return self._clock() - since >= self._lease_ttl_s * _TRY_RATIO

    async def run(self) -> None:
        """Runs until the incarnation is closed for good or may not join; raises why."""
        failures = 0
        while True:
            began_at = self._clock()
            self._hurry.clear()
            try:
                await self._beat()
            except errors.IncarnationClosed as closed:
                self._closed(closed)
                failures += 1
                wait_s = self._retry_s(closed, failures)
            except errors.ShardCoordinatorError as error:
                self._note_failure(error, failures, began_at)
                failures += 1
                wait_s = self._retry_s(error, failures)
            else:
                failures = 0
                # Spread over a tenth, so that executors started together do not stay together.
                pause_s = self.interval_s * self._rng.uniform(0.9, 1.0)
                wait_s = max(0.0, began_at + pause_s - self._clock())
            await self._wait(wait_s)

    async def _wait(self, wait_s: float) -> None:
        due_at = self._clock() + wait_s
        try:
            async with asyncio.timeout(wait_s):
                await self._hurry.wait()
        except TimeoutError:
            self._signals.observe_lag(self._clock() - due_at)

    async def _beat(self) -> None:
        self._sequence += 1
        try_s = min(max(self._lease_ttl_s * _TRY_RATIO, _TRY_MIN_S), _TRY_MAX_S)
        # The lease counts from before the send: the coordinator's counts from the receipt.
        sent_at = self._clock()
        call = calls.heartbeat(self._profile.namespace, self._profile.name, self._report(sent_at))
        said_goodbye = self._is_leaving
        response = await self._connection.once(call, timeout_s=try_s)
        answer = decoded_answer(call, response)
        try:
            cursor = Cursor.parse(answer.cursor)
        except ValueError as error:
            raise errors.BadAnswer(str(error), status=response.status) from error
        if not 0.0 < answer.lease_ttl_s <= _LEASE_TTL_MAX_S:
            raise errors.BadAnswer(f"a lease of {answer.lease_ttl_s} s", status=response.status)
        self._lease_ttl_s, self._cluster_id = answer.lease_ttl_s, cursor.cluster_id
        self.interval_s = max(0.01, answer.heartbeat_interval_s)
        self.status = answer.status
        self._is_joining = False
        self._goes_on = answer.on_lease_loss == "continue"
        self._silent_since = None
        if self._lock is not None:
            self._lock.write(self.incarnation)
        self._keeper.acknowledge_report()
        self._signals.acknowledge()
        self._keeper.renew(sent_at, answer.lease_ttl_s, self.interval_s, cursor, answer.not_renewed)
        self.joined.set()
        if said_goodbye:
            self.has_said_goodbye.set()

    def _report(self, now: float) -> Heartbeat:
        profile = self._profile
        if self._recorded_loads is not None:
            self._keeper.add_loads(self._recorded_loads())
        loads = self._sampled_loads()
        return Heartbeat(
            incarnation=self.incarnation,
            sequence=self._sequence,
            shards=self._keeper.report(now, loads, window_min_s=self.interval_s / 2),
            last_held=self._keeper.machine.last_held(),
            status="leaving" if self._is_leaving else "active",
            back_within_s=self._back_within_s,
            joining=self._is_joining,
            predecessor_dead=self._proven_dead(),
            lease_ttl_s=UNSET if self._is_joining else self._lease_ttl_s,
            host=profile.host,
            address=profile.address,
            zone=profile.zone,
            capacity=profile.capacity,
            version=profile.version,
            labels=dict(profile.labels),
            process=self._signals.read(now),
        )

    def _proven_dead(self) -> str:
        """Asked for anew by each heartbeat until we have joined: a process may be about to die."""
        if self._lock is None or not self._is_joining:
            return ""
        self._lock.try_take()
        return self._lock.predecessor

    def _closed(self, closed: errors.IncarnationClosed) -> None:
        _log.warning(
            "incarnation_closed namespace=%s executor=%s incarnation=%s cause=%s",
            self._profile.namespace,
            self._profile.name,
            self.incarnation,
            closed.cause,
        )
        self._keeper.close_incarnation()
        if closed.cause != "expired" or self._is_leaving:
            raise closed
        self.incarnation = self._mint()
        self._sequence = 0
        self._is_joining = True
        self._keeper.open_incarnation()
        self._observe_incarnation()

    def _note_failure(
        self, error: errors.ShardCoordinatorError, failures: int, sent_at: float
    ) -> None:
        self.last_error = error
        if self._silent_since is None or self._connection.answered_at >= self._silent_since:
            self._silent_since = sent_at
        is_final = isinstance(error, errors.Refused) and error.reason != "stale_sequence"
        if is_final and not isinstance(error, errors.RateLimited):
            if not self.joined.is_set():
                raise error  # a wrong name, token or namespace: waiting does not cure it
            if not (isinstance(error, errors.NotFound) and self._is_elsewhere()):
                self._keeper.end_lease()
        level = logging.WARNING if failures == 0 else logging.DEBUG
        _log.log(
            level,
            "heartbeat_failed namespace=%s executor=%s error=%s",
            self._profile.namespace,
            self._profile.name,
            error,
        )

    def _is_elsewhere(self) -> bool:
        """Whether a cluster answers that is not the one that granted the lease.

        After the loss of all nodes the next cluster may not know of the namespace yet, and then has
        given its shards to nobody. The same cluster knows what it says.
        """
        return self._connection.cluster_id not in {"", self._cluster_id}

    def _retry_s(self, error: errors.ShardCoordinatorError, failures: int) -> float:
        """Within the interval: a renewal is worth more haste than other requests."""
        wait_s = full_jitter_s(
            failures, self._rng, base_s=self.interval_s / 8, cap_s=self.interval_s
        )
        asked_s = min(error.retry_after_s or 0.0, self.interval_s / 2)
        return max(wait_s, self._rng.uniform(asked_s / 2, asked_s))
