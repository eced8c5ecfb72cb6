"""Mass failures: whether one is on, and the order to proceed in spite of it."""

from typing import Any

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.operators.news import AlarmView, MassFailureView
from coordinator.api.operators.orders import ordered
from coordinator.api.operators.records import ReasonRequest
from coordinator.api.problems import Refusal, refused
from coordinator.core.commands import Refused
from coordinator.core.controller.outage import proceed_command
from coordinator.core.namespace import NamespaceState


async def show(call: Call[None]) -> web.Response:
    """The alarm of a namespace, or that there is none."""
    return _shown(call)


async def proceed(call: Call[ReasonRequest]) -> web.Response:
    """Give up those that are silent now: their leases count again."""
    desk = call.desk
    found = desk.leader.view(call.namespace_name)
    if found is None:
        raise Refusal("namespace_not_found", f"no namespace {call.namespace_name!r}")
    namespace, mind = found
    command = proceed_command(
        namespace,
        mind,
        desk.clock.monotonic(),
        by=call.by,
        reason=call.body.reason,
        at_ms=desk.clock.wall_ms(),
    )
    if isinstance(command, Refused):
        raise refused(command)
    names = [one.executor for one in command.given_up]
    return await ordered(
        call,
        command,
        lambda _: _shown(call),
        would=f"give up {len(names)} silent executors of namespace {namespace.info.name}",
        shards=sum(len(namespace.owned(name)) for name in names),
    )


def _shown(call: Call[Any]) -> web.Response:
    namespace = call.namespace
    return call.answer_read(mass_failure(namespace), namespace)


def mass_failure(namespace: NamespaceState) -> MassFailureView:
    """The state of the guard."""
    alarm = namespace.info.mass_failure
    if alarm is None:
        return MassFailureView(
            namespace=namespace.info.name,
            state="none",
            since=None,
            silent=0,
            total=len(namespace.executors),
            executors=[],
            proceeded_at=None,
            by="",
            reason="",
            given_up=0,
        )
    return MassFailureView(
        namespace=namespace.info.name,
        state="holding" if alarm.is_holding else "proceeded",
        since=timestamp(alarm.since_ms),
        silent=alarm.silent,
        total=alarm.total,
        executors=list(alarm.executors),
        proceeded_at=None if alarm.proceeded_ms is None else timestamp(alarm.proceeded_ms),
        by=alarm.by,
        reason=alarm.reason,
        given_up=sum(record.given_up for record in namespace.executors.values()),
    )


def alarms_of(namespace: NamespaceState) -> list[AlarmView]:
    """What somebody should look at."""
    alarm = namespace.info.mass_failure
    if alarm is None:
        return []
    return [
        AlarmView(
            namespace=namespace.info.name,
            alarm="mass_failure",
            state="holding" if alarm.is_holding else "proceeded",
            since=timestamp(alarm.since_ms),
        )
    ]
