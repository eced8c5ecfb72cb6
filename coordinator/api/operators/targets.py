"""Drains and cordons of an executor, or of every executor on a host: the orders are the same.

Decides what is ordered and when a drain is refused for want of room. How the target is shown
afterwards is for whoever serves its path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.operators.drains import drain_of, mint_drain_id
from coordinator.api.operators.orders import ordered, until_ms
from coordinator.api.operators.previews import emptied, refuse_overload
from coordinator.api.operators.records import (
    CordonView,
    DrainRequest,
    OrderRequest,
    ReasonRequest,
)
from coordinator.core.commands import EndCordon, EndDrain, StartCordon, StartDrain
from coordinator.core.namespace import Target
from coordinator.core.orders import Cordon
from coordinator.core.types import TargetKind

Shown = Callable[[Call[Any]], web.Response]

_WORDS: Final = {TargetKind.EXECUTOR: "executor {}", TargetKind.HOST: "every executor on host {}"}


@dataclass(frozen=True, slots=True)
class TargetOrders:
    """The orders for one kind of target."""

    kind: TargetKind
    shown: Shown
    """How the target is shown when an order was carried out."""

    def target(self, call: Call[Any]) -> Target:
        """The target in the path."""
        return self.kind, call.executor if self.kind is TargetKind.EXECUTOR else call.host

    def words(self, call: Call[Any]) -> str:
        """The target in the path, in words."""
        return _WORDS[self.kind].format(self.target(call)[1])

    async def drain(self, call: Call[DrainRequest]) -> web.Response:
        """Move everything away by handoff and place nothing."""
        namespace, target = call.namespace, self.target(call)
        at_ms = call.desk.clock.wall_ms()
        command = StartDrain(
            namespace=namespace.info.name,
            id=mint_drain_id(),
            kind=self.kind,
            target=target[1],
            reason=call.body.reason,
            by=call.by,
            at_ms=at_ms,
            until_ms=until_ms(at_ms, call.body.expires_in_s),
        )
        gone = {executor.id for executor in namespace.covered(target)}
        if target not in namespace.drains:  # of one that is in force nothing changes
            refuse_overload(call, gone, force=call.body.force)
        return await ordered(
            call,
            command,
            lambda applied: drain_of(call, applied.resource),
            would=f"hand over every shard of {self.words(call)} and place nothing there"
            + _for(call.body.expires_in_s),
            effect=lambda: emptied(call, gone),
        )

    async def undrain(self, call: Call[ReasonRequest]) -> web.Response:
        """Let it be given shards again."""
        command = EndDrain(
            namespace=call.namespace.info.name,
            kind=self.kind,
            target=self.target(call)[1],
            reason=call.body.reason,
            by=call.by,
            at_ms=call.desk.clock.wall_ms(),
        )
        return await ordered(
            call,
            command,
            lambda _: self.shown(call),
            would=f"end the drain of {self.words(call)}",
        )

    async def cordon(self, call: Call[OrderRequest]) -> web.Response:
        """Place nothing on it and leave what is there."""
        at_ms = call.desk.clock.wall_ms()
        command = StartCordon(
            namespace=call.namespace.info.name,
            kind=self.kind,
            target=self.target(call)[1],
            reason=call.body.reason,
            by=call.by,
            at_ms=at_ms,
            until_ms=until_ms(at_ms, call.body.expires_in_s),
        )
        return await ordered(
            call,
            command,
            lambda _: self.shown(call),
            would=f"place nothing on {self.words(call)}" + _for(call.body.expires_in_s),
        )

    async def uncordon(self, call: Call[ReasonRequest]) -> web.Response:
        """Place on it again."""
        command = EndCordon(
            namespace=call.namespace.info.name,
            kind=self.kind,
            target=self.target(call)[1],
            reason=call.body.reason,
            by=call.by,
            at_ms=call.desk.clock.wall_ms(),
        )
        return await ordered(
            call,
            command,
            lambda _: self.shown(call),
            would=f"place on {self.words(call)} again",
        )


def cordon_view(cordon: Cordon | None) -> CordonView | None:
    """A cordon as it is told."""
    if cordon is None:
        return None
    return CordonView(
        target=f"{cordon.kind}/{cordon.target}",
        reason=cordon.reason,
        by=cordon.by,
        since=timestamp(cordon.since_ms),
        until=None if cordon.until_ms is None else timestamp(cordon.until_ms),
    )


def _for(expires_in_s: float | None) -> str:
    return "" if expires_in_s is None else f", for {expires_in_s:g} s"
