"""Bodies as records: which media are understood, and what is said of a body that is none.

Decides nothing about what a record means. It must not know any single route.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import hdrs

from coordinator.api.encoding import JSON, MSGPACK
from coordinator.api.problems import Refusal, invalid

_AT: Final = re.compile(r"(.*?)(?: - at (?:key in )?`\$\.?(.*)`)?", re.DOTALL)
_FromJson = msgspec.json.Decoder[Any]
_FromMsgpack = msgspec.msgpack.Decoder[Any]

Decode = Callable[[Mapping[str, str], bytes], Any]
"""Makes the record of a body, given the header it came under; or refuses."""


def decoder(
    record: type | None, *, has_msgpack: bool, is_optional: bool, is_order: bool
) -> Decode | None:
    """What makes such records of bodies; None for a route without one."""
    if record is None:
        return None
    from_json: _FromJson = msgspec.json.Decoder(record)
    from_msgpack: _FromMsgpack | None = msgspec.msgpack.Decoder(record) if has_msgpack else None

    def decode(headers: Mapping[str, str], payload: bytes) -> Any:
        if not payload and is_optional:
            payload, media = b"{}", JSON
        else:
            media = headers.get(hdrs.CONTENT_TYPE, "")
        try:
            if media == JSON or _is_json(media):
                body = from_json.decode(payload)
                if is_order and payload.count(b":") > 1:  # a single key cannot be doubled
                    json.loads(payload, object_pairs_hook=_once_each)
                return body
            if from_msgpack is not None and media == MSGPACK:
                return from_msgpack.decode(payload)
        except msgspec.ValidationError as fault:
            raise _misplaced(str(fault)) from None
        except (msgspec.DecodeError, RecursionError, ValueError) as fault:
            raise invalid("body", str(fault) or type(fault).__name__) from None
        raise Refusal(
            "unsupported_media",
            f"{media[:100] or 'no Content-Type'}: send {JSON}"
            + (f" or {MSGPACK}" if from_msgpack is not None else ""),
        )

    return decode


def _misplaced(told: str) -> Refusal:
    found = _AT.fullmatch(told)
    path, message = (found[2] or "body", found[1]) if found else ("body", told)
    return invalid(path, message.replace("`", "'"))


def _is_json(media: str) -> bool:
    kind, _, rest = media.partition(";")
    if kind.strip().lower() != JSON:
        return False
    charset = rest.strip().lower().replace('"', "")
    return charset in {"", "charset=utf-8", "charset=utf8"}


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:100]!r} stands twice in one object")
    return table
