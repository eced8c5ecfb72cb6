"""What routers ask: who owns one shard, and the whole routing table or what changed in it.

Decides when to answer, to wait or to refuse. The table itself is `core.routing`'s; this module
must not know how shards come by their owners.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from aiohttp import web

from coordinator.api.asked import Asked, Told, Wait
from coordinator.api.call import Call, Desk
from coordinator.api.cursor import Cursor, Standing
from coordinator.api.encoding import JSON, MSGPACK
from coordinator.api.problems import Refusal, invalid, refused
from coordinator.api.query import boolean
from coordinator.api.records import NextOwner, OwnerAnswer
from coordinator.api.rights import Right
from coordinator.core.commands import Refused
from coordinator.core.namespace import NamespaceState
from coordinator.core.routing import is_routable
from coordinator.core.shard import Fate, Shard, ShardState
from coordinator.core.types import Executor, NamespaceKind

OWNER_WAIT_S: Final = 2.0
"""How long a look-up waits for an owner that is about to be: a placement takes milliseconds."""

_STATES: Final[Mapping[ShardState, Literal["owned", "preparing", "releasing"]]] = {
    ShardState.OWNED: "owned",
    ShardState.PREPARING: "preparing",
    ShardState.RELEASING: "releasing",
}
"""The states in which somebody owns a shard."""


async def owner(call: Call[None]) -> web.Response:
    """The owner of one shard; in an open namespace the shard is born if need be."""
    namespace = call.placed(call.namespace)
    key = call.key
    shard = namespace.shards.get(key)
    if shard is None or not is_routable(shard):
        namespace, shard = await _settled(call, namespace, key)
    answer = _owner_of(call.desk, namespace, shard)
    if answer is None:
        why = f": it is kept for {shard.reserved!r}, which restarts" if shard.reserved else ""
        raise Refusal("shard_unassigned", f"shard {key!r} has no owner at the moment{why}")
    return call.answer_read(answer, namespace)


def usual_owner(asked: Asked) -> Told | None:
    """The same of a shard that has an owner."""
    namespace = asked.placed()
    if namespace is None:
        return None
    shard = namespace.shards.get(asked.path["key"])
    if shard is None or not is_routable(shard):
        return None
    answer = _owner_of(asked.desk, namespace, shard)
    return None if answer is None else Told(answer, namespace)


def _owner_of(desk: Desk, namespace: NamespaceState, shard: Shard) -> OwnerAnswer | None:
    record = None if shard.executor is None else namespace.executors.get(shard.executor)
    if record is None:
        return None
    target = None if shard.target is None else namespace.executors.get(shard.target)
    return OwnerAnswer(
        namespace=namespace.info.name,
        key=shard.key,
        executor=record.id,
        address=record.profile.address,
        host=record.profile.host,
        epoch=shard.epoch,
        state=_STATES[shard.state],
        next=_next(target),
        cursor=desk.cursor_of(namespace),
    )


def _next(target: Executor | None) -> NextOwner | None:
    if target is None:
        return None
    return NextOwner(executor=target.id, address=target.profile.address)


async def _settled(
    call: Call[Any], namespace: NamespaceState, key: str
) -> tuple[NamespaceState, Shard]:
    """The shard with its owner, once it has one; on the leader only, others ask it."""
    name = namespace.info.name
    is_open = namespace.info.kind is NamespaceKind.OPEN
    has_right = call.caller.may(Right.CREATE)
    may_create = boolean(call.query, "create", default=is_open and has_right)
    if may_create and not has_right:
        raise Refusal("forbidden", f"this needs the right {Right.CREATE.value!r}")
    shard = namespace.shards.get(key)
    if shard is not None and shard.fate is Fate.PARKED:
        raise Refusal("shard_parked", f"shard {key!r} is parked: {shard.note or 'no reason given'}")
    if shard is None and not (is_open and may_create):
        raise Refusal("shard_not_found", f"no shard {key!r} in namespace {name!r}")
    if shard is None:
        call.desk.door.check_birth(call.request)
    if not call.desk.leader.is_leading:
        # `serve` asks the leader, which can make and place shards, before this is answered.
        reason = "no_leader" if call.desk.leader_url is None else "shard_unassigned"
        raise Refusal(reason, f"shard {key!r} has no owner, as far as this node knows")
    with call.desk.polls.seat():
        outcome = await call.desk.leader.owner_of(
            name, key, create=may_create, timeout_s=OWNER_WAIT_S
        )
    if isinstance(outcome, Refused):
        raise refused(outcome)
    namespace = call.placed(call.namespace)
    shard = namespace.shards.get(key)
    if shard is None:
        raise Refusal("shard_not_found", f"shard {key!r} was retired meanwhile")
    if shard.fate is Fate.PARKED:
        raise Refusal("shard_parked", f"shard {key!r} is parked: {shard.note or 'no reason given'}")
    return namespace, shard


async def routing(call: Call[None]) -> web.Response:
    """The routing table; with a cursor, what changed since, as soon as something does."""
    name = call.namespace.info.name
    cursor = call.cursor
    if cursor is None and call.wait_s:
        raise invalid("wait", "needs `after`: without a cursor there is nothing to wait for")
    namespace = call.placed(call.namespace)
    after: int | None = None
    if cursor is not None:
        namespace = await level_with(call, name, cursor)
        standing = cursor.standing(call.desk.cluster_id, namespace.revision)
        if standing is Standing.LEVEL:
            if not await call.desk.polls.changed((name, None), cursor.revision, call.wait_s):
                return web.Response(status=304, headers=call.freshness(namespace))
            namespace = call.placed(call.namespace_of(name))
        after = None if standing is Standing.NEW else cursor.revision
    media = MSGPACK if call.is_msgpack else JSON
    wants_gzip = "gzip" in call.request.headers.get("Accept-Encoding", "")
    table = await call.desk.tables.encoded(
        namespace, call.desk.cluster_id, after, as_msgpack=call.is_msgpack, as_gzip=wants_gzip
    )
    headers = {"Content-Type": media, "Vary": "Accept, Accept-Encoding"}
    if table.is_gzip:
        headers["Content-Encoding"] = "gzip"
    return call.answer_bytes(table.body, 200, headers | call.freshness(namespace))


def usual_routing(asked: Asked) -> Wait | None:
    """Of a router that has the whole table and waits for what changes in it."""
    namespace, cursor = asked.placed(), asked.cursor
    if namespace is None or cursor is None:
        return None
    if cursor.standing(asked.desk.cluster_id, namespace.revision) is not Standing.LEVEL:
        return None
    return Wait((asked.path["namespace"], None), cursor.revision, asked.wait_s, namespace)


async def level_with(call: Call[Any], name: str, cursor: Cursor) -> NamespaceState:
    """The namespace once this node has seen what the caller has: never older state.

    A follower that does not get there asks the leader, by way of the refusal.
    """
    namespace = call.namespace_of(name)
    if cursor.standing(call.desk.cluster_id, namespace.revision) is not Standing.AHEAD:
        return namespace
    await call.desk.polls.caught_up(name, cursor)
    namespace = call.namespace_of(name)
    if cursor.standing(call.desk.cluster_id, namespace.revision) is Standing.AHEAD:
        raise Refusal(
            "recovering",
            f"this node is at revision {namespace.revision}, the caller at {cursor.revision}",
        )
    return call.placed(namespace)
