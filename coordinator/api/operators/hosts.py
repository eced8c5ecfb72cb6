"""The same orders for every executor on a host, present and future."""

from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.drains import drain_of, mint_drain_id
from coordinator.api.operators.orders import ordered
from coordinator.api.operators.records import HostStanding, HostView, ReasonRequest
from coordinator.core.commands import EndCordon, EndDrain, StartCordon, StartDrain
from coordinator.core.types import TargetKind


async def drain(call: Call[ReasonRequest]) -> web.Response:
    """Move everything away from the host by handoff and place nothing there."""
    namespace, host = call.namespace, call.host
    command = StartDrain(
        namespace=namespace.info.name,
        id=mint_drain_id(),
        kind=TargetKind.HOST,
        target=host,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    covered = namespace.covered((TargetKind.HOST, host))
    return await ordered(
        call,
        command,
        lambda applied: drain_of(call, applied.resource),
        would=f"hand over every shard on host {host} ({len(covered)} executors now)"
        " and place nothing there",
        shards=sum(len(namespace.owned(executor.id)) for executor in covered),
    )


async def undrain(call: Call[ReasonRequest]) -> web.Response:
    """Let the host be given shards again."""
    command = EndDrain(
        namespace=call.namespace.info.name,
        kind=TargetKind.HOST,
        target=call.host,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call, command, lambda _: _shown(call), would=f"end the drain of host {call.host}"
    )


async def cordon(call: Call[ReasonRequest]) -> web.Response:
    """Place nothing on the host and leave what is there."""
    command = StartCordon(
        namespace=call.namespace.info.name,
        kind=TargetKind.HOST,
        target=call.host,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call, command, lambda _: _shown(call), would=f"place nothing on host {call.host}"
    )


async def uncordon(call: Call[ReasonRequest]) -> web.Response:
    """Place on the host again."""
    command = EndCordon(
        namespace=call.namespace.info.name,
        kind=TargetKind.HOST,
        target=call.host,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call, command, lambda _: _shown(call), would=f"place on host {call.host} again"
    )


def _shown(call: Call[Any]) -> web.Response:
    namespace, target = call.namespace, (TargetKind.HOST, call.host)
    drain_ = namespace.drains.get(target)
    status: HostStanding = "cordoned" if target in namespace.cordons else "active"
    return call.answer(
        HostView(
            host=call.host,
            status="draining" if drain_ else status,
            drain=None if drain_ is None else drain_.id,
            executors=[executor.id for executor in namespace.covered(target)],
        )
    )
