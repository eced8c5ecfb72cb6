"""Loads go through the log: a new leader knows at once what takes a horizon to learn.

Decides when a sweep through all loads is written, a chunk now and then so that the log is never
busy with it, and what a new leader makes of the last one: whether it is enough to balance by. Must
not know how loads are smoothed or packed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from coordinator.core.balance_series import BalancePoint
from coordinator.core.commands import Command, RecordLoads
from coordinator.core.load import LoadBook
from coordinator.core.namespace import NamespaceState
from coordinator.core.saved_loads import (
    CHUNK_BYTES,
    CHUNKS_MAX,
    Sweep,
    entry_bytes,
    packed,
    unpacked,
)

PERIOD_S: Final = 60.0
"""From the beginning of a sweep to that of the next: of a horizon of an hour a leader that is lost
takes a sixtieth with it."""

CHUNKS_A_PERIOD: Final = 0.9
"""Share of the period in which a sweep is written, so that it ends before the next begins."""

KNOWN_RATIO: Final = 0.95
"""Balance begins with recorded loads if they are of so many of the owned shards, and rest on as
long a time each as a new leader would otherwise listen for."""


@dataclass(slots=True)
class LoadRecord:
    """How far the leader is with reading the last sweep and with writing its own."""

    reading: Iterator[bytes] | None
    """Chunks of the last leader's sweep that are yet to be read."""
    read_ms: int
    """When that sweep began."""
    next_at: float
    settled: int = 0
    """Shards whose recorded load rests on enough."""
    sweep: Iterator[tuple[list[str], bool]] | None = None
    sweep_ms: int = 0
    number: int = 0
    began_at: float = 0.0
    pause_s: float = 0.0
    folds: int = -1
    """Reports that had come in when the last sweep began: without news none is written."""

    @classmethod
    def begin(cls, namespace: NamespaceState, now: float) -> "LoadRecord":
        """As a leader's term begins."""
        sweep = namespace.loads.whole or Sweep(0, ())
        return cls(
            reading=iter(sweep.chunks) if sweep.chunks else None,
            read_ms=sweep.at_ms,
            next_at=now + PERIOD_S,
        )

    def read(self, loads: LoadBook, now: float, at_ms: int, after_s: float) -> None:
        """The next chunk of the last sweep; a load is settled that rests on `after_s` of reports.

        That much at a time, as heartbeats are answered meanwhile.
        """
        chunk = None if self.reading is None else next(self.reading, None)
        if chunk is None:
            self.reading = None
            return
        entries = unpacked(chunk)
        loads.restore(entries, now, age_s=max(0.0, (at_ms - self.read_ms) / 1000.0))
        self.settled += sum(loads.is_settled(key, after_s) for key, _, _ in entries)

    def is_enough(self, namespace: NamespaceState) -> bool:
        """Whether what was read makes further listening needless."""
        owned = sum(len(namespace.owned(executor)) for executor in namespace.executors)
        return self.reading is None and self.settled >= KNOWN_RATIO * owned

    def write(
        self,
        namespace: NamespaceState,
        loads: LoadBook,
        now: float,
        at_ms: int,
        point: BalancePoint | None = None,
    ) -> list[Command]:
        """The next chunk of this leader's sweep, if it is time for one; with the last the point.

        A sweep begins with a step of its own: of a million shards that takes as long as a chunk.
        """
        if now < self.next_at:
            return []
        if self.sweep is None:
            if loads.folds == self.folds or not len(loads):
                self.next_at = now + PERIOD_S
                return []
            self.sweep = _sweep(namespace)
            self.sweep_ms, self.began_at, self.number = at_ms, now, 0
            self.folds = loads.folds
            chunks = sum(map(entry_bytes, _some(namespace))) / _SOME * len(namespace.shards)
            self.pause_s = PERIOD_S * CHUNKS_A_PERIOD / (1.0 + chunks / CHUNK_BYTES)
            return []
        keys, is_last = next(self.sweep)
        return [
            RecordLoads(
                namespace=namespace.info.name,
                sweep_ms=self.sweep_ms,
                number=self.number,
                chunk=packed(loads.entries(keys)),
                is_last=is_last,
                point=point if is_last else None,
            )
        ]

    def learn(self, command: RecordLoads, now: float, *, is_applied: bool) -> None:
        """What became of a chunk: the next one follows, or all begins anew after a while."""
        if is_applied and not command.is_last:
            self.number += 1
            self.next_at = now + self.pause_s
            return
        self.sweep = None
        self.next_at = max(now, self.began_at + PERIOD_S)
        if not is_applied:
            self.folds = -1


_SOME: Final = 64
"""Names looked at to tell how many chunks there will be."""


def _some(namespace: NamespaceState) -> list[str]:
    """Names of some shards, over and over where there are fewer."""
    found = [key for part in namespace.shards.parts for key in islice(part, 1)]
    return [found[at % len(found)] for at in range(_SOME)] if found else []


def _sweep(namespace: NamespaceState) -> Iterator[tuple[list[str], bool]]:
    """Keys of all shards, chunk by chunk, each with whether it is the last one.

    Part by part of the table: what is born or retired meanwhile may or may not be among them.
    """
    keys: list[str] = []
    size = chunks = 0
    for part in namespace.shards.parts:
        for key in list(part):
            more = entry_bytes(key)
            if size + more > CHUNK_BYTES:
                chunks += 1
                if chunks == CHUNKS_MAX:
                    yield keys, True
                    return
                yield keys, False
                keys, size = [], 0
            keys.append(key)
            size += more
    yield keys, True
