"""Reading paths and query strings: names, keys, durations, booleans.

Decides which texts are well formed. It must not know which route asks.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote_to_bytes

from coordinator.api.problems import invalid
from coordinator.core.names import key_fault
from coordinator.settings import NAMESPACE_NAME

EXECUTOR_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
"""Executors and hosts. The class excludes whatever could break a log line or a header."""

IDEMPOTENCY_KEY: Final = re.compile(r"[\x20-\x7e]{1,128}")
"""Kept by every node for the last 10,000 orders, so its size is bounded."""

WAIT_MAX_S: Final = 300.0
"""The longest long poll: proxies and NATs forget connections that are silent for longer."""

INSTANT_PATTERN: Final = (
    r"([1-9][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(\.[0-9]{1,9})?Z"
)
"""RFC 3339 in UTC, as every time that is answered."""

_INSTANT: Final = re.compile(INSTANT_PATTERN)
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m)?")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


def namespace_name(text: str) -> str:
    """A namespace's name, or a refusal."""
    if not NAMESPACE_NAME.fullmatch(text):
        raise invalid("namespace", f"{text[:200]!r} does not match {NAMESPACE_NAME.pattern}")
    return text


def executor_id(text: str, path: str = "executor") -> str:
    """An executor's or a host's name, or a refusal."""
    if not EXECUTOR_ID.fullmatch(text):
        raise invalid(path, f"{text[:200]!r} does not match {EXECUTOR_ID.pattern}")
    return text


def shard_key(text: str, path: str = "key") -> str:
    """A shard key, or a refusal."""
    fault = key_fault(text)
    if fault:
        raise invalid(path, fault)
    return text


def raw_segment(raw_path: str, position: int) -> str:
    """A segment of a path as sent, percent-decoded strictly: two spellings never become one key."""
    segment = raw_path.split("/", position + 2)[position + 1]
    if "%" not in segment:
        return segment
    if _BROKEN_ESCAPE.search(segment):
        raise invalid("key", "has a % that starts no percent-encoding")
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("key", "is not UTF-8") from None


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """The key that makes an order's repetition harmless, None when absent; or a refusal."""
    key = headers.get("Idempotency-Key")
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise invalid("Idempotency-Key", "must be 1 to 128 printable ASCII characters")
    return key


def duration_s(text: str, path: str, *, upper_s: float) -> float:
    """Seconds of `30`, `30s`, `500ms` or `5m`, from 0 to `upper_s`, or a refusal."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise invalid(path, f"{text[:40]!r} is no duration such as 30, 30s, 500ms or 5m")
    seconds = float(found[1]) * _UNIT_S[found[2]]
    if not math.isfinite(seconds) or seconds > upper_s:
        raise invalid(path, f"must be at most {upper_s:g} s")
    return seconds


def wait_s(query: Mapping[str, str]) -> float:
    """How long a caller waits for news, in seconds; 0 when it does not say."""
    text = query.get("wait")
    return duration_s(text, "wait", upper_s=WAIT_MAX_S) if text else 0.0


def instant_ms(text: str, path: str) -> int:
    """Wall milliseconds of an RFC 3339 time in UTC, or a refusal.

    Total over its pattern: the 30th of February is two days after its 28th.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise invalid(path, f"{text[:40]!r} is no time such as 2026-11-30T12:00:00Z")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    begun = datetime(year, month, 1, hour, minute, second, tzinfo=UTC) + timedelta(days=day - 1)
    return round(begun.timestamp() * 1000) + int(float(f"0{found[7] or '.0'}") * 1000)


def moment_ms(query: Mapping[str, str], name: str) -> int | None:
    """The same of a parameter; None when it is absent."""
    text = query.get(name)
    return None if text is None else instant_ms(text, name)


def boolean(query: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """A flag that is `true` or `false`; anything else is a refusal."""
    text = query.get(name)
    if text is None:
        return default
    if text not in {"true", "false"}:
        raise invalid(name, f"{text[:40]!r} is neither true nor false")
    return text == "true"


def choice(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
    """One of the choices, None when absent; anything else is a refusal."""
    text = query.get(name)
    if text is not None and text not in choices:
        raise invalid(name, f"{text[:40]!r} is none of {', '.join(choices)}")
    return text


def whole(query: Mapping[str, str], name: str, *, default: int, lower: int, upper: int) -> int:
    """An integer within bounds, or a refusal."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and lower <= int(text) <= upper):
        raise invalid(name, f"must be a number from {lower} to {upper}")
    return int(text)
