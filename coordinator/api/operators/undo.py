"""Taking back an operator's order, by the event that tells of it.

Decides how it is asked for and shown, and that a drain which begins again needs room like any;
whether it may be is the core's to say.
"""

from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.operators.events import event_view
from coordinator.api.operators.orders import ordered
from coordinator.api.operators.previews import emptied, refuse_overload
from coordinator.api.operators.records import UndoRequest
from coordinator.api.problems import Refusal
from coordinator.core.commands import Applied, UndoOrder
from coordinator.core.events import Event


async def undo(call: Call[UndoRequest]) -> web.Response:
    """Give the order that stands against it; the answer is the event of that."""
    event = _event(call)
    command = UndoOrder(
        namespace=call.namespace.info.name,
        event=event.id,
        reason=call.body.reason,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
    )
    gone = _emptied_again(call, event)
    # What cannot be taken back at all is not a matter of room.
    if gone is not None and isinstance(call.desk.replica.check(command), Applied):
        refuse_overload(call, gone, force=call.body.force)
    return await ordered(
        call,
        command,
        lambda _: _undone(call, event.id),
        would=f"take back {_words(event)}",
        effect=None if gone is None else lambda: emptied(call, gone),
    )


def _emptied_again(call: Call[Any], event: Event) -> set[str] | None:
    """Whom a drain empties that begins again when its end is taken back; None if none does."""
    drain = None if event.former is None else event.former.drain
    if drain is None:
        return None
    return {executor.id for executor in call.namespace.covered((drain.kind, drain.target))}


def _event(call: Call[Any]) -> Event:
    text = call.path["event"]
    is_number = text.isascii() and text.isdigit() and len(text) <= 16
    found = call.namespace.events.find(int(text)) if is_number else None
    if found is None:
        raise Refusal("event_not_found", f"no event {text[:64]!r}: it never was, or is not kept")
    return found


def _undone(call: Call[Any], event_id: int) -> web.Response:
    """The newest that took it back: told again under the order's key it is the same."""
    for event in reversed(list(call.namespace.events)):
        if event.undoes == event_id:
            return call.answer(event_view(event))
    raise Refusal("event_not_found", f"what took event {event_id} back is not kept any more")


def _words(event: Event) -> str:
    """An order in a few words."""
    about = event.shard or event.executor or event.host
    to = f" to {event.target}" if event.target is not None else ""
    what = f"{event.kind} of {about}{to}" if about is not None else event.kind
    return f"event {event.id}: {what}, by {event.by or 'nobody'}"
