"""Smoothed loads as the log keeps them, so that a new leader starts with what the former knew.

Decides how loads become bytes and which of them are kept: a sweep goes through all shards in
chunks and counts once its last one has come, until then the one before does. No rule ever reads
what is in a chunk; only a leader does, and one that cannot be read costs it the loads in it. Must
not know when sweeps are made.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from coordinator.core.balance_series import BalancePoint

CHUNK_BYTES: Final = 16 * 1024
"""Of names and figures before they are compressed: some 1,000 shards, packed or read in 2 ms, in 5
by a processor that has had other things to do."""

CHUNK_BYTES_MAX: Final = 256 * 1024
"""No command that records loads is larger."""

CHUNKS_MAX: Final = 4096
"""Of one sweep: a million shards with names of 60 bytes. What is beyond it is not recorded."""

_COUNT: Final = struct.Struct("<I")
_FIGURE_BYTES: Final = 6
"""The mean as a float of 4 bytes, 7 digits; the weight in 65,535ths, as it needs fewer."""

_WEIGHT_ONE: Final = 0xFFFF
_UNPACKED_MAX: Final = 2 * CHUNK_BYTES_MAX

Entry = tuple[str, float, float]
"""A shard's key, its mean load, and the weight of what was observed, above 0 and up to 1."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Once through all shards."""

    at_ms: int
    """Wall clock of its beginning: tells it from others, and how old it is."""
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SavedLoads:
    """The last whole sweep of a namespace, the one that is coming in, and how even it has been."""

    whole: Sweep | None = None
    coming: Sweep | None = None
    past: tuple[BalancePoint, ...] = ()
    """One point of each sweep, oldest first."""

    def since(self, points: Iterable[BalancePoint]) -> "SavedLoads":
        """The same with later points."""
        return replace(self, past=(*self.past, *points))


def entry_bytes(key: str) -> int:
    """How much a shard takes in a chunk, at most."""
    return (len(key) if key.isascii() else len(key.encode())) + 1 + _FIGURE_BYTES


def packed(entries: Sequence[Entry]) -> bytes:
    """A chunk. Names are told apart by zero bytes, which none contains."""
    count = len(entries)
    names = "\0".join([key for key, _, _ in entries]).encode()
    means = struct.pack(f"<{count}f", *[mean for _, mean, _ in entries])
    weights = [max(1, min(_WEIGHT_ONE, round(weight * _WEIGHT_ONE))) for _, _, weight in entries]
    raw = _COUNT.pack(count) + means + struct.pack(f"<{count}H", *weights) + names
    return zlib.compress(raw, 1)


def unpacked(chunk: bytes) -> list[Entry]:
    """What is in a chunk; nothing if these bytes are none."""
    try:
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(chunk, _UNPACKED_MAX)
        (count,) = _COUNT.unpack_from(raw)
        names_at = _COUNT.size + _FIGURE_BYTES * count
        keys = raw[names_at:].decode().split("\0") if count else []
        if len(keys) != count or not unpacking.eof:
            return []
        means = struct.unpack_from(f"<{count}f", raw, _COUNT.size)
        weights = struct.unpack_from(f"<{count}H", raw, _COUNT.size + 4 * count)
    except (zlib.error, struct.error, UnicodeDecodeError):
        return []
    return [
        (key, mean, weight / _WEIGHT_ONE)
        for key, mean, weight in zip(keys, means, weights, strict=True)
    ]
