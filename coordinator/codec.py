"""Bytes of the replicated log and of snapshots: msgpack of the core's records, versioned.

An entry is `[format, tag, fields]`; a node refuses a format or a tag that it does not know. The
core itself stays free of encodings.
"""

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final, get_args, get_type_hints

import msgspec

from coordinator.core.commands import (
    Applied,
    ClusterCommand,
    Command,
    Entry,
    NamespaceCommand,
    Once,
    Outcome,
    Refused,
)
from coordinator.core.namespace import NamespaceImage
from coordinator.core.state import ClusterImage, ClusterState
from coordinator.core.types import CloseCause, Cordon, Drain, Executor, Namespace, Shard

FORMAT: Final = 1
"""Of entries and snapshots. A change that an older node would misread raises it."""

_COMMANDS: Final[dict[str, type[Command]]] = {
    kind.__name__: kind for kind in (*get_args(ClusterCommand), *get_args(NamespaceCommand))
}
_ONCE: Final = "Once"


class UnknownFormatError(ValueError):
    """These bytes were written by a newer version, or are not ours at all."""


# Bytes nested a thousand deep are not ours either, and must not end the apply of any node.
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)

_encode = msgspec.msgpack.Encoder().encode
_envelope = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw])
_once = msgspec.msgpack.Decoder(tuple[str, str, str, msgspec.Raw])
_decoders: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in _COMMANDS.items()}


def encode_entry(entry: Entry) -> bytes:
    """Bytes for the log."""
    if isinstance(entry, Once):
        command = entry.command
        body: Any = (entry.key, entry.digest, type(command).__name__, command)
        return _encode((FORMAT, _ONCE, body))
    return _encode((FORMAT, type(entry).__name__, entry))


def decode_entry(payload: bytes) -> Entry:
    """The entry in these bytes; UnknownFormatError if this version cannot read it."""
    try:
        version, tag, body = _envelope.decode(payload)
        if version != FORMAT:
            raise UnknownFormatError(f"entry format {version}, this version reads {FORMAT}")
        if tag == _ONCE:
            key, digest, tag, body = _once.decode(body)
            return Once(key=key, digest=digest, command=_decode_command(tag, body))
        return _decode_command(tag, body)
    except _UNREADABLE as error:
        raise UnknownFormatError(f"not a readable entry: {error}") from error


def _decode_command(tag: str, body: msgspec.Raw) -> Command:
    decoder = _decoders.get(tag)
    if decoder is None:
        raise UnknownFormatError(f"unknown command {tag!r}")
    return decoder.decode(body)


# Shards are by far the most records of a snapshot: rows without field names are a third the size.
_SHARD_FIELDS: Final = tuple(f.name for f in fields(Shard))
_shard_values = attrgetter(*_SHARD_FIELDS)
_shard_hints = get_type_hints(Shard)
_ShardRow: Any = msgspec.defstruct(
    "_ShardRow", [(name, _shard_hints[name]) for name in _SHARD_FIELDS], array_like=True
)


@dataclass(frozen=True, slots=True)
class _OnceRow:
    key: str
    digest: str
    applied: Applied | None
    refused: Refused | None


@dataclass(frozen=True, slots=True)
class _NamespaceRow:
    info: Namespace
    revision: int
    shards: tuple[_ShardRow, ...]
    executors: tuple[Executor, ...]
    drains: tuple[Drain, ...]
    cordons: tuple[Cordon, ...]
    closed: tuple[tuple[str, str, CloseCause], ...]


@dataclass(frozen=True, slots=True)
class _SnapshotRow:
    format: int
    cluster_id: str
    next_epoch: int
    next_revision: int
    once: tuple[_OnceRow, ...]
    namespaces: tuple[_NamespaceRow, ...]


_snapshot_decoder = msgspec.msgpack.Decoder(_SnapshotRow)


def encode_snapshot(image: ClusterImage) -> bytes:
    """Bytes of a snapshot; the same state gives the same bytes on every node."""
    return _encode(
        _SnapshotRow(
            format=FORMAT,
            cluster_id=image.cluster_id,
            next_epoch=image.next_epoch,
            next_revision=image.next_revision,
            once=tuple(_remember(*entry) for entry in image.once),
            namespaces=tuple(_namespace_row(n) for n in image.namespaces),
        )
    )


def decode_snapshot(data: bytes) -> ClusterState:
    """The state in these bytes; UnknownFormatError if they are corrupt or newer."""
    try:
        row = _snapshot_decoder.decode(data)
    except _UNREADABLE as error:
        raise UnknownFormatError(f"not a readable snapshot: {error}") from error
    if row.format != FORMAT:
        raise UnknownFormatError(f"snapshot format {row.format}, this version reads {FORMAT}")
    return ClusterState.from_image(
        ClusterImage(
            cluster_id=row.cluster_id,
            next_epoch=row.next_epoch,
            next_revision=row.next_revision,
            once=tuple((r.key, r.digest, _recall(r)) for r in row.once),
            namespaces=tuple(_namespace_image(n) for n in row.namespaces),
        )
    )


def _remember(key: str, digest: str, outcome: Outcome) -> _OnceRow:
    if isinstance(outcome, Applied):
        return _OnceRow(key, digest, outcome, None)
    return _OnceRow(key, digest, None, outcome)


def _recall(row: _OnceRow) -> Outcome:
    outcome = row.applied or row.refused
    if outcome is None:
        raise UnknownFormatError("a remembered request without an outcome")
    return outcome


def _namespace_row(image: NamespaceImage) -> _NamespaceRow:
    return _NamespaceRow(
        info=image.info,
        revision=image.revision,
        shards=tuple(_ShardRow(*_shard_values(shard)) for shard in image.shards),
        executors=image.executors,
        drains=image.drains,
        cordons=image.cordons,
        closed=image.closed,
    )


def _namespace_image(row: _NamespaceRow) -> NamespaceImage:
    return NamespaceImage(
        info=row.info,
        revision=row.revision,
        shards=tuple(
            Shard(**dict(zip(_SHARD_FIELDS, _shard_values(shard), strict=True)))
            for shard in row.shards
        ),
        executors=row.executors,
        drains=row.drains,
        cordons=row.cordons,
        closed=row.closed,
    )
