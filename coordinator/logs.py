"""How events are written: one line each to stderr, text for people or JSON for machines.

Events are `name key=value …`; the JSON form splits them so that machines need not parse text.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final

_PAIR: Final = re.compile(r"(\w+)=(\S*)")
_LINE_CHARACTERS_MAX: Final = 4096
"""Longer lines are cut: an id or an error text from outside must not flood a log."""

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


class TextLines(logging.Formatter):
    """`12:00:00.123 INFO coordinator.leader event key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, traceback lines after it."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        line = f"{at} {record.levelname} {record.name} {_clean(record.getMessage())}"
        return (
            line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"
        )


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, event, and the event's pairs as fields."""
        message = _clean(record.getMessage())
        fields: dict[str, str] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": message.split(" ", 1)[0],
        }
        fields |= {f"{key}": value for key, value in _PAIR.findall(message) if key not in fields}
        fields["message"] = message
        if record.exc_info is not None:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def set_up_logs(level: str, form: str) -> None:
    """Send every logger of the process to stderr in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _clean(message: str) -> str:
    """Without control characters, so that nothing from outside can forge a line."""
    return message.translate(_CONTROL)[:_LINE_CHARACTERS_MAX]
