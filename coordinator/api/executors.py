"""What executors say and ask: heartbeats, their assignments, acknowledgements, farewell.

Decides what of a record reaches the leader and what comes back. Leases, joins and loads are the
leader's; this module must not know when an incarnation is over.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from aiohttp import web

from coordinator.api.asked import Asked, Told, Wait
from coordinator.api.call import Call, Desk
from coordinator.api.cursor import Cursor, Standing
from coordinator.api.problems import Refusal, invalid, refused
from coordinator.api.records import (
    AcksRequest,
    AssignmentRecord,
    AssignmentsAnswer,
    CursorAnswer,
    HeartbeatAnswer,
    HeartbeatRequest,
)
from coordinator.api.rights import Caller
from coordinator.api.routers import level_with
from coordinator.core.commands import Acknowledge, Refused
from coordinator.core.controller import Beat
from coordinator.core.load import ProcessSignals
from coordinator.core.names import KEY_BYTES_MAX, key_fault
from coordinator.core.namespace import ExecutorView, NamespaceState
from coordinator.core.types import Claim, CloseCause, ExecutorProfile, ExecutorStatus
from coordinator.leadership import BeatAnswer

_ELSEWHERE: Final = "the token is limited to executors on other hosts"
PATIENCE_S: Final = 0.02
"""Of a heartbeat: a hundredth of the usual interval. A thousand executors that beat every two
seconds would otherwise want five hundred rounds a second of all nodes; so they share fifty."""
LABEL_NAME_BYTES_MAX = 128
LABEL_VALUE_BYTES_MAX = 1024
CAPACITY_MIN = 1e-9
"""What less is taken for: with the heaviest load there is, a smaller one makes utilisations whose
square is no number, and then no question about the whole namespace could be answered."""


async def heartbeat(call: Call[HeartbeatRequest]) -> web.Response:
    """Renew the lease; answered only after a quorum confirmed the leader.

    The body is decoded after that: the records of all who wait for the same quorum would push each
    other out of the processor's caches, and its first use would be as slow as to decode it.
    """
    desk, name = call.desk, call.namespace_name
    received_at = desk.clock.monotonic()
    confirmed = await desk.leader.confirmed()
    body = call.late_body()
    _check_limits(desk, call.caller, name, call.executor, body)
    beat = _beat(desk, call.executor, body, received_at)
    answer = await desk.leader.heartbeat(name, beat, confirmed)
    if isinstance(answer, Refused):
        raise refused(answer)
    return call.answer(_told(desk, answer))


def is_known(desk: Desk, path: Mapping[str, str]) -> bool:
    """Whether this executor is on record; one that joins goes the ordinary way at once."""
    state = desk.replica.state.namespaces.get(path["namespace"])
    return state is not None and path["executor"] in state.executors


def usual_heartbeat(asked: Asked) -> Told | None:
    """The same of one that nothing has to be committed for; looked at after the quorum's word."""
    desk, name, executor = asked.desk, asked.path["namespace"], asked.path["executor"]
    if asked.confirmed is None:
        return None
    body: HeartbeatRequest = asked.record
    _check_limits(desk, asked.caller, name, executor, body)
    beat = _beat(desk, executor, body, asked.received_at)
    answer = desk.leader.hear(name, beat, asked.confirmed)
    return None if answer is None else Told(_told(desk, answer))


def _beat(desk: Desk, executor: str, body: HeartbeatRequest, received_at: float) -> Beat:
    if body.shards:
        _check_keys("shards", body.shards)
    if body.last_held:
        _check_keys("last_held", body.last_held)
    return Beat(
        executor=executor,
        incarnation=body.incarnation,
        sequence=body.sequence,
        joining=body.joining,
        profile=_profile(body),
        shards=body.shards,
        process=_signals(body),
        predecessor_dead=body.predecessor_dead,
        last_held=body.last_held,
        lease_s=body.lease_ttl_s or 0.0,
        received_at=received_at,
        at_ms=desk.clock.wall_ms(),
    )


def _told(desk: Desk, answer: BeatAnswer) -> HeartbeatAnswer:
    return HeartbeatAnswer(
        lease_ttl_s=answer.lease_ttl_s,
        heartbeat_interval_s=answer.heartbeat_interval_s,
        status=cast("ExecutorView", answer.status),
        cursor=f"{desk.cluster_id}:{answer.revision}",
        term=answer.term,
        on_lease_loss=answer.on_lease_loss,
        not_renewed=answer.not_renewed,
    )


def _check_limits(
    desk: Desk, caller: Caller, namespace: str, executor: str, told: HeartbeatRequest
) -> None:
    """Who is limited to hosts says that it is on one, and takes no name from another host."""
    hosts, capacity_max = caller.hosts, caller.capacity_max
    if told.capacity > capacity_max:
        raise Refusal("forbidden", f"the token is limited to a capacity of {capacity_max:g}")
    if not hosts:
        return
    state = desk.replica.state.namespaces.get(namespace)
    former = None if state is None else _host_of(state, executor)
    if not hosts.admits(told.host) or (former is not None and not hosts.admits(former)):
        raise Refusal("forbidden", _ELSEWHERE)


def _host_of(namespace: NamespaceState, executor: str) -> str | None:
    """Where an executor is, or was when it went and said that it will be back."""
    record, kept = namespace.executors.get(executor), namespace.reservations.get(executor)
    if record is not None:
        return record.profile.host
    return None if kept is None else kept.host


def _check_incarnations_host(
    caller: Caller, namespace: NamespaceState, executor: str, incarnation: str
) -> None:
    """The same for what is said of an incarnation; who knows one that is over was it."""
    hosts = caller.hosts
    if not hosts or (executor, incarnation) in namespace.closed:
        return
    record = namespace.executors.get(executor)
    if record is None or not hosts.admits(record.profile.host):
        raise Refusal("forbidden", _ELSEWHERE)


def _profile(body: HeartbeatRequest) -> ExecutorProfile:
    is_leaving = body.status is ExecutorStatus.LEAVING
    for name, value in body.labels.items():
        if len(name.encode()) > LABEL_NAME_BYTES_MAX:
            raise invalid("labels", f"a name has more than {LABEL_NAME_BYTES_MAX} bytes")
        if len(value.encode()) > LABEL_VALUE_BYTES_MAX:
            raise invalid(f"labels.{name}", f"has more than {LABEL_VALUE_BYTES_MAX} bytes")
    return ExecutorProfile(
        host=body.host,
        address=body.address,
        zone=body.zone,
        capacity=max(body.capacity, CAPACITY_MIN),
        version=body.version,
        labels=tuple(sorted(body.labels.items())) if body.labels else (),
        status=body.status,
        # Of one that stays it says nothing; to refuse it would cost the lease of all its shards.
        back_within_s=(body.back_within_s or 0.0) if is_leaving else 0.0,
    )


def _signals(body: HeartbeatRequest) -> ProcessSignals | None:
    process = body.process
    if process is None:
        return None
    return ProcessSignals(process.cpu_cores, process.event_loop_lag_s, process.backlog)


def _check_keys(place: str, keys: Collection[str]) -> None:
    """Refuse what can be no shard's key, naming it: who sent it has to find it.

    Usual keys are looked at all at once; one after the other, they would cost as much as decoding.
    """
    together = "".join(keys)
    is_plain = together.isascii() and together.isprintable() and "" not in keys
    if is_plain and max(map(len, keys), default=0) <= KEY_BYTES_MAX:
        return
    for key in keys:
        fault = key_fault(key)
        if fault:
            raise invalid(place, f"the key {key[:64]!r} {fault}")


async def assignments(call: Call[None]) -> web.Response:
    """The full set of an incarnation; with a cursor, as soon as that set changes."""
    executor = call.executor
    incarnation = call.query.get("incarnation")
    if not incarnation:
        raise invalid("incarnation", "is missing")
    namespace = call.placed(call.namespace)
    _check_incarnations_host(call.caller, namespace, executor, incarnation)
    name = namespace.info.name
    cursor = call.cursor
    if cursor is not None:
        namespace = await level_with(call, name, cursor)
    _check_incarnation(namespace, executor, incarnation)
    if cursor is not None and _knows_all(call.desk, namespace, executor, cursor):
        if not await call.desk.polls.changed((name, executor), cursor.revision, call.wait_s):
            return web.Response(status=304, headers=call.freshness(namespace))
        namespace = call.placed(call.namespace_of(name))
        _check_incarnation(namespace, executor, incarnation)
    answer = AssignmentsAnswer(
        cursor=call.cursor_of(namespace),
        lease_ttl_s=namespace.info.policy.lease_ttl_s,
        assignments=[
            AssignmentRecord(key, epoch, state)
            for key, epoch, state in namespace.assignments(executor, incarnation)
        ],
    )
    return call.answer_read(answer, namespace)


def usual_assignments(asked: Asked) -> Wait | None:
    """Of an incarnation that knows its newest set and waits for the next one."""
    name, executor = asked.path["namespace"], asked.path["executor"]
    namespace, cursor = asked.placed(), asked.cursor
    if namespace is None or cursor is None:
        return None
    incarnation = asked.query["incarnation"]
    _check_incarnations_host(asked.caller, namespace, executor, incarnation)
    _check_incarnation(namespace, executor, incarnation)
    if cursor.revision > namespace.revision:
        return None  # this node has to catch up first
    if not _knows_all(asked.desk, namespace, executor, cursor):
        return None
    return Wait((name, executor), cursor.revision, asked.wait_s, namespace)


def _knows_all(desk: Desk, namespace: NamespaceState, executor: str, cursor: Cursor) -> bool:
    """Whether an executor with this cursor has its newest set."""
    is_new = cursor.standing(desk.cluster_id, namespace.revision) is Standing.NEW
    return not is_new and namespace.assignments_revision(executor) <= cursor.revision


def _check_incarnation(namespace: NamespaceState, executor: str, incarnation: str) -> None:
    """Refuse an incarnation that is over, and one this node knows nothing of."""
    cause = namespace.closed.get((executor, incarnation))
    if cause is not None:
        raise _over(executor, incarnation, cause)
    record = namespace.executors.get(executor)
    if record is None or record.incarnation != incarnation:
        # A follower may not have heard of it yet: the leader is asked before this is answered.
        raise Refusal(
            "executor_not_found", f"no incarnation {incarnation[:64]!r} of executor {executor!r}"
        )


def _over(executor: str, incarnation: str, cause: CloseCause) -> Refusal:
    return Refusal(
        "incarnation_closed",
        f"incarnation {incarnation!r} of executor {executor!r} is over: {cause}",
        cause=cause.value,
    )


async def acks(call: Call[AcksRequest]) -> web.Response:
    """Take an executor's word for what it has finished."""
    body, namespace = call.body, call.namespace
    _check_incarnations_host(call.caller, namespace, call.executor, body.incarnation)
    _check_keys("released", [claim.key for claim in body.released])
    _check_keys("prepared", [claim.key for claim in body.prepared])
    _check_keys("failed", [claim.key for claim in body.failed])
    command = Acknowledge(
        namespace=namespace.info.name,
        executor=call.executor,
        incarnation=body.incarnation,
        released=tuple(Claim(claim.key, claim.epoch) for claim in body.released),
        prepared=tuple(Claim(claim.key, claim.epoch) for claim in body.prepared),
        failed=tuple(Claim(claim.key, claim.epoch) for claim in body.failed),
        at_ms=call.desk.clock.wall_ms(),
    )
    outcome = await call.desk.replica.execute(command)
    if isinstance(outcome, Refused):
        raise refused(outcome)
    return call.answer(CursorAnswer(cursor=call.cursor_of(call.namespace)))


async def deregister(call: Call[None]) -> web.Response:
    """The executor has stopped everything and is gone. Saying so twice is saying it once."""
    executor, incarnation = call.executor, call.query.get("incarnation")
    if not incarnation:
        raise invalid("incarnation", "is missing")
    namespace = call.namespace
    _check_incarnations_host(call.caller, namespace, executor, incarnation)
    if namespace.closed.get((executor, incarnation)) is not CloseCause.LEFT:
        outcome = await call.desk.leader.leave(namespace.info.name, executor, incarnation)
        if isinstance(outcome, Refused):
            raise refused(outcome)
    return gone()


def gone(_: Any = None) -> web.Response:
    """It is no more."""
    return web.Response(status=204)
