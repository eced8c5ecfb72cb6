"""Executors as operators see them, and what may be ordered of them."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.operators.orders import sent
from coordinator.api.operators.previews import emptied
from coordinator.api.operators.records import (
    DrainRequest,
    EvictRequest,
    ExecutorRecord,
    ExecutorsAnswer,
    OrderRequest,
    ReasonRequest,
    ReturningExecutor,
)
from coordinator.api.operators.targets import TargetOrders, cordon_view
from coordinator.api.problems import Refusal
from coordinator.api.query import choice, executor_id
from coordinator.api.records import ProcessSignals
from coordinator.core.commands import EvictExecutor
from coordinator.core.controller.facts import ExecutorFacts, executor_facts, facts_of
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import ShardState
from coordinator.core.types import Executor, ExecutorProfile, ExecutorStatus, TargetKind

STANDINGS = ("active", "cordoned", "draining", "drained")


async def list_all(call: Call[None]) -> web.Response:
    """The executors of a namespace, by id."""
    namespace = call.namespace
    standing = choice(call.query, "status", STANDINGS)
    host = call.query.get("host")
    if host is not None:
        executor_id(host, "host")
    facts = _facts(call, namespace)
    records = [
        _record(namespace, executor, facts)
        for _, executor in sorted(namespace.executors.items())
        if host in (None, executor.profile.host)
        and standing in (None, namespace.status_of(executor))
    ]
    returning = [
        ReturningExecutor(
            executor=name,
            host=kept.host,
            version=kept.version,
            shards=len(namespace.reserved(name)),
            since=timestamp(kept.since_ms),
            window_s=kept.window_s,
        )
        for name, kept in sorted(namespace.reservations.items())
        if standing is None and host in (None, kept.host)
    ]
    return call.answer_read(ExecutorsAnswer(executors=records, returning=returning), namespace)


async def show(call: Call[None]) -> web.Response:
    """One executor."""
    return _shown(call)


async def evict(call: Call[EvictRequest]) -> web.Response:
    """Close its incarnation now; its shards move when its lease has run out."""
    namespace, executor, force = call.namespace, call.executor, call.body.force
    name = namespace.info.name
    record = namespace.executors.get(executor)
    if record is None:
        before = _gone(namespace, executor)
    else:
        before = _record(namespace, record, _facts(call, namespace, record.id))
    return await sent(
        call,
        EvictExecutor(
            namespace=name,
            executor=executor,
            reason=call.body.reason,
            by=call.by,
            at_ms=call.desk.clock.wall_ms(),
            incarnation=call.body.incarnation or ("" if record is None else record.incarnation),
        ),
        lambda entry: call.desk.leader.evict(name, executor, entry, force=force),
        # Of one that is away for a restart nothing runs, so nothing is risked.
        lambda _: _evicted(call, before, was_forced=force and record is not None),
        would=f"close the incarnation of executor {executor}"
        + (" and give its shards away at once" if force else ""),
        effect=lambda: emptied(call, {executor}),
    )


def _gone(namespace: NamespaceState, executor: str) -> ExecutorRecord | None:
    """One that is away for a restart, as much of it as is known: evicted, it need not come back."""
    kept = namespace.reservations.get(executor)
    if kept is None:
        return None
    profile = ExecutorProfile(host=kept.host, version=kept.version, status=ExecutorStatus.LEAVING)
    record = Executor(
        id=executor,
        incarnation=kept.incarnation,
        profile=profile,
        joined_at_ms=kept.since_ms,
    )
    return _record(namespace, record, {})


def _evicted(call: Call[Any], before: ExecutorRecord | None, *, was_forced: bool) -> web.Response:
    """The executor as it is, or as it was if it is gone, with what the order risks."""
    namespace = call.namespace
    executor = namespace.executors.get(call.executor)
    if executor is not None:
        before = _record(namespace, executor, _facts(call, namespace, executor.id))
    if before is None:
        raise Refusal("executor_not_found", f"no executor {call.executor!r}")
    shown = {name: getattr(before, name) for name in before.__struct_fields__}
    if was_forced and executor is None:  # else its predecessor is waited for all the same
        shown["warning"] = (
            "its shards were given away at once: if the process still runs, two owners act on them"
            f" until its lease of {namespace.info.lease_bound_s:g} s is over"
        )
    shown["evicted"] = True
    return call.answer(ExecutorRecord(**shown), 200 if executor is None else 202)


def _shown(call: Call[Any]) -> web.Response:
    namespace = call.namespace
    executor = namespace.executors.get(call.executor)
    if executor is None:
        raise Refusal("executor_not_found", f"no executor {call.executor!r}")
    record = _record(namespace, executor, _facts(call, namespace, executor.id))
    return call.answer_read(record, namespace)


def _facts(
    call: Call[Any], namespace: NamespaceState, one: str | None = None
) -> Mapping[str, ExecutorFacts]:
    """What only the leader knows, of the one asked for or else of all; nothing elsewhere."""
    if not call.desk.leader.is_leading:
        return {}
    found = call.desk.leader.view(namespace.info.name)
    if found is None:
        return {}
    now = call.desk.clock.monotonic()
    return executor_facts(*found, now) if one is None else {one: facts_of(*found, one, now)}


def _record(
    namespace: NamespaceState, executor: Executor, facts: Mapping[str, ExecutorFacts]
) -> ExecutorRecord:
    profile, known = executor.profile, facts.get(executor.id)
    drain_ = namespace.drain_of(executor)
    process = None if known is None else known.process
    owned = namespace.owned(executor.id)
    return ExecutorRecord(
        executor=executor.id,
        status=namespace.status_of(executor),
        incarnation=executor.incarnation,
        host=profile.host,
        address=profile.address,
        zone=profile.zone,
        version=profile.version,
        labels=dict(profile.labels),
        capacity=profile.capacity,
        load=None if known is None else known.load,
        utilisation=None if known is None else known.load / profile.capacity,
        shards=len(owned),
        releasing=sum(
            namespace.shards[key].state is ShardState.RELEASING
            for key in owned
            if key in namespace.in_flight
        ),
        heartbeat_age_s=None if known is None else known.heartbeat_age_s,
        process=None
        if process is None
        else ProcessSignals(process.cpu_cores, process.event_loop_lag_s, process.backlog),
        joined_at=timestamp(executor.joined_at_ms),
        drain=None if drain_ is None else drain_.id,
        cordon=cordon_view(namespace.cordon_of(executor)),
        leaving=profile.status is ExecutorStatus.LEAVING,
        back_within_s=namespace.return_window_s(executor) or None,
        evicted=executor.evicted,
    )


_ORDERS: Final = TargetOrders(TargetKind.EXECUTOR, _shown)


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
