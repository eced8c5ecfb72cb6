"""Bytes of the replicated log and of snapshots: msgpack of the core's records, versioned.

An entry is `[format, tag, fields]`, with the format in which its command came to be. A command's
fields never change; what would change them is a new command of a new format. A
snapshot is a sequence of parts `[tag, fields]`, each of bounded work, so that a million shards are
written and read in slices. The core itself stays free of encodings.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from coordinator.core.balance_series import BalancePoint
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
from coordinator.core.events import Event
from coordinator.core.image import NamespaceImage
from coordinator.core.namespace import NamespaceState
from coordinator.core.orders import Cordon, Drain
from coordinator.core.saved_loads import SavedLoads, Sweep
from coordinator.core.shard import SHARD_FIELDS, Marks, Shard, values_of
from coordinator.core.state import ClusterImage, ClusterState, MovedMember
from coordinator.core.tenures import Tenure
from coordinator.core.types import CloseCause, Executor, Namespace, Reservation

FORMAT: Final = 1
"""The oldest of entries and snapshots. A change that an older node would misread is a newer one."""

_COMMANDS: Final[dict[str, type[Command]]] = {
    kind.__name__: kind for kind in (*get_args(ClusterCommand), *get_args(NamespaceCommand))
}
_ONCE: Final = "Once"


class UnknownFormatError(ValueError):
    """These bytes were written by a newer version, or are not ours at all."""


class MalformedError(UnknownFormatError):
    """These bytes are not ours: whoever reads this format refuses them alike."""


class NotReadableYetError(Exception):
    """Some member does not read this command: it may not be written yet."""


# Bytes nested a thousand deep are not ours either, and must not end the apply of any node.
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)

_encode = msgspec.msgpack.Encoder().encode
_envelope = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw])
_once = msgspec.msgpack.Decoder(tuple[str, str, str, msgspec.Raw])
_decoders: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in _COMMANDS.items()}


class Formats:
    """The commands of one version of the program, each with the format in which it came to be."""

    def __init__(self, commands: Mapping[type[Command], int]) -> None:
        self._since = {kind.__name__: since for kind, since in commands.items()}
        self.oldest = FORMAT
        self.newest = max(self._since.values())

    def encode(self, entry: Entry, readable: int) -> bytes:
        """Bytes for the log, if a member that reads up to format `readable` can read them."""
        command = entry.command if isinstance(entry, Once) else entry
        tag = type(command).__name__
        since = self._since[tag]
        if since > readable:
            raise NotReadableYetError(
                f"{tag} needs format {since}, and not every member is there and reads it: all can"
                f" read up to {readable}. Upgrade every node first"
            )
        if isinstance(entry, Once):
            return _encode((since, _ONCE, (entry.key, entry.digest, tag, command)))
        return _encode((since, tag, command))

    def decode(self, payload: bytes) -> tuple[int, Entry]:
        """The format and the entry in these bytes; UnknownFormatError if it cannot be read."""
        try:
            version, tag, body = _envelope.decode(payload)
            if not self.oldest <= version <= self.newest:
                raise UnknownFormatError(
                    f"entry format {version}, this version reads {self.oldest} to {self.newest}"
                )
            if tag == _ONCE:
                key, digest, tag, body = _once.decode(body)
                return version, Once(key=key, digest=digest, command=self._command(tag, body))
            return version, self._command(tag, body)
        except _UNREADABLE as error:
            raise MalformedError(f"not a readable entry: {error}") from error

    def _command(self, tag: str, body: msgspec.Raw) -> Command:
        if tag not in self._since:
            raise UnknownFormatError(f"unknown command {tag!r}")
        return _decoders[tag].decode(body)


FORMATS: Final = Formats(dict.fromkeys(_COMMANDS.values(), FORMAT))
"""Of this version."""


def encode_entry(entry: Entry) -> bytes:
    """Bytes for the log of a cluster in which every node is of this version."""
    return FORMATS.encode(entry, FORMATS.newest)


def decode_entry(payload: bytes) -> Entry:
    """The entry in these bytes; UnknownFormatError if this version cannot read it."""
    return FORMATS.decode(payload)[1]


# Snapshots.

SLICE_RECORDS: Final = 512
"""Records of one part: 1 ms of writing, 4 ms of reading, and 25 KB of common shards."""


class _Head(msgspec.Struct, frozen=True):
    """The first part."""

    format: int
    cluster_id: str
    next_epoch: int
    next_revision: int
    former_id: str = ""


class _OnceRow(msgspec.Struct, frozen=True):
    """A remembered request with one of the two outcomes."""

    key: str
    digest: str
    applied: Applied | None
    refused: Refused | None


class _Space(msgspec.Struct, frozen=True):
    """Begins a namespace: what follows up to the next one belongs to it."""

    info: Namespace
    revision: int
    forgotten: int = 0
    forgotten_ms: int | None = None


class _Chunk(msgspec.Struct, frozen=True):
    """Recorded loads, as they came in: by themselves, as one is as large as many records."""

    at_ms: int
    is_whole: bool
    """Of the last whole sweep, not of the one that is coming in."""
    chunk: bytes

    def behind(self, saved: SavedLoads) -> SavedLoads:
        """What there is with this chunk behind it."""
        before = saved.whole if self.is_whole else saved.coming
        chunks = (*(() if before is None else before.chunks), self.chunk)
        sweep = Sweep(self.at_ms, chunks)
        return replace(saved, whole=sweep) if self.is_whole else replace(saved, coming=sweep)


class _End(msgspec.Struct, frozen=True):
    """The last part."""

    parts: int


# Shards are by far the most records: rows without field names are a third the size.
_shard_hints = get_type_hints(Shard) | get_type_hints(Marks)
_ShardRow: Any = tuple[tuple(_shard_hints[name] for name in SHARD_FIELDS)]  # type: ignore[misc]

_Closed = tuple[str, str, CloseCause]
_PARTS: Final[dict[str, Any]] = {
    "head": _Head,
    "once": list[_OnceRow],
    "moved": list[MovedMember],
    "former": list[tuple[str, float]],
    "namespace": _Space,
    "executors": list[Executor],
    "drains": list[Drain],
    "cordons": list[Cordon],
    "closed": list[_Closed],
    "reservations": list[Reservation],
    "events": list[Event],
    "tenures": list[Tenure],
    "loads": _Chunk,
    "past": list[BalancePoint],
    "shards": list[_ShardRow],
    "end": _End,
}
_TABLES: Final = (
    "executors",
    "drains",
    "cordons",
    "closed",
    "reservations",
    "events",
    "tenures",
)
_part = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_part_decoders: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in _PARTS.items()}


def encode_snapshot(image: ClusterImage) -> Iterator[bytes]:
    """The parts of a snapshot; the same state gives the same bytes on every node."""
    count = 0
    for tag, body in _parts(image):
        yield _encode((tag, body))
        count += 1
    yield _encode(("end", _End(count)))


def _parts(image: ClusterImage) -> Iterator[tuple[str, Any]]:
    yield (
        "head",
        _Head(
            image.format,
            image.cluster_id,
            image.next_epoch,
            image.next_revision,
            image.former_id,
        ),
    )
    if image.moved:
        yield "moved", image.moved
    if image.former:
        yield "former", image.former
    for once in _slices(image.once):
        yield "once", [_remember(*entry) for entry in once]
    for namespace in image.namespaces:
        yield (
            "namespace",
            _Space(namespace.info, namespace.revision, namespace.forgotten, namespace.forgotten_ms),
        )
        for tag in _TABLES:
            for rows in _slices(getattr(namespace, tag)):
                yield tag, rows
        for is_whole, sweep in ((True, namespace.loads.whole), (False, namespace.loads.coming)):
            if sweep is not None:
                for chunk in sweep.chunks:
                    yield "loads", _Chunk(sweep.at_ms, is_whole, chunk)
        for points in _slices(namespace.loads.past):
            yield "past", points
        shards = map(values_of, namespace.shards)
        while rows := [*islice(shards, SLICE_RECORDS)]:
            yield "shards", rows


_Row = TypeVar("_Row")


def _slices(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    return (rows[at : at + SLICE_RECORDS] for at in range(0, len(rows), SLICE_RECORDS))


@dataclass(slots=True)
class _Reading:
    """What the parts so far have told, to a version that reads up to this format."""

    newest: int
    head: _Head | None = None
    once: list[tuple[str, str, Outcome]] = field(default_factory=list)
    moved: list[MovedMember] = field(default_factory=list)
    former: list[tuple[str, float]] = field(default_factory=list)
    namespaces: list[NamespaceState] = field(default_factory=list)
    names: dict[str | None, str | None] = field(default_factory=dict)
    parts: int = 0
    is_complete: bool = False

    def take(self, tag: str, body: Any) -> None:
        """The next part, of any kind but shards."""
        match tag:
            case "head" if self.head is not None:
                raise MalformedError("a second head")
            case "head" if FORMAT <= body.format <= self.newest:
                self.head = body
            case "head":
                raise UnknownFormatError(
                    f"snapshot format {body.format}, this version reads {FORMAT} to {self.newest}"
                )
            case "once":
                self.once += [(row.key, row.digest, _recall(row)) for row in body]
            case "moved" | "former":
                getattr(self, tag).extend(body)
            case "namespace":
                image = NamespaceImage(
                    *(body.info, body.revision, (), (), (), (), ()),
                    forgotten=body.forgotten,
                    forgotten_ms=body.forgotten_ms,
                )
                self.namespaces.append(NamespaceState.from_image(image))
            case "end":
                self.is_complete = body.parts == self.parts
            case "loads":
                self._namespace().loads = body.behind(self._namespace().loads)
            case "tenures":
                self._namespace().tenures.load(map(self._tenure, body))
            case "past":
                self._namespace().loads = self._namespace().loads.since(body)
            case "shards":
                self._namespace().load(map(self._shard, body))
            case _:
                self._namespace().load_others(**{tag: body})
        self.parts += 1

    def _namespace(self) -> NamespaceState:
        if not self.namespaces:
            raise MalformedError("records outside any namespace")
        return self.namespaces[-1]

    def _tenure(self, tenure: Tenure) -> Tenure:
        return tenure._replace(executor=self.names.setdefault(tenure.executor, tenure.executor))

    def _shard(self, row: Any) -> Shard:
        """One string for each executor instead of one for each shard: 60 MB of a million."""
        values = dict(zip(SHARD_FIELDS, row, strict=True))
        for of in ("executor", "previous", "reserved"):
            values[of] = self.names.setdefault(values[of], values[of])
        return Shard(**values)


def read_snapshot(
    parts: Iterable[bytes], newest: int = FORMATS.newest
) -> Generator[None, None, ClusterState]:
    """Reads one part a step into a state of its own, which it returns at the end.

    UnknownFormatError if they are corrupt, incomplete or newer.
    """
    reading = _Reading(newest)
    for part in parts:
        try:
            tag, raw = _part.decode(part)
            decoder = _part_decoders.get(tag)
            if decoder is None or (reading.head is None and tag != "head") or reading.is_complete:
                raise MalformedError(f"an unexpected part {tag!r}")
            reading.take(tag, decoder.decode(raw))
        except _UNREADABLE as error:
            raise MalformedError(f"not a readable snapshot: {error}") from error
        yield
    head = reading.head
    if head is None or not reading.is_complete:
        raise MalformedError("not the whole of a snapshot")
    image = ClusterImage(
        cluster_id=head.cluster_id,
        next_epoch=head.next_epoch,
        next_revision=head.next_revision,
        once=tuple(reading.once),
        namespaces=(),
        moved=tuple(reading.moved),
        former=tuple(reading.former),
        former_id=head.former_id,
        format=head.format,
    )
    return ClusterState.of(image, reading.namespaces)


def decode_snapshot(parts: Iterable[bytes]) -> ClusterState:
    """The state in these parts, at once."""
    reading = read_snapshot(parts)
    while True:
        try:
            next(reading)
        except StopIteration as done:
            state: ClusterState = done.value
            return state


def _remember(key: str, digest: str, outcome: Outcome) -> _OnceRow:
    if isinstance(outcome, Applied):
        return _OnceRow(key, digest, outcome, None)
    return _OnceRow(key, digest, None, outcome)


def _recall(row: _OnceRow) -> Outcome:
    outcome = row.applied or row.refused
    if outcome is None:
        raise MalformedError("a remembered request without an outcome")
    return outcome
