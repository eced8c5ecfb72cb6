"""Lines that a process writes down so that they outlive it, even when it is killed.

Decides how notes are kept and read. Each line is one write of its own to the kernel, which keeps
it when the process dies.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

T = TypeVar("T")


class Notebook(Generic[T]):
    """Appends records to a file, one JSON line each."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def write(self, *records: T) -> None:
        """Append; what was written stays, whatever happens to this process."""
        if records:
            os.write(self._file, b"".join(self._encoder.encode(one) + b"\n" for one in records))


def read_notes(paths: list[Path], kind: type[T]) -> Iterator[T]:
    """Every record in these files; a last line that was cut off by a kill is left out."""
    decoder = msgspec.json.Decoder(kind)
    for path in paths:
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield decoder.decode(line)
