"""What each command does to a namespace: one pure function a command, all in one table.

A rule reads the namespace, writes into a `Draft` and gives an `Outcome`; the draft counts only if
the outcome is `Applied`. So the same function serves the replicated log and a dry run.
"""

from typing import assert_never

from coordinator.core import commands as c
from coordinator.core.draft import Draft
from coordinator.core.rules import (
    claims,
    executors,
    expiry,
    handoffs,
    loads,
    operators,
    outages,
    poisoned,
    reservations,
    shards,
    undo,
)


def decide(draft: Draft, command: c.NamespaceCommand) -> c.Outcome:
    """Write what `command` changes into `draft`, or say why it may not be."""
    if isinstance(command, c.ExecutorCommand):
        return _of_executors(draft, command)
    if isinstance(command, c.HandoffCommand):
        return _of_handoffs(draft, command)
    if isinstance(command, c.ShardCommand):
        return _of_shards(draft, command)
    if isinstance(command, c.OutageCommand):
        return _of_outages(draft, command)
    return _of_orders(draft, command)


def _of_executors(draft: Draft, command: c.ExecutorCommand) -> c.Outcome:
    match command:
        case c.JoinExecutor():
            return executors.join(draft, command)
        case c.UpdateExecutor():
            return executors.update(draft, command)
        case c.InheritShards():
            return executors.inherit(draft, command)
        case c.EvictExecutor():
            return executors.evict(draft, command)
        case c.CloseIncarnation():
            return executors.close(draft, command)
        case c.ContinueEnding():
            return executors.continue_ending(draft, command)
        case c.EndReservation():
            return reservations.end(draft, command)
        case c.AdoptClaims():
            return claims.adopt(draft, command)
        case c.CloseWindow():
            return claims.close_window(draft, command)
        case _:
            assert_never(command)


def _of_handoffs(draft: Draft, command: c.HandoffCommand) -> c.Outcome:
    match command:
        case c.AssignShards():
            return handoffs.assign(draft, command)
        case c.StartHandoffs():
            return handoffs.start(draft, command)
        case c.AbortHandoffs():
            return handoffs.abort(draft, command)
        case c.MarkOverdue():
            return handoffs.mark_overdue(draft, command)
        case c.FinishOverdue():
            return handoffs.finish_overdue(draft, command)
        case c.Acknowledge():
            return handoffs.acknowledge(draft, command)
        case c.MoveShard():
            return handoffs.move(draft, command)
        case _:
            assert_never(command)


def _of_shards(draft: Draft, command: c.ShardCommand) -> c.Outcome:
    match command:
        case c.DeclareShards():
            return shards.declare(draft, command)
        case c.RetireShard():
            return shards.retire(draft, command)
        case c.ParkShard():
            return shards.park(draft, command)
        case c.UnparkShard():
            return shards.unpark(draft, command)
        case c.ParkPoison() | c.ForgetStrikes():
            return poisoned.conclude(draft, command)
        case c.NoteStrays():
            return shards.note_strays(draft, command)
        case c.PinShard():
            return shards.pin(draft, command)
        case c.UnpinShard():
            return shards.unpin(draft, command)
        case c.RecordLoads():
            return loads.record(draft, command)
        case _:
            assert_never(command)


def _of_outages(draft: Draft, command: c.OutageCommand) -> c.Outcome:
    match command:
        case c.RaiseMassFailure():
            return outages.raise_alarm(draft, command)
        case c.ProceedMassFailure():
            return outages.proceed(draft, command)
        case c.EndMassFailure():
            return outages.end_alarm(draft, command)
        case _:
            assert_never(command)


def _of_orders(draft: Draft, command: c.OrderCommand) -> c.Outcome:
    match command:
        case c.SetPolicy():
            return operators.set_policy(draft, command)
        case c.SettleLease():
            return operators.settle_lease(draft, command)
        case c.StartDrain():
            return operators.start_drain(draft, command)
        case c.EndDrain():
            return operators.end_drain(draft, command)
        case c.StartCordon():
            return operators.start_cordon(draft, command)
        case c.EndCordon():
            return operators.end_cordon(draft, command)
        case c.PauseBalancer():
            return operators.pause(draft, command)
        case c.ResumeBalancer():
            return operators.resume(draft, command)
        case c.FinishDrains() | c.ExpireOrders():
            return expiry.conclude(draft, command)
        case c.UndoOrder():
            return undo.undo(draft, command)
        case _:
            assert_never(command)
