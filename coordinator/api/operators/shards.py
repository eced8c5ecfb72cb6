"""Shards as operators see them: one, or pages of them. Looking never creates one."""

import base64
import binascii
import heapq
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import UNSET, UnsetType

from coordinator.api.call import Call, timestamp
from coordinator.api.operators.events import event_view
from coordinator.api.operators.shard_records import (
    NotThere,
    ShardsAnswer,
    ShardThen,
    ShardView,
    StrikeView,
)
from coordinator.api.problems import Refusal, invalid
from coordinator.api.query import choice, executor_id, moment_ms, whole
from coordinator.core.controller import Mind
from coordinator.core.controller.explain import explain
from coordinator.core.controller.facts import shard_facts
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import Fate, Shard, ShardState
from coordinator.core.tenures import Owned

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000
"""A page is made in one turn of the loop: a thousand take some milliseconds."""
PAGE_PATTERN: Final = r"[A-Za-z0-9_-]{0,344}"
"""What base64 makes of the longest key."""
STATES: Final = tuple(state.value for state in ShardState)
SKEW_MS: Final = 5_000
"""A time that is asked for may be ahead of this node's clock by so much: clocks differ."""
SORTS: Final = ("key", "load")


async def list_all(call: Call[None]) -> web.Response:
    """One page of the shards that match, by key or heaviest first."""
    namespace = call.namespace
    limit = whole(call.query, "limit", default=PAGE_DEFAULT, lower=1, upper=PAGE_MAX)
    by_load = choice(call.query, "sort", SORTS) == "load"
    matching = list(_matching(call, namespace))
    mind = mind_of(call, namespace)
    page = _page(call.query.get("page"), by_load=by_load)
    if by_load:
        start = int(page or "0")
        heaviest = heapq.nsmallest(start + limit, matching, key=_heaviest(mind))
        shown = heaviest[start:]
        next_page = str(start + limit) if start + limit < len(matching) else None
    else:
        rest = [shard for shard in matching if shard.key > page]
        shown = heapq.nsmallest(limit, rest, key=_by_key)
        next_page = shown[-1].key if len(rest) > limit else None
    answer = ShardsAnswer(
        shards=[view(namespace, shard, mind, call) for shard in shown],
        total=len(matching),
        next_page=None if next_page is None else _token(next_page),
    )
    return call.answer_read(answer, namespace)


async def show(call: Call[None]) -> web.Response:
    """One shard; the leader tells why it is where it is."""
    namespace, key = call.namespace, call.key
    shard = namespace.shards.get(key)
    mind = mind_of(call, namespace)
    if shard is None:
        return shown(call)
    then = _then(call, namespace, shard)
    if mind is None:
        record = msgspec.structs.replace(view(namespace, shard, mind, call), then=then)
        return call.answer_read(record, namespace)
    clock = call.desk.clock
    told = explain(namespace, mind, shard, clock.monotonic(), clock.wall_ms())
    record = msgspec.structs.replace(
        view(namespace, shard, mind, call),
        why_here=told.here,
        why_no_move=told.stays,
        why_not_there=[
            NotThere(executor=one.executor, rule=one.rule.value, why=one.words)
            for one in told.elsewhere
        ],
        decision=told.decision,
        history=[event_view(event) for event in told.events],
        then=then,
    )
    return call.answer_read(record, namespace)


def _then(call: Call[None], namespace: NamespaceState, shard: Shard) -> ShardThen | UnsetType:
    """Who owned it at the time that is asked for, if one is."""
    at_ms = moment_ms(call.query, "at")
    if at_ms is None:
        return UNSET
    if at_ms > call.desk.clock.wall_ms() + SKEW_MS:
        raise invalid("at", "is yet to come")
    found = namespace.tenures.owner_at(shard, namespace.info, at_ms)
    return then_view(found, at_ms)


def then_view(found: Owned, at_ms: int) -> ShardThen:
    """The same as it is told."""
    return ShardThen(
        at=timestamp(at_ms),
        known=found.is_known,
        executor=found.executor,
        epoch=found.epoch or None,
        since=_moment(found.since_ms),
        until=_moment(found.until_ms),
        known_from=_moment(found.known_from_ms),
        told=_told(found),
    )


def _told(found: Owned) -> str:
    if not found.is_known:
        return f"it is not known who owned it before {_moment(found.known_from_ms)}"
    until = f" until {_moment(found.until_ms)}" if found.until_ms is not None else ", and still"
    if found.executor is None:
        return f"nobody owned it, since {_moment(found.since_ms)}{until}"
    since = f"since {_moment(found.since_ms)}{until}"
    return f"{found.executor} owned it under epoch {found.epoch}, {since}"


def _moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else timestamp(at_ms)


def shown(call: Call[Any], status: int = 200) -> web.Response:
    """The shard in the path as it is now."""
    namespace, key = call.namespace, call.key
    shard = namespace.shards.get(key)
    if shard is None:
        raise Refusal("shard_not_found", f"no shard {key!r}")
    record = view(namespace, shard, mind_of(call, namespace), call)
    return call.answer(record, status, call.freshness(namespace))


def mind_of(call: Call[Any], namespace: NamespaceState) -> Mind | None:
    """What only the leader knows of a namespace; None elsewhere."""
    if not call.desk.leader.is_leading:
        return None
    found = call.desk.leader.view(namespace.info.name)
    return None if found is None else found[1]


def view(namespace: NamespaceState, shard: Shard, mind: Mind | None, call: Call[Any]) -> ShardView:
    """A shard: where it is and why."""
    facts = None if mind is None else shard_facts(mind, shard.key, call.desk.clock.monotonic())
    is_owned = shard.executor is not None
    return ShardView(
        key=shard.key,
        state=shard.state,
        executor=shard.executor,
        host=namespace.executors[shard.executor].profile.host
        if shard.executor in namespace.executors
        else None,
        epoch=shard.epoch,
        next=shard.target,
        load=None if facts is None else facts.load,
        pinned=shard.pin,
        pinned_until=None if shard.pin_until_ms is None else timestamp(shard.pin_until_ms),
        pin_reason=shard.pin_note,
        parked=shard.note if shard.fate is Fate.PARKED else None,
        strikes=[
            StrikeView(kind=one.kind, executor=one.executor, at=timestamp(one.at_ms))
            for one in shard.strikes
        ],
        retiring=shard.fate is Fate.RETIRED,
        overdue=shard.overdue,
        cooldown_left_s=None if facts is None else facts.cooldown_left_s,
        reserved=shard.reserved,
        previous=shard.previous,
        since=timestamp(shard.since_ms) if is_owned else None,
        why=shard.cause.value if shard.epoch else "",
        next_why=None if shard.next_cause is None else shard.next_cause.value,
    )


def _matching(call: Call[Any], namespace: NamespaceState) -> Iterator[Shard]:
    executor = call.query.get("executor")
    state = choice(call.query, "state", STATES)
    keys = namespace.shards if executor is None else namespace.owned(executor_id(executor))
    for key in keys:
        shard = namespace.shards[key]
        if state in (None, shard.state):
            yield shard


def _by_key(shard: Shard) -> str:
    return shard.key


class _heaviest:  # noqa: N801 - used as a function
    """Sorts heaviest first, the unmeasured last, ties by key."""

    def __init__(self, mind: Mind | None) -> None:
        self._mind = mind

    def __call__(self, shard: Shard) -> tuple[float, str]:
        load = None if self._mind is None else self._mind.loads.smoothed(shard.key)
        return (1.0 if load is None else -load, shard.key)


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _page(token: str | None, *, by_load: bool) -> str:
    """What a page token stands for: the last key shown, or how many were."""
    if token is None:
        return ""
    try:
        text = base64.b64decode(
            token + "=" * (-len(token) % 4), altchars=b"-_", validate=True
        ).decode()
    except (ValueError, binascii.Error):
        raise invalid("page", "is no page that was ever given out") from None
    if by_load and text and not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise invalid("page", "is a page of another sort")
    return text
