"""Drains and their progress: drained only when every shard was acknowledged away."""

import secrets
from typing import Any, Final

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.operators.records import BlockedShard, DrainsAnswer, DrainState, DrainView
from coordinator.api.problems import Refusal
from coordinator.core.namespace import NamespaceState
from coordinator.core.orders import Drain
from coordinator.core.shard import Shard

BLOCKED_SHOWN_MAX: Final = 100
"""Enough to see the pattern; the shards themselves are listed under `shards`."""


async def list_all(call: Call[None]) -> web.Response:
    """The drains in force, oldest first."""
    namespace = call.namespace
    drains = sorted(namespace.drains.values(), key=_age)
    views = [view(namespace, drain) for drain in drains]
    return call.answer_read(DrainsAnswer(drains=views), namespace)


async def show(call: Call[None]) -> web.Response:
    """One drain."""
    namespace = call.namespace
    return call.answer_read(view(namespace, _find(call, namespace)), namespace)


def mint_drain_id() -> str:
    """A fresh id, unguessable enough that two nodes never mint the same."""
    return f"d-{secrets.token_hex(6)}"


def drain_of(call: Call[Any], drain_id: str) -> web.Response:
    """A drain just ordered: 202 while work goes on."""
    namespace = call.namespace
    for drain in namespace.drains.values():
        if drain.id == drain_id:
            shown = view(namespace, drain)
            return call.answer(shown, 200 if shown.state == "drained" else 202)
    raise Refusal("drain_not_found", f"drain {drain_id!r} was ended meanwhile")


def view(namespace: NamespaceState, drain: Drain) -> DrainView:
    """A drain and how far it is."""
    left = [
        namespace.shards[key]
        for executor in namespace.covered((drain.kind, drain.target))
        for key in namespace.owned(executor.id)
    ]
    has_room = any(namespace.accepts(executor) for executor in namespace.executors.values())
    blocked = [
        BlockedShard(key=shard.key, reason=reason)
        for shard in left
        if (reason := _why_blocked(namespace, shard, has_room=has_room))
    ]
    state: DrainState = "drained" if not left else "draining"
    if left and len(blocked) == len(left):
        state = "blocked"
    return DrainView(
        id=drain.id,
        target=f"{drain.kind}/{drain.target}",
        reason=drain.reason,
        by=drain.by,
        since=timestamp(drain.since_ms),
        until=None if drain.until_ms is None else timestamp(drain.until_ms),
        finished_at=None if drain.finished_ms is None else timestamp(drain.finished_ms),
        state=state,
        shards_left=len(left),
        shards_moved=drain.moved,
        blocked=sorted(blocked, key=_key)[:BLOCKED_SHOWN_MAX],
    )


def _why_blocked(namespace: NamespaceState, shard: Shard, *, has_room: bool) -> str:
    """Why a shard does not get away; empty when it will."""
    if shard.overdue:
        return "release_overdue"
    if shard.key in namespace.in_flight:
        return ""
    if shard.pin is not None and shard.pin == shard.executor:
        return "pinned"
    return "" if has_room else "no_target"


def _find(call: Call[Any], namespace: NamespaceState) -> Drain:
    wanted = call.path["drain"]
    for drain in namespace.drains.values():
        if drain.id == wanted:
            return drain
    raise Refusal("drain_not_found", f"no drain {wanted[:64]!r}")


def _age(drain: Drain) -> tuple[int, str]:
    return drain.since_ms, drain.id


def _key(blocked: BlockedShard) -> str:
    return blocked.key
