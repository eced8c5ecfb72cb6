"""What the machinery around a node asks: does it live, is it ready, what are its figures."""

from typing import Any

from aiohttp import web

from coordinator.api import problems
from coordinator.api.call import Call
from coordinator.api.encoding import JSON
from coordinator.api.problems import Refusal
from coordinator.api.query import boolean


async def livez(call: Call[None]) -> web.Response:
    """200: the loop turns. It depends on nobody else, or a partition would restart every node."""
    return _told(call, {"loop": True})


async def readyz(call: Call[None]) -> web.Response:
    """200 while this node can answer: a leader is known, it has caught up and is not stopping."""
    desk = call.desk
    status = desk.replica.consensus.status()
    return _told(
        call,
        {
            "leader known": status.leader is not None,
            "caught up": desk.replica.state.cluster_id is not None
            and status.role != "quarantined"
            and status.applied_index == status.commit_index,
            "disk writable": status.disk_fault is None,
            "not stopping": not desk.replica.watches.is_closed,
        },
    )


async def leader(call: Call[None]) -> web.Response:
    """200 on the leader only, 503 elsewhere: for load balancers."""
    return _told(call, {"leader": call.desk.leader.is_leading})


async def metrics(call: Call[None]) -> web.Response:
    """The node's figures for Prometheus."""
    body, content_type = await call.desk.metrics.render(call.request.headers.get("Accept", ""))
    return call.answer_bytes(body, 200, {"Content-Type": content_type})


async def openapi(call: Call[None]) -> web.Response:
    """The document that describes this API."""
    return call.answer_bytes(call.desk.openapi, 200, {"Content-Type": JSON})


async def problem(call: Call[None]) -> web.Response:
    """What a reason means and what to do about it."""
    reason = call.path["reason"]
    text = problems.page(reason)
    if text is None:
        raise Refusal("route_not_found", f"no reason {reason[:64]!r}")
    return web.Response(text=text)


def _told(call: Call[Any], checks: dict[str, bool]) -> web.Response:
    """Plain text: one word, or with `verbose` one line a check."""
    is_good = all(checks.values())
    lines = ["ok" if is_good else "not ok"]
    if _is_verbose(call):
        lines = [f"[{'+' if holds else '-'}] {check}" for check, holds in checks.items()] + lines
    return web.Response(text="\n".join(lines) + "\n", status=200 if is_good else 503)


def _is_verbose(call: Call[Any]) -> bool:
    return call.query.get("verbose") == "" or boolean(call.query, "verbose")
