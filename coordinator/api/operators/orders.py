"""How an operator's order is carried out: checked only, or made once, and rendered.

Decides dry runs, idempotency keys and what a refusal of the state machine becomes. It must not
know which order it carries.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.dry_run_records import DryRunAnswer, RoomView
from coordinator.api.problems import refused
from coordinator.api.query import boolean, idempotency_key
from coordinator.core.commands import Applied, Command, Entry, Once, Outcome, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an order would come to, as far as it can be told."""

    shards: int | None = None
    moved_load: float | None = None
    room: RoomView | None = None
    target_before: float | None = None
    target_after: float | None = None


Foresight = Callable[[], Awaitable[Effect]]
"""Works out an order's effect; only asked for a dry run, as it may take a while."""


Render = Callable[[Applied], web.Response | Awaitable[web.Response]]
"""What is answered when the order is through."""


async def ordered(
    call: Call[Any],
    command: Command,
    render: Render,
    *,
    would: str,
    shards: int | None = None,
    effect: Foresight | None = None,
) -> web.Response:
    """Carry out an order and render what it came to; with `dry_run` say what it would do."""
    send = call.desk.replica.execute
    return await sent(call, command, send, render, would=would, shards=shards, effect=effect)


async def sent(
    call: Call[Any],
    command: Command,
    send: Callable[[Entry], Awaitable[Outcome]],
    render: Render,
    *,
    would: str,
    shards: int | None = None,
    effect: Foresight | None = None,
) -> web.Response:
    """The same for an order that somebody else than the replica sends on its way."""
    entry = _entry(call, command)
    if boolean(call.query, "dry_run"):
        outcome = call.desk.replica.check(entry)
        if isinstance(outcome, Refused):
            raise refused(outcome)
        found = Effect(shards=shards) if effect is None else await effect()
        return call.answer(
            DryRunAnswer(
                dry_run=True,
                would=would,
                resource=outcome.resource,
                creates=outcome.created,
                shards=found.shards,
                moved_load=found.moved_load,
                room=found.room,
                target_before=found.target_before,
                target_after=found.target_after,
            )
        )
    outcome = await send(entry)
    if isinstance(outcome, Refused):
        raise refused(outcome)
    made = render(outcome)
    return made if isinstance(made, web.Response) else await made


def until_ms(at_ms: int, expires_in_s: float | None) -> int | None:
    """When an order that is given now ends by itself, if it does."""
    return None if expires_in_s is None else at_ms + round(expires_in_s * 1000)


def _entry(call: Call[Any], command: Command) -> Entry:
    """The command, under the caller's idempotency key if there is one."""
    key = idempotency_key(call.request.headers)
    if key is None:
        return command
    return Once(key=key, digest=_digest(call), command=command)


def _digest(call: Call[Any]) -> str:
    """What makes two requests the same: method, path with query, precondition and body."""
    request = call.request
    told = hashlib.blake2s(digest_size=16)
    for part in (request.method, request.raw_path, request.headers.get("If-Match", "")):
        told.update(part.encode("utf-8", "surrogateescape") + b"\0")
    told.update(call.payload)
    return told.hexdigest()
