"""What a record happened in: the node with its term and revision, and the request that led to it.

Decides what is bound and for how long: a request's id until its answer, in every task that its
handler starts. Must not know requests or nodes; they say what is to be bound.
"""

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final

from coordinator.logs.words import Value

REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id")
"""Set by who serves a request."""

TRACE_ID: Final[ContextVar[str]] = ContextVar("trace_id")
"""Of a caller that traces (W3C `traceparent`); empty when it does not."""


def nothing() -> Mapping[str, Value]:
    """Before there is a node."""
    return {}


class Binding(logging.Filter):
    """Puts on each record what holds at this moment: later, in the line's making, it may not."""

    def __init__(self, node: Callable[[], Mapping[str, Value]] = nothing) -> None:
        super().__init__()
        self._node = node
        self._is_asking = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Never drops anything."""
        fields: dict[str, Value] = {}
        request_id, trace_id = REQUEST_ID.get(""), TRACE_ID.get("")
        if request_id:
            fields["request_id"] = request_id
        if trace_id:
            fields["trace_id"] = trace_id
        if not self._is_asking:  # what tells of the node may itself log
            self._is_asking = True
            try:
                fields |= self._node()
            finally:
                self._is_asking = False
        record.bound = fields
        return True


def bound(record: logging.LogRecord) -> Mapping[str, Value]:
    """What a record was bound to."""
    return getattr(record, "bound", {})
