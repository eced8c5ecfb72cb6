"""Answers as bytes: JSON for everybody, msgpack for machines that ask for it."""

from typing import Final

import msgspec

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"

_to_json = msgspec.json.Encoder().encode
_to_msgpack = msgspec.msgpack.Encoder().encode


def encoded(record: object, *, as_msgpack: bool = False) -> bytes:
    """The bytes of a record."""
    return _to_msgpack(record) if as_msgpack else _to_json(record)
