"""How an operator's order is carried out: checked only, or made once, and rendered.

Decides dry runs, idempotency keys and what a refusal of the state machine becomes. It must not
know which order it carries.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.records import DryRunAnswer
from coordinator.api.problems import refused
from coordinator.api.query import boolean, idempotency_key
from coordinator.core.commands import Applied, Command, Entry, Once, Outcome, Refused


async def ordered(
    call: Call[Any],
    command: Command,
    render: Callable[[Applied], web.Response],
    *,
    would: str,
    shards: int | None = None,
) -> web.Response:
    """Carry out an order and render what it came to; with `dry_run` say what it would do."""
    return await sent(call, command, call.desk.replica.execute, render, would=would, shards=shards)


async def sent(
    call: Call[Any],
    command: Command,
    send: Callable[[Entry], Awaitable[Outcome]],
    render: Callable[[Applied], web.Response],
    *,
    would: str,
    shards: int | None = None,
) -> web.Response:
    """The same for an order that somebody else than the replica sends on its way."""
    entry = _entry(call, command)
    if boolean(call.query, "dry_run"):
        outcome = call.desk.replica.check(entry)
        if isinstance(outcome, Refused):
            raise refused(outcome)
        return call.answer(
            DryRunAnswer(
                dry_run=True,
                would=would,
                resource=outcome.resource,
                creates=outcome.created,
                shards=shards,
            )
        )
    outcome = await send(entry)
    if isinstance(outcome, Refused):
        raise refused(outcome)
    return render(outcome)


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
