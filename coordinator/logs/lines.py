"""How a record becomes a line: text for people, JSON for machines."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from coordinator.logs.context import bound
from coordinator.logs.words import Value, quoted, without_secrets, words_of

TRACEBACK_CHARACTERS_MAX = 16_384
"""A deep recursion's traceback is a thousand times the same lines."""


class TextLines(logging.Formatter):
    """`12:00:00.123 INFO coordinator.leader event key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, traceback lines after it."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        words = words_of(record)
        asked = {key: value for key, value in bound(record).items() if key not in words.fields}
        # The file's name says which node; of the rest, only who asked is not plain to see.
        more = "".join(
            f" {key}={quoted(asked[key])}" for key in ("request_id", "trace_id") if key in asked
        )
        line = f"{at} {record.levelname} {record.name} {words.text}{more}"
        if record.exc_info is None:
            return line
        # None of its lines may be taken for an event, whatever an error's text says.
        below = (f"  | {one}" for one in _traceback(self, record).splitlines())
        return "\n".join([line, *below])


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, event, then the event's fields and what it happened in."""
        words = words_of(record)
        fields: dict[str, Value] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": words.event,
        }
        for more in (words.fields, bound(record)):
            _add(fields, more)
        fields["message"] = words.text
        if record.exc_info is not None:
            fields["traceback"] = _traceback(self, record)
        return json.dumps(fields, ensure_ascii=False)


def _add(fields: dict[str, Value], more: Mapping[str, Value]) -> None:
    """What an event says itself comes before what it happened in."""
    for key, value in more.items():
        fields.setdefault(key, value)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info is None:
        return ""
    text = formatter.formatException(record.exc_info)
    if len(text) > TRACEBACK_CHARACTERS_MAX:
        half = TRACEBACK_CHARACTERS_MAX // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return without_secrets(text)
