"""Requests to a cluster of nodes, with retries.

Decides what is tried again and what an answer means. It must not know what requests are about;
which node is asked is decided in `endpoints`, how long to wait in `retry`.
"""

import asyncio
import math
import os
import random
import ssl
import uuid
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypedDict, TypeVar

import msgspec

from client import errors, protocol
from client.call import Call
from client.clock import lease_now_s
from client.endpoints import Endpoints
from client.retry import RetryBudget, full_jitter_s, spread_s
from client.token_file import TokenFile
from client.transport import Response, Transport, TransportFailed, transport_to

T = TypeVar("T")

ATTEMPT_TIMEOUT_S: Final = 5.0  # a node that has not answered for so long is worth leaving
NOT_MODIFIED: Final = 304
_UNKNOWN: Final = 401
_OK_STATUSES: Final = range(200, 300)
_FAILOVER_WAIT_S: Final = 0.05  # to another node at once, spread enough that no herd forms


class Access(TypedDict, total=False):
    """How a client says who it is, and which nodes it believes."""

    token: str | None
    """The bearer token itself; not together with a file of one."""
    token_file: str | os.PathLike[str] | None
    """A file with the token, readable by its user alone; it may change while the client runs."""
    tls: ssl.SSLContext | None
    """Who has to have signed the nodes' certificates, by default a CA of this machine; and the
    certificate to be known by instead of a token, if there is one."""


class Connection:
    """One client's way to a cluster: follows the leader, retries what may be retried.

    Retries happen only after connection errors, 429, 503 and 504, with full jitter, within the
    caller's deadline and a budget that all requests share.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        token: str | None = None,
        *,
        token_file: str | os.PathLike[str] | None = None,
        tls: ssl.SSLContext | None = None,
        transport: Transport | None = None,
        rng: random.Random | None = None,
        monotonic: Callable[[], float] = lease_now_s,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        mint: Callable[[], str] = lambda: uuid.uuid4().hex,
        attempt_timeout_s: float = ATTEMPT_TIMEOUT_S,
    ) -> None:
        self._rng: Final = rng or random.Random()
        self._endpoints: Final = Endpoints(endpoints, self._rng)
        if token is not None and token_file is not None:
            raise ValueError("give a token or a file of one, not both")
        self._token: Final = token
        self._token_file: Final = (
            None if token_file is None else TokenFile(token_file, monotonic=monotonic)
        )
        self._transport: Final[Transport] = transport or transport_to(endpoints, tls)
        self._monotonic: Final = monotonic
        self._sleep: Final = sleep
        self._mint: Final = mint
        self._attempt_timeout_s: Final = attempt_timeout_s
        self._budget: Final = RetryBudget()
        self.answered_at = -math.inf  # when a node last answered anything, by this clock
        self.cluster_id = ""  # which that node said it belongs to

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release every connection."""
        await self._transport.close()

    @property
    def leader(self) -> str | None:
        """The base URL of the node that is believed to lead."""
        return self._endpoints.leader

    def move_on(self) -> None:
        """Reads go to another node from now on: this one is behind or cut off."""
        self._endpoints.move_on(self._endpoints.pick(needs_leader=False))

    async def send(self, call: Call[T], *, timeout_s: float) -> T:
        """The answer as a record; tries until the deadline."""
        return decoded_answer(call, await self.fetch(call, timeout_s=timeout_s))

    async def fetch(self, call: Call[T], *, timeout_s: float) -> Response:
        """The answer as it came; tries until the deadline."""
        deadline = self._monotonic() + timeout_s
        key = self._mint() if call.is_mutation else ""
        self._budget.earn(self._monotonic())
        failures = 0
        is_outcome_unknown = False
        while True:
            left_s = max(deadline - self._monotonic(), 0.0)
            is_cut_short = left_s < self._attempt_timeout_s
            try_s = left_s if is_cut_short else self._attempt_timeout_s
            try:
                return await self._attempt(call, key, try_s, is_cut_short=is_cut_short)
            except (errors.Unavailable, errors.RateLimited) as failure:
                failures += 1
                is_outcome_unknown |= call.is_mutation and _may_have_happened(failure)
                wait_s = self._wait_s(failure, failures)
                now = self._monotonic()
                is_over = wait_s is None or now + wait_s >= deadline
                if wait_s is None or is_over or not self._budget.spend(now):
                    raise _last_word(failure, is_outcome_unknown=is_outcome_unknown) from None
            await self._sleep(wait_s)

    async def once(self, call: Call[T], *, timeout_s: float) -> Response:
        """The answer as it came, of a single try; a 304 is an answer too."""
        return await self._attempt(call, self._mint() if call.is_mutation else "", timeout_s)

    def _wait_s(self, failure: errors.ShardCoordinatorError, failures: int) -> float | None:
        """How long to wait before the next try; None when there is none."""
        match failure:
            case errors.RateLimited(retry_after_s=None, reason="quota_exceeded"):
                return None  # no time was named after which it would be different
            case errors.Unavailable(status=status) if status not in {None, 429, 503, 504}:
                return None
            case errors.BadAnswer():
                return None
            case _ if failure.retry_after_s is not None:
                return spread_s(failure.retry_after_s, self._rng)
            case _ if failure.status is None and failures < self._endpoints.count:
                return self._rng.uniform(0.0, _FAILOVER_WAIT_S)
            case _:
                return full_jitter_s(failures, self._rng)

    async def _attempt(
        self, call: Call[T], key: str, timeout_s: float, *, is_cut_short: bool = False
    ) -> Response:
        url = self._endpoints.pick(needs_leader=call.needs_leader)
        response = await self._asked(url, call, key, timeout_s, is_cut_short=is_cut_short)
        renewed = self._token_file
        if response.status == _UNKNOWN and renewed is not None and renewed.renew():
            # The former one was withdrawn a moment ago.
            response = await self._asked(url, call, key, timeout_s, is_cut_short=is_cut_short)
        if response.status in _OK_STATUSES or response.status == NOT_MODIFIED:
            return response
        error = error_of(response)
        if isinstance(error, errors.Unauthenticated):
            self._endpoints.move_on(url)  # its file of tokens may be behind the others'
        if isinstance(error, errors.Unavailable | errors.RateLimited) and not isinstance(
            error, errors.Unassigned
        ):
            self._endpoints.observe_refusal(url)
        raise error

    async def _asked(
        self, url: str, call: Call[T], key: str, timeout_s: float, *, is_cut_short: bool
    ) -> Response:
        try:
            response = await self._transport.request(
                call.method,
                url + call.target,
                headers=self._headers(call, key),
                body=call.body,
                timeout_s=timeout_s,
            )
        except TransportFailed as failure:
            if not (failure.has_timed_out and is_cut_short):  # the caller's hurry is no fault of it
                self._endpoints.observe_failure(url, self._monotonic())
            raise _no_answer(url, failure) from failure
        self.answered_at = self._monotonic()
        self.cluster_id = response.headers.get("x-cluster-id", self.cluster_id)
        if leader := response.headers.get("x-leader"):
            self._endpoints.observe_leader(leader, self._monotonic())
        return response

    def _headers(self, call: Call[T], key: str) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        token = self._token if self._token_file is None else self._token_file.current()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if key:
            headers["Idempotency-Key"] = key
        if call.if_match:
            headers["If-Match"] = call.if_match
        return headers


def decoded_answer(call: Call[T], response: Response) -> T:
    """The record in an answer; raises `BadAnswer` when it is none."""
    try:
        if not response.body:
            return msgspec.convert(None, call.answer)
        if call.answer is type(None):
            return msgspec.convert(None, call.answer)
        return protocol.decoded(response.body, call.answer)
    except msgspec.MsgspecError as error:
        raise errors.BadAnswer(
            f"{call.method} {call.path} was answered with something else: {error}",
            status=response.status,
            request_id=response.request_id,
        ) from error


def error_of(response: Response) -> errors.ShardCoordinatorError:
    """The error that an answer means."""
    try:
        problem = protocol.decoded(response.body, protocol.Problem)
    except msgspec.MsgspecError:
        problem = protocol.Problem()
    request_id = problem.instance or response.request_id
    detail = problem.detail or problem.title or f"HTTP status {response.status}"
    if problem.reason == "incarnation_closed":
        return errors.IncarnationClosed(
            detail, cause=problem.cause, status=response.status, request_id=request_id
        )
    return errors.class_of(response.status, problem.reason)(
        detail,
        reason=problem.reason,
        status=response.status,
        request_id=request_id,
        retry_after_s=_retry_after_s(problem, response),
        errors=[(wrong.path, wrong.message) for wrong in problem.errors],
    )


def _retry_after_s(problem: protocol.Problem, response: Response) -> float | None:
    if problem.retry_after_s is not None:
        return problem.retry_after_s
    try:
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None  # absent, or a date: no clock is compared between machines


def _no_answer(url: str, failure: TransportFailed) -> errors.Unavailable:
    kind = errors.TimedOut if failure.has_timed_out else errors.Unreachable
    error = kind(f"{url}: {failure}")
    error.__cause__ = failure
    return error


def _may_have_happened(failure: errors.ShardCoordinatorError) -> bool:
    match failure:
        case errors.OutcomeUnknown():
            return True
        case errors.Unavailable(status=None, __cause__=TransportFailed(was_sent=was_sent)):
            return was_sent
        case _:
            return False


def _last_word(
    failure: errors.ShardCoordinatorError, *, is_outcome_unknown: bool
) -> errors.ShardCoordinatorError:
    """What the caller hears when there are no more tries."""
    if not is_outcome_unknown or isinstance(failure, errors.OutcomeUnknown):
        return failure
    return errors.OutcomeUnknown(
        f"the change may or may not have been made; the last try said: {failure.detail}",
        reason="outcome_unknown",
        status=failure.status,
        request_id=failure.request_id,
    )
