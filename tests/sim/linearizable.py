"""Is there one order of all operations that explains what every client was told?

Decides by Wing and Gong's search with Lowe's memory of what was tried already. Must not know what
the operations do: a model steps from state to state. An operation whose outcome nobody was told
may have taken effect at any time after its call, or never.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

STEPS_MAX: Final = 200_000
"""Of one search: a second. Histories of a few hundred operations take some thousands."""

UNKNOWN: Final = object()
"""The result of an operation whose outcome was not told."""

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a client on one key, and what came of it."""

    client: str
    name: str
    argument: Any
    called_s: float
    result: Any = UNKNOWN
    returned_s: float = math.inf

    def __str__(self) -> str:
        result = "?" if self.result is UNKNOWN else repr(self.result)
        span = f"{self.called_s:.4f}-{self.returned_s:.4f}"
        return f"{self.client} {self.name}({self.argument!r}) -> {result} [{span}]"


Model = Callable[[State, Operation], State | None]
"""The state after the operation, or None when it cannot have given its result in this state.

A result that is UNKNOWN is never impossible."""


class Undecided(Exception):  # noqa: N818 - says what came of the search
    """The search was given up; nothing was found so far."""


class _Entry:
    """A call or a return in the list of what is not ordered yet."""

    __slots__ = ("after", "before", "end", "number", "operation")

    def __init__(self, operation: Operation | None, number: int, end: "_Entry | None") -> None:
        self.operation = operation
        self.number = number
        self.end = end
        """Of a call: its return, if there was one."""
        self.before: _Entry | None = None
        self.after: _Entry | None = None


def explain(operations: Iterable[Operation], model: Model[State], initial: State) -> str | None:
    """None when the history is linearizable, else what cannot be ordered. Raises Undecided."""
    known = list(operations)
    head = _listed(known)
    left = sum(operation.result is not UNKNOWN for operation in known)
    state = initial
    done = 0
    tried: set[tuple[int, State]] = set()
    ordered: list[tuple[_Entry, State]] = []
    longest: tuple[int, Operation | None, State] = (-1, None, initial)
    entry = head.after
    steps = 0
    while left:
        steps += 1
        if steps > STEPS_MAX:
            raise Undecided(f"{len(known)} operations, {steps} steps")
        if entry is None:  # a return stands behind each call that is left
            raise AssertionError("the list has no end")
        if entry.operation is not None:
            after = model(state, entry.operation)
            bit = 1 << entry.number
            # Who was told nothing and changes nothing need not be ordered at all.
            is_idle = after == state and entry.operation.result is UNKNOWN
            if after is not None and not is_idle and (done | bit, after) not in tried:
                tried.add((done | bit, after))
                ordered.append((entry, state))
                state, done = after, done | bit
                left -= entry.operation.result is not UNKNOWN
                _lift(entry)
                entry = head.after
            else:
                entry = entry.after
            continue
        if len(ordered) > longest[0]:
            longest = (len(ordered), known[entry.number], state)
        if not ordered:
            break
        call, state = ordered.pop()
        done &= ~(1 << call.number)
        left += known[call.number].result is not UNKNOWN
        _lower(call)
        entry = call.after
    if not left:
        return None
    count, stuck, at = longest
    return f"after {count} of {len(known)} operations, in state {at!r}, nothing explains {stuck}"


def _listed(operations: list[Operation]) -> _Entry:
    """All calls and returns in the order of time; of equal times calls come first."""
    moments: list[tuple[float, int, _Entry]] = []
    for number, operation in enumerate(operations):
        end = None
        if operation.result is not UNKNOWN:
            end = _Entry(None, number, None)
            moments.append((operation.returned_s, 1, end))
        moments.append((operation.called_s, 0, _Entry(operation, number, end)))
    moments.sort(key=lambda moment: moment[:2])
    head = last = _Entry(None, -1, None)
    for _, _, entry in moments:
        last.after, entry.before = entry, last
        last = entry
    return head


def _lift(call: _Entry) -> None:
    """Takes a call and its return out."""
    for entry in (call, call.end):
        if entry is not None:
            if entry.before is not None:
                entry.before.after = entry.after
            if entry.after is not None:
                entry.after.before = entry.before


def _lower(call: _Entry) -> None:
    """Puts both back: the reverse of the last `_lift` that is not undone."""
    for entry in (call.end, call):
        if entry is not None:
            if entry.before is not None:
                entry.before.after = entry
            if entry.after is not None:
                entry.after.before = entry
