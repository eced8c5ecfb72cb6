"""What nodes noted of themselves, read back by phases."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from bench.rows import percentile
from bench.scale.node import Change, Note

LINE: Final = msgspec.json.Decoder(Note)


@dataclass(frozen=True, slots=True)
class Lag:
    """How long loops stood still in some time, in milliseconds of the processor; `wall` by the
    clock."""

    p99: float
    max: float
    wall_p99: float
    wall_max: float


@dataclass(slots=True)
class Notebook:
    """The notes of one node, read as they come."""

    path: Path
    notes: list[Note] = field(default_factory=list)
    _read: int = 0

    def read(self) -> list[Note]:
        """All notes so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
            whole = data.rfind(b"\n") + 1
            self._read += whole
            self.notes += (LINE.decode(line) for line in data[:whole].splitlines())
        return self.notes

    def between(self, since: float, until: float) -> list[Note]:
        """Notes of that time."""
        return [note for note in self.read() if since <= note.at <= until]

    @property
    def last(self) -> Note | None:
        """The newest."""
        notes = self.read()
        return notes[-1] if notes else None

    def changes(self, since: float) -> list[Change]:
        """What there was from then on."""
        return [one for note in self.read() for one in note.changes if one.at >= since]


def lag_of(notes: Iterable[Note]) -> Lag:
    """Of all turns in these notes; those not written down took no time."""
    stalls: list[float] = []
    walls: list[float] = []
    looks = 0
    for note in notes:
        stalls += note.stalls_ms
        walls += note.walls_ms
        looks += note.looks
    idle = [0.0] * max(0, looks - len(stalls))
    stalls, walls = sorted(idle + stalls), sorted(idle + walls)
    return Lag(
        p99=percentile(stalls, 0.99),
        max=max(stalls, default=0.0),
        wall_p99=percentile(walls, 0.99),
        wall_max=max(walls, default=0.0),
    )
