"""The same orders for every executor on a host, present and future."""

from typing import Any, Final

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.records import (
    DrainRequest,
    HostStanding,
    HostView,
    OrderRequest,
    ReasonRequest,
)
from coordinator.api.operators.targets import TargetOrders, cordon_view
from coordinator.core.types import TargetKind


def _shown(call: Call[Any]) -> web.Response:
    namespace, target = call.namespace, (TargetKind.HOST, call.host)
    drain, cordon = namespace.drains.get(target), namespace.cordons.get(target)
    status: HostStanding = "active" if cordon is None else "cordoned"
    return call.answer(
        HostView(
            host=call.host,
            status="draining" if drain else status,
            drain=None if drain is None else drain.id,
            cordon=cordon_view(cordon),
            executors=[executor.id for executor in namespace.covered(target)],
        )
    )


_ORDERS: Final = TargetOrders(TargetKind.HOST, _shown)


async def drain(call: Call[DrainRequest]) -> web.Response:
    """Move everything away by handoff and place nothing."""
    return await _ORDERS.drain(call)


async def undrain(call: Call[ReasonRequest]) -> web.Response:
    """Let it be given shards again."""
    return await _ORDERS.undrain(call)


async def cordon(call: Call[OrderRequest]) -> web.Response:
    """Place nothing on it and leave what is there."""
    return await _ORDERS.cordon(call)


async def uncordon(call: Call[ReasonRequest]) -> web.Response:
    """Place on it again."""
    return await _ORDERS.uncordon(call)
