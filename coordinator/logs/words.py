"""What a log record says: its event and the event's fields, from the template and its arguments.

Events are written as `log.info("leader_elected node=%s term=%d", name, term)`. The template names
the fields, so values need not be found again in a text, whatever spaces or signs they hold. Decides
also what no line may carry: control characters, credentials, and more than a line's worth.
"""

import logging
import re
from dataclasses import dataclass
from typing import Final

OWN: Final = "coordinator"
"""Loggers below this one write events; others write sentences."""

VALUE_CHARACTERS_MAX: Final = 1024
"""Longer values are cut: an id or an error text from outside must not flood a log."""

_SPEC: Final = re.compile(r"(?:(\w+)=)?(%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    code: f"\\u{code:04x}"
    for code in (
        *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),
        *range(0x202A, 0x202F),  # these make a terminal show a line in another order than it has
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),  # halves of a character: no file takes them
    )
}
_SECRET: Final = re.compile(r"shc_[A-Za-z0-9_-]+|(?i:(?<=bearer )|(?<=basic ))\S+")
"""Tokens, and what follows the name of a scheme: a malformed header may come back in an error."""

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Words:
    """One record, taken apart."""

    event: str
    """Its name; of a sentence, its first word."""
    fields: dict[str, Value]
    text: str
    """What people read."""


def words_of(record: logging.LogRecord) -> Words:
    """The event, its fields and its text, all clean."""
    args = record.args if isinstance(record.args, tuple) else ()
    if record.name.split(".", 1)[0] == OWN and isinstance(record.msg, str):
        found = _event(record.msg, args)
        if found is not None:
            return found
    text = clean(record.getMessage())
    return Words(text.split(" ", 1)[0], {}, text)


def clean(text: str) -> str:
    """Without control characters, so that nothing from outside can forge a line; no secrets."""
    if len(text) > VALUE_CHARACTERS_MAX:
        text = text[:VALUE_CHARACTERS_MAX] + "..."
    return without_secrets(text.translate(_CONTROL))


def without_secrets(text: str) -> str:
    """The same with what looks like a credential taken out."""
    return _SECRET.sub("[removed]", text)


def quoted(value: Value) -> str:
    """A value as text lines show it: in quotes if it would not stay one word."""
    text = str(value)
    if text and not re.search(r"[\s\"'=]", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _event(template: str, args: tuple[object, ...]) -> Words | None:
    """The fields of an event; None if template and arguments do not fit."""
    specs = list(_SPEC.finditer(template))
    if len(specs) != len(args) or template.count("%") != len(specs):
        return None
    fields: dict[str, Value] = {}
    parts: list[str] = []
    last = 0
    for spec, arg in zip(specs, args, strict=True):
        parts.append(template[last : spec.start()])
        value = _value(spec[2], arg)
        if spec[1] is None:
            parts.append(str(value))
        else:
            fields[spec[1]] = value
            parts.append(f"{spec[1]}={quoted(value)}")
        last = spec.end()
    text = without_secrets("".join([*parts, template[last:]]))
    return Words(text.split(" ", 1)[0], fields, text)


def _value(spec: str, arg: object) -> Value:
    """Numbers stay numbers, as exact as the template wants them."""
    if isinstance(arg, int) and type(arg) in (bool, int):  # others have names of their own
        return arg
    if isinstance(arg, float) and spec[-1] in "feg":
        return float(spec % arg)
    return clean(str(arg))
