"""What operators do about balance: a part of `Operator`.

Decides nothing but how a question becomes a request.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeVar

from client import calls, outlooks
from client.call import Call

T = TypeVar("T")

CALCULATION_TIMEOUT_S: Final = 60.0  # ten fleets of 100,000 shards take some ten seconds


class Sender(Protocol):
    """Whoever sends a request."""

    def _send(self, call: Call[T], timeout_s: float | None = None) -> Awaitable[T]: ...


class BalanceVerbs:
    """Looking at balance, asking what would be, pausing."""

    async def balance(self: Sender, namespace: str) -> outlooks.BalanceView:
        """How level the fleet is, and how level it could be."""
        return await self._send(calls.balance(namespace))

    async def pause_balance(
        self: Sender, namespace: str, *, reason: str, expires_in_s: float | None = None
    ) -> outlooks.BalanceView:
        """Make no voluntary moves."""
        return await self._send(
            calls.balance_verb(namespace, "pause", reason=reason, expires_in_s=expires_in_s)
        )

    async def resume_balance(
        self: Sender, namespace: str, *, reason: str = ""
    ) -> outlooks.BalanceView:
        """Make voluntary moves again."""
        return await self._send(
            calls.balance_verb(namespace, "resume", reason=reason, expires_in_s=None)
        )

    async def balance_plan(
        self: Sender, namespace: str, *, level: Literal["default", "level", "tight"] = "default"
    ) -> outlooks.PlanView:
        """What a pass would do now; nothing is moved."""
        return await self._send(calls.balance_plan(namespace, level))

    async def what_if(
        self: Sender,
        namespace: str,
        *,
        executors: int | None = None,
        without_hosts: Sequence[str] = (),
        without_executors: Sequence[str] = (),
        policy: Mapping[str, object] | None = None,
    ) -> outlooks.WhatIfView:
        """The planner on a fleet that is not there: fewer or more executors, other settings."""
        return await self._send(
            calls.what_if(
                namespace,
                executors=executors,
                without_hosts=without_hosts,
                without_executors=without_executors,
                policy=policy,
            ),
            CALCULATION_TIMEOUT_S,
        )

    async def capacity(
        self: Sender, namespace: str, *, executors: str | None = None
    ) -> outlooks.CapacityView:
        """How many executors it takes; `executors` is a number or a range such as `8-16`."""
        return await self._send(calls.capacity(namespace, executors), CALCULATION_TIMEOUT_S)

    async def balance_history(self: Sender, namespace: str) -> outlooks.HistoryView:
        """What the present leader's balancer did, predicted, and brought about."""
        return await self._send(calls.balance_history(namespace))

    async def decision(self: Sender, namespace: str, decision: str) -> outlooks.DecisionDetails:
        """One decision with its inputs, made once more."""
        return await self._send(calls.decision(namespace, decision))
