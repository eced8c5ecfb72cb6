"""How a node writes its log: one line an event to stderr, bounded, without secrets.

Every logger of the process goes the same way, the libraries' too.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Final

from coordinator.logs.context import REQUEST_ID, TRACE_ID, Binding, nothing
from coordinator.logs.lines import JsonLines, TextLines
from coordinator.logs.repeats import Repeats
from coordinator.logs.words import Value

__all__ = ["REPEATS", "REQUEST_ID", "TRACE_ID", "set_up_logs"]

REPEATS: Final = Repeats()
"""One for the process, as its loggers are: a reload forgets nothing of what was counted."""


def set_up_logs(level: str, form: str, node: Callable[[], Mapping[str, Value]] = nothing) -> None:
    """Send every logger of the process to stderr in one form; `node` says what lines happen in."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(REPEATS)
    handler.addFilter(Binding(node))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
