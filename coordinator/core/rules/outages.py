"""A mass failure is raised, proceeded with, and over.

The alarm is state, so that every node shows it and a new leader keeps it. Who is silent is the
leader's to know; these rules keep its word.
"""

from dataclasses import replace

from coordinator.core.commands import (
    Applied,
    EndMassFailure,
    Outcome,
    ProceedMassFailure,
    RaiseMassFailure,
)
from coordinator.core.draft import Draft
from coordinator.core.events import EventKind
from coordinator.core.types import MassFailure


def raise_alarm(draft: Draft, command: RaiseMassFailure) -> Outcome:
    """Hold everything back; one that was proceeded with is raised anew by others' silence."""
    info = draft.base.info
    alarm = info.mass_failure
    if alarm is not None and alarm.is_holding:
        return Applied(resource=info.name)
    draft.info = replace(
        info,
        mass_failure=MassFailure(
            since_ms=command.at_ms,
            silent=command.silent,
            total=command.total,
            executors=command.executors,
        ),
    )
    draft.note(
        EventKind.MASS_FAILURE_RAISED,
        command.at_ms,
        detail=f"{command.silent} of {command.total} executors are silent",
    )
    return Applied(resource=info.name, created=True)


def proceed(draft: Draft, command: ProceedMassFailure) -> Outcome:
    """Give up those that are named; `count` says how many were not given up before.

    It holds for their incarnations and ends with the alarm. Without an alarm there is nothing to
    proceed with, and nothing changes.
    """
    info = draft.base.info
    alarm = info.mass_failure
    if alarm is None:
        return Applied(resource=info.name)
    count = 0
    for one in command.given_up:
        record = draft.executor(one.executor)
        if record is not None and record.incarnation == one.incarnation and not record.given_up:
            draft.executors[record.id] = replace(record, given_up=True)
            count += 1
    if count or alarm.is_holding:
        draft.info = replace(
            info,
            mass_failure=replace(
                alarm, proceeded_ms=command.at_ms, by=command.by, reason=command.reason
            ),
        )
        draft.note(
            EventKind.MASS_FAILURE_PROCEEDED,
            command.at_ms,
            by=command.by,
            reason=command.reason,
            detail=f"{count} executors are given up",
        )
    return Applied(resource=info.name, count=count)


def end_alarm(draft: Draft, command: EndMassFailure) -> Outcome:
    """Losses are losses again; whoever was given up and came back is counted on again."""
    info = draft.base.info
    if info.mass_failure is None:
        return Applied(resource=info.name)
    draft.info = replace(info, mass_failure=None)
    for record in draft.base.executors.values():
        if record.given_up:
            draft.executors[record.id] = replace(record, given_up=False)
    draft.note(EventKind.MASS_FAILURE_OVER, command.at_ms)
    return Applied(resource=info.name)
