"""What each register of the real state may answer: one small model for each kind of key.

Decides what is possible one after the other. Knows the rules of pins, drains and moves as the API
tells them, not their code. Must not know nodes, clients or time.
"""

from typing import Any, Final, NamedTuple

from coordinator.core.commands import Applied, Outcome, Reason, Refused
from tests.sim.linearizable import UNKNOWN, Operation


class Pinned(NamedTuple):
    """A shard's pin; notes are never used twice."""

    executor: str | None
    note: str


class Owned(NamedTuple):
    """A shard's owner. `is_told`: its epoch was seen by a look-up already."""

    executor: str
    target: str | None
    epoch: int
    is_told: bool


UNPINNED: Final = Pinned(None, "")


def _is(result: Any, expected: Outcome) -> bool:
    return result is UNKNOWN or result == expected


def pinned(state: Pinned, operation: Operation) -> Pinned | None:
    """pin(executor, note), unpin(), read()."""
    match operation.name:
        case "pin":
            return Pinned(*operation.argument)
        case "unpin":
            return UNPINNED
        case _:
            return state if operation.result in (UNKNOWN, state) else None


def drained(state: str, operation: Operation) -> str | None:
    """drain(id), undrain(), read(): a second drain is the first one. "" is no drain."""
    result = operation.result
    match operation.name:
        case "drain":
            asked: str = operation.argument
            expected = Applied(resource=state or asked, created=not state)
            return (state or asked) if _is(result, expected) else None
        case "undrain":
            target: str = operation.argument
            expected = Applied(resource=state or target, count=1 if state else 0)
            return "" if _is(result, expected) else None
        case _:
            return state if result in (UNKNOWN, state) else None


def owned(state: Owned, operation: Operation) -> Owned | None:
    """move(target), release(executor, epoch), read(): owner, target and epoch."""
    match operation.name:
        case "move":
            return _moved(state, operation)
        case "release":
            return _released(state, operation)
        case _:
            return _read(state, operation)


def _moved(state: Owned, operation: Operation) -> Owned | None:
    target, result = operation.argument, operation.result
    is_refusal = isinstance(result, Refused) and result.reason is Reason.CONFLICT
    if state.target is not None and state.target != target:
        return state if result is UNKNOWN or is_refusal else None
    if result is not UNKNOWN and not isinstance(result, Applied):
        return None
    if target in (state.target, state.executor):
        return state
    return state._replace(target=target)


def _released(state: Owned, operation: Operation) -> Owned | None:
    (executor, epoch), result = operation.argument, operation.result
    # Who names an epoch has read it; what nobody has read yet is another one.
    is_current = state.is_told and (state.executor, state.epoch) == (executor, epoch)
    if not is_current or state.target is None:
        return state if _is(result, Applied(count=0)) else None
    if not _is(result, Applied(count=1)):
        return None
    return Owned(state.target, None, state.epoch, is_told=False)


def _read(state: Owned, operation: Operation) -> Owned | None:
    if operation.result is UNKNOWN:
        return state
    executor, target, epoch = operation.result
    is_possible = epoch == state.epoch if state.is_told else epoch > state.epoch
    if (executor, target) != (state.executor, state.target) or not is_possible:
        return None
    return Owned(executor, target, epoch, is_told=True)
