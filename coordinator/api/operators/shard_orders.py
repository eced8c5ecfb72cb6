"""What operators order for single shards: park, pin, move, declare, retire."""

from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.orders import ordered, until_ms
from coordinator.api.operators.previews import brought, taken_off
from coordinator.api.operators.records import (
    DeclareAnswer,
    DeclareRequest,
    MoveRequest,
    PinRequest,
    ReasonRequest,
)
from coordinator.api.operators.shards import shown
from coordinator.api.problems import Refusal
from coordinator.api.query import shard_key
from coordinator.core.commands import (
    Applied,
    DeclareShards,
    MoveShard,
    ParkShard,
    PinShard,
    RetireShard,
    UnparkShard,
    UnpinShard,
)
from coordinator.core.shard import Fate, ShardState


async def drain(call: Call[ReasonRequest]) -> web.Response:
    """Park the shard: its owner stops it, nobody runs it, routers are told."""
    command = ParkShard(
        namespace=call.namespace.info.name,
        key=call.key,
        note=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call,
        command,
        lambda _: _under_way(call),
        would=f"let nobody run shard {call.key}",
        effect=lambda: taken_off(call, call.key),
    )


async def undrain(call: Call[ReasonRequest]) -> web.Response:
    """Somebody shall run the shard again."""
    command = UnparkShard(
        namespace=call.namespace.info.name,
        key=call.key,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call, command, lambda _: _under_way(call), would=f"place shard {call.key} again", shards=1
    )


async def pin(call: Call[PinRequest]) -> web.Response:
    """Bind the shard to an executor; it is brought there if it is elsewhere."""
    at_ms = call.desk.clock.wall_ms()
    command = PinShard(
        namespace=call.namespace.info.name,
        key=call.key,
        executor=call.body.executor,
        note=call.body.reason,
        by=call.by,
        at_ms=at_ms,
        until_ms=until_ms(at_ms, call.body.expires_in_s),
    )
    return await ordered(
        call,
        command,
        lambda _: _under_way(call),
        would=f"keep shard {call.key} on executor {call.body.executor}",
        effect=lambda: brought(call, call.key, call.body.executor),
    )


async def unpin(call: Call[ReasonRequest]) -> web.Response:
    """Leave the shard to the balancer again."""
    command = UnpinShard(
        namespace=call.namespace.info.name,
        key=call.key,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call,
        command,
        lambda _: _under_way(call),
        would=f"leave shard {call.key} to the balancer",
        shards=1,
    )


async def move(call: Call[MoveRequest]) -> web.Response:
    """Bring the shard to an executor by handoff."""
    command = MoveShard(
        namespace=call.namespace.info.name,
        key=call.key,
        target=call.body.to,
        at_ms=call.desk.clock.wall_ms(),
        reason=call.body.reason,
        by=call.by,
    )
    return await ordered(
        call,
        command,
        lambda _: _under_way(call),
        would=f"hand shard {call.key} over to executor {call.body.to}",
        effect=lambda: brought(call, call.key, call.body.to),
    )


async def declare(call: Call[DeclareRequest]) -> web.Response:
    """Make keys of an open namespace known ahead of their use."""
    name = call.namespace.info.name
    keys = tuple(
        dict.fromkeys(shard_key(key, f"keys[{at}]") for at, key in enumerate(call.body.keys))
    )
    return await ordered(
        call,
        DeclareShards(namespace=name, keys=keys),
        lambda applied: _declared(call, applied, len(keys)),
        would=f"declare those of {len(keys)} keys that are new",
        shards=sum(key not in call.namespace.shards for key in keys),
    )


def _declared(call: Call[Any], applied: Applied, asked: int) -> web.Response:
    answer = DeclareAnswer(
        created=applied.count,
        existing=asked - applied.count,
        cursor=call.cursor_of(call.namespace),
    )
    return call.answer(answer, 201 if applied.created else 200)


async def retire(call: Call[None]) -> web.Response:
    """Forget a shard of an open namespace, as soon as its owner has stopped it."""
    command = RetireShard(
        namespace=call.namespace.info.name,
        key=call.key,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call,
        command,
        lambda _: _retired(call),
        would=f"forget shard {call.key} as soon as its owner has stopped it",
        shards=1,
    )


def _retired(call: Call[Any]) -> web.Response:
    """204 when it is gone, 202 while its owner still stops it."""
    if call.key not in call.namespace.shards:
        return web.Response(status=204)
    return shown(call, 202)


def _under_way(call: Call[Any]) -> web.Response:
    """The shard: 202 while the leader still has something to do for it."""
    shard = call.namespace.shards.get(call.key)
    if shard is None:
        raise Refusal("shard_not_found", f"shard {call.key!r} was retired meanwhile")
    is_settled = (
        shard.state is ShardState.PARKED
        if shard.fate is Fate.PARKED
        else shard.state is ShardState.OWNED and shard.pin in (None, shard.executor)
    )
    return shown(call, 200 if is_settled else 202)
