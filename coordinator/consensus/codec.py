"""Bytes on the wire: msgpack with a closed set of types and messages.

Decides what may be read at all. Must not know sockets, PySyncObj or the meaning of a message.
Nothing here can run code: no extension types, no timestamps, no classes.
"""

from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import msgpack

FRAME_BYTES_MAX: Final = 8 << 20
"""Above the largest append: a 2 MiB batch, its last entry of 1 MiB, and the entries' framing."""
FRAME_HEADER_BYTES: Final = 4
HANDSHAKE_BYTES_MAX: Final = 16 << 10
"""A stranger may make us hold this much: a hello that tells of every moved member."""

SCAN_BYTES: Final = 64 << 10
"""Longer data is walked through before anything is made of it, for a twelfth of what that takes."""
NUMBER_MAX: Final = 1 << 62
"""Terms and indexes; one more of them must still fit a message."""
NAMES_MAX: Final = 64
TEXT_MAX: Final = 512

Message = dict[str, Any]


class Malformed(Exception):  # noqa: N818 - names what the bytes are
    """Bytes that this format does not allow."""


_INT = (int,)
_BOOL = (bool,)
_BYTES = (bytes,)
_STR = (str,)
_MAP = (dict,)
_NONE = type(None)

# Message type -> its required fields. Fields that are not named here are refused.
FIELDS: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "append_entries": {"term": _INT, "commit_index": _INT},
    "next_node_idx": {"next_node_idx": _INT, "reset": _BOOL, "success": _BOOL},
    "request_vote": {"term": _INT, "last_log_index": _INT, "last_log_term": _INT},
    "response_vote": {"term": _INT},
    "timeout_now": {"term": _INT},
    "apply_command": {"command": _BYTES},
    "apply_command_response": {"request_id": _INT},
    "higher_term": {"term": _INT},
    "pre_vote": {"term": _INT, "round": _INT, "last_log_index": _INT, "last_log_term": _INT},
    "pre_vote_ok": {"term": _INT, "round": _INT},
    "rejoin": {"nonce": _STR, "views": _MAP},
    "rejoin_ack": {
        "nonce": _STR,
        "own": _STR,
        "term": _INT,
        "fresh": _BOOL,
        "admitted": _BOOL,
        "views": _MAP,
    },
    "proceed": {"nonces": _MAP},
    "admitted": {},
    "outdated": {},
    "probe": {"id": _INT, "term": _INT},
    "probe_ack": {"id": _INT, "term": _INT},
    "ping": {},
}
OPTIONAL: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "append_entries": {
        "entries": (tuple,),
        "prevLogIdx": (int, _NONE),
        "prevLogTerm": (int, _NONE),
        "serialized": (tuple, _NONE),
        "transmission": _STR,
        "data": _BYTES,
    },
    "apply_command": {"request_id": _INT},
    "apply_command_response": {"error": _INT, "log_idx": _INT, "log_term": _INT},
    "rejoin_ack": {"adopts": _BOOL},
    "request_vote": {"transfer": _BOOL},
    "admitted": {"nonce": _STR},
    "ping": {"moved": _MAP},
}
NAMED: Final = {"rejoin": "views", "rejoin_ack": "views", "proceed": "nonces"}
"""Maps of a member's name to its nonce."""
_STAMP: Final = {"type": _STR, "stamp": _INT}


def pack(value: object) -> bytes:
    """The value as msgpack; TypeError for anything but plain data."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def unpack(data: bytes | memoryview) -> Any:
    """Plain data; arrays are tuples because the library compares log entries as tuples."""
    try:
        if len(data) > SCAN_BYTES:
            # Lengths that lie, nested in each other, would take a second and 200 MB of a frame.
            scanner = msgpack.Unpacker(max_buffer_size=len(data))
            scanner.feed(data)
            scanner.skip()
        return msgpack.unpackb(
            data, use_list=False, strict_map_key=True, max_ext_len=0, ext_hook=_refuse_extension
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise Malformed(f"not a frame: {type(error).__name__}") from error


def _refuse_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


def decode_message(data: bytes | memoryview) -> Message:
    """One message of the closed set with the fields it must have; raises Malformed."""
    message = unpack(data)
    if type(message) is not dict:
        raise Malformed("a message is a map")
    kind = message.get("type")
    required = FIELDS.get(kind) if isinstance(kind, str) else None
    if required is None or not isinstance(kind, str):
        raise Malformed("unknown message type")
    for field, kinds in required.items():
        value = message.get(field, ...)
        if type(value) not in kinds or (kinds is _INT and not 0 <= value <= NUMBER_MAX):
            raise Malformed(f"{kind}.{field} is missing or of a wrong type")
    if len(message) > len(required) + 1:
        _check_optional(kind, message, required)
    if kind == "append_entries":
        _check_append(message)
    elif kind in NAMED:
        _check_names(kind, message[NAMED[kind]])
    return message


def _check_optional(kind: str, message: Message, required: Mapping[str, Any]) -> None:
    allowed = OPTIONAL.get(kind, {})
    for field, value in message.items():
        if field in required:
            continue
        kinds = _STAMP.get(field) or allowed.get(field)
        if (
            kinds is None
            or type(value) not in kinds
            or (type(value) is int and not 0 <= value <= NUMBER_MAX)
        ):
            raise Malformed(f"{kind}.{str(field)[:32]} is not expected or of a wrong type")


def _check_append(message: Message) -> None:
    for entry in message.get("entries", ()):
        if (
            type(entry) is not tuple
            or len(entry) != 3
            or type(entry[0]) is not bytes
            or type(entry[1]) is not int
            or type(entry[2]) is not int
            or not entry[0]
            or not 0 <= entry[1] <= NUMBER_MAX
            or not 0 <= entry[2] <= NUMBER_MAX
        ):
            raise Malformed("an entry is (command, index, term)")
    chunk = message.get("serialized")
    if chunk is not None and tuple(map(type, chunk)) != (bytes, bool, bool):
        raise Malformed("a chunk is (data, is_first, is_last)")


def _check_names(kind: str, names: Message) -> None:
    if len(names) > NAMES_MAX or not all(
        type(name) is str and type(nonce) is str and len(name) + len(nonce) <= TEXT_MAX
        for name, nonce in names.items()
    ):
        raise Malformed(f"{kind}: names and nonces are short strings")


class PickleStandIn:
    """Stands where the library imports its pickle module, so that no pickle is ever read."""

    @staticmethod
    def dumps(value: object, _protocol: int | None = None) -> bytes:
        """The value as bytes of this codec."""
        return pack(value)

    @staticmethod
    def loads(data: bytes) -> Any:
        """Plain data only."""
        return unpack(data)

    @staticmethod
    def dump(value: object, file: BinaryIO, _protocol: int | None = None) -> None:
        """Writes `dumps` to a file."""
        file.write(pack(value))

    @staticmethod
    def load(file: BinaryIO) -> Any:
        """Reads what `dump` wrote."""
        return unpack(file.read())

    @staticmethod
    def to_bytes(data: str | bytes) -> bytes:
        """The library asks for this with its chunks."""
        return data.encode() if isinstance(data, str) else data
