"""What happened, as a long poll with filters; from any node's own copy.

Decides which page a reader gets and when it waits. What is kept is the core's.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.cursor import Cursor, Standing
from coordinator.api.operators.news import EventsAnswer, EventView
from coordinator.api.problems import invalid
from coordinator.api.query import boolean, moment_ms, whole
from coordinator.api.routers import level_with
from coordinator.core.events import Event, EventKind, position_at, revision_of
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import TargetKind
from coordinator.watches import EVENTS

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000
"""Of a page, at most some 500 bytes each: half a megabyte."""
KINDS: Final = tuple(kind.value for kind in EventKind)
KINDS_PATTERN: Final = "({0})(,({0}))*".format("|".join(KINDS))

Filter = Callable[[Event], bool]


async def list_all(call: Call[None]) -> web.Response:
    """A page of events: the newest without a cursor, else what came after it, once it comes."""
    wanted = _filter(call, call.namespace)
    limit = whole(call.query, "limit", default=PAGE_DEFAULT, lower=1, upper=PAGE_MAX)
    cursor = call.cursor
    if cursor is None:
        if call.wait_s:
            raise invalid("wait", "needs `after`: without a cursor there is nothing to wait for")
        return _newest(call, wanted, limit)
    namespace = await _level(call, cursor)
    is_ours = cursor.cluster_id == call.desk.cluster_id
    position = cursor.revision if is_ours else 0
    is_missed = not is_ours or position < namespace.events.forgotten
    found = _page(namespace, position, wanted, limit)
    if not found:
        namespace, found = await _waited(call, namespace, wanted, limit)
    if not found and revision_of(position) >= namespace.events.last_revision and is_ours:
        return web.Response(status=304, headers=call.freshness(namespace))
    return _answer(call, namespace, found, limit, is_missed=is_missed)


def _filter(call: Call[None], namespace: NamespaceState) -> Filter:
    query = call.query
    kinds = _kinds(query.get("kind"))
    shard, executor, host = query.get("shard"), query.get("executor"), query.get("host")
    since_ms, until_ms = moment_ms(query, "since"), moment_ms(query, "until")
    are_orders = boolean(query, "orders")
    there = [one.id for one in namespace.covered((TargetKind.HOST, host))] if host else []

    def wanted(event: Event) -> bool:
        return (
            (not kinds or event.kind in kinds)
            and shard in (None, event.shard)
            and executor in (None, event.executor, event.target)
            and (host in (None, event.host) or event.executor in there or event.target in there)
            and (since_ms is None or event.at_ms >= since_ms)
            and (until_ms is None or event.at_ms <= until_ms)
            and (not are_orders or event.by != "")
        )

    return wanted


def _kinds(text: str | None) -> tuple[EventKind, ...]:
    return () if text is None else tuple(EventKind(one) for one in text.split(","))


async def _level(call: Call[None], cursor: Cursor) -> NamespaceState:
    """The namespace once this node has seen the commit that the reader has seen events of."""
    name = call.namespace.info.name
    seen = Cursor(cursor.cluster_id, revision_of(cursor.revision))
    if seen.standing(call.desk.cluster_id, call.namespace.revision) is Standing.AHEAD:
        return await level_with(call, name, seen)
    return call.namespace


async def _waited(
    call: Call[None], namespace: NamespaceState, wanted: Filter, limit: int
) -> tuple[NamespaceState, list[Event]]:
    """What comes within the reader's wait; each event is looked at once."""
    name = namespace.info.name
    clock = call.desk.clock
    ends_at = clock.monotonic() + call.wait_s
    while (left_s := ends_at - clock.monotonic()) > 0.0:
        seen = namespace.events.last_revision
        if not await call.desk.polls.changed((name, EVENTS), seen, left_s):
            break
        namespace = call.namespace_of(name)
        found = _page(namespace, position_at(seen), wanted, limit)
        if found:
            return namespace, found
    return namespace, []


def _page(namespace: NamespaceState, position: int, wanted: Filter, limit: int) -> list[Event]:
    """Events after a position; one more than the page tells that there are more."""
    return list(islice(filter(wanted, namespace.events.after(position)), limit + 1))


def _newest(call: Call[None], wanted: Filter, limit: int) -> web.Response:
    namespace = call.namespace
    found = list(filter(wanted, namespace.events))[-limit:]
    return _answer(call, namespace, found, limit, is_missed=False)


def _answer(
    call: Call[None], namespace: NamespaceState, found: list[Event], limit: int, *, is_missed: bool
) -> web.Response:
    page, has_more = found[:limit], len(found) > limit
    position = page[-1].id if has_more else position_at(namespace.revision)
    answer = EventsAnswer(
        events=[event_view(event) for event in page],
        cursor=str(Cursor(call.desk.cluster_id, position)),
        more=has_more,
        missed=is_missed,
    )
    return call.answer_read(answer, namespace)


def event_view(event: Event) -> EventView:
    """An event as it is told."""
    return EventView(
        id=event.id,
        at=timestamp(event.at_ms),
        kind=event.kind,
        shard=event.shard,
        epoch=event.epoch,
        executor=event.executor,
        target=event.target,
        host=event.host,
        cause=event.cause,
        by=event.by,
        reason=event.reason,
        detail=event.detail,
        count=event.count,
        undoes=event.undoes or None,
        can_undo=event.former is not None,
    )
