"""A store over SQLite that fences: what tests let executors write to, from any number of processes.

It keeps every write that was let through and every one that was refused, in the order in which the
database decided, so that a test can say afterwards who wrote when.
"""

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from client.errors import FencedOut
from client.fencing import Owned, SqlFence

_BUSY_S = 10.0  # writers of other processes are waited for; a test's disk may be slow
_SCHEMA = """
CREATE TABLE IF NOT EXISTS writes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL, shard TEXT NOT NULL, epoch INTEGER NOT NULL,
    writer TEXT NOT NULL, value TEXT NOT NULL, highest INTEGER
)"""


@dataclass(frozen=True, slots=True)
class Write:
    """One attempt. `highest` is the epoch that refused it, None if it was let through."""

    number: int
    namespace: str
    shard: str
    epoch: int
    writer: str
    value: str
    highest: int | None

    @property
    def is_refused(self) -> bool:
        return self.highest is not None


class FencingStore:
    """Opened once per process or thread; the file is shared."""

    def __init__(self, path: Path) -> None:
        self._fence = SqlFence(sqlite3.paramstyle)
        self._database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = OFF")  # processes are killed, machines not
        self._database.execute(self._fence.schema)
        self._database.execute(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def write(self, owned: Owned, writer: str, value: str = "") -> None:
        """Write, or raise `FencedOut` and keep that it was tried."""
        row = (owned.namespace, owned.key, owned.epoch, writer, value)
        try:
            with self._transaction() as cursor:
                self._fence.admit(cursor, owned)
                self._note(cursor, row, None)
        except FencedOut as refused:
            with self._transaction() as cursor:
                self._note(cursor, row, refused.highest)
            raise

    def writes(self) -> list[Write]:
        """Every attempt, in order."""
        rows = self._database.execute("SELECT * FROM writes ORDER BY number")
        return [Write(*row) for row in rows]

    def accepted(self) -> list[Write]:
        """The writes that were let through."""
        return [one for one in self.writes() if not one.is_refused]

    def refused(self) -> list[Write]:
        """The writes that came too late."""
        return [one for one in self.writes() if one.is_refused]

    def faults(self) -> list[str]:
        """What must never be: an epoch that falls, or one epoch with two writers."""
        found: list[str] = []
        by_shard = sorted(self.accepted(), key=lambda one: (one.namespace, one.shard, one.number))
        for before, after in itertools.pairwise(by_shard):
            if (before.namespace, before.shard) != (after.namespace, after.shard):
                continue
            if after.epoch < before.epoch:
                found.append(f"epoch falls: {before} {after}")
            elif after.epoch == before.epoch and after.writer != before.writer:
                found.append(f"two writers: {before} {after}")
        return found

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        cursor = self._database.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")

    @staticmethod
    def _note(
        cursor: sqlite3.Cursor, row: tuple[str, str, int, str, str], highest: int | None
    ) -> None:
        cursor.execute(
            "INSERT INTO writes (namespace, shard, epoch, writer, value, highest)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*row, highest),
        )
