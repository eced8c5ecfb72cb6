"""The journal's file: SQLite, written ahead and synced, one transaction for each step.

Decides the tables, the refusals of a file that cannot be trusted, and what an error of the disk
means. Must not know Raft. The connection keeps the file to itself, so there is no shared-memory
file, and a second process is turned away.
"""

import contextlib
import fcntl
import os
import sqlite3
import zlib
from pathlib import Path
from typing import Final

from coordinator.consensus.disk import Batch, Chunk, DiskLost, DiskRefused, JournalRefused, Kept
from coordinator.consensus.journal_wal import damage
from coordinator.consensus.library import Entry

FILE_NAME: Final = "journal.sqlite"
LOCK_NAME: Final = "lock"
APPLICATION_ID: Final = 0x53436A31
"""Written into the file's header, so that another program's database is told apart."""
FORMAT: Final = 1
"""Of the tables. A file of a newer one is refused, as this version could not read all of it."""
CHECKPOINT_PAGES: Final = 1000
"""4 MB of write-ahead file are then moved into the main file: a few milliseconds."""
WAL_BYTES_MAX: Final = 8 << 20
"""What a large snapshot left of a write-ahead file is cut down to this at the next checkpoint."""
BUSY_S: Final = 1.0
"""Another program that looks at the file at a start, as a backup does, is waited for."""
_RETRIED: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY})
"""Primary codes of which SQLite promises that nothing was written; the operator can help."""
_MOVED: Final = sqlite3.SQLITE_READONLY_DBMOVED
"""The file was taken away under this process: what it writes is lost."""
_WAY_OUT: Final = (
    "move its folder away and start again: the node comes back empty and is caught up by the "
    "other members, when they are up and whole"
)

_TABLES: Final = """
create table promise (
    one integer primary key check (one = 1),
    term integer not null,
    vote text,
    crc integer not null
);
create table note (
    name text primary key,
    value text not null,
    crc integer not null
) without rowid;
create table entry (
    number integer primary key,
    term integer not null,
    crc integer not null,
    command blob not null
);
create table chunk (
    snapshot integer not null,
    number integer not null,
    data blob not null,
    primary key (snapshot, number)
);
create table current (
    one integer primary key check (one = 1),
    snapshot integer not null,
    chunks integer not null
);
"""
_OWN_NOTES: Final = frozenset({"node", "is_open"})
"""What the file tells of itself."""


def open_journal(folder: str, node: str) -> "JournalFile":
    """The node's file in this folder, made if there is none; raises JournalRefused."""
    path = Path(folder) / FILE_NAME
    lock = _lock(Path(folder))
    try:
        if not path.exists():
            _make(path, node)
        return JournalFile(path, node, lock)
    except BaseException:
        os.close(lock)
        raise


def _lock(folder: Path) -> int:
    """The folder for this process alone; the kernel lets go when it ends."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalRefused(
            f"{folder}: cannot be used ({error.strerror}); make it writable for this node, or set "
            "another storage.dir"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise JournalRefused(
            f"{folder}: another process uses it; each node needs a folder of its own"
        ) from error
    return lock


def _make(path: Path, node: str) -> None:
    """A new file, complete before it has its name: a crash leaves none, never half of one."""
    fresh = path.with_suffix(".new")
    try:
        if _beside(path, "-wal").exists():
            raise JournalRefused(f"{path}: is missing beside its write-ahead file; {_WAY_OUT}")
        fresh.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as made:
            made.execute("pragma synchronous = full")
            made.execute(f"pragma application_id = {APPLICATION_ID}")
            made.executescript(_TABLES)
            _note(made, "node", node)
            made.execute(f"pragma user_version = {FORMAT}")
        fresh.chmod(0o600)
        fresh.rename(path)
        _sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise JournalRefused(
            f"{path}: cannot be made ({error}); make room, or set another storage.dir"
        ) from error


def _sync_folder(folder: Path) -> None:
    held = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _crc(command: bytes, number: int, term: int) -> int:
    return zlib.crc32(command, (number * 31 + term) & 0xFFFFFFFF)


def _promise_crc(term: int, vote: str | None) -> int:
    return zlib.crc32((vote or "").encode(), term & 0xFFFFFFFF)


def _note_crc(name: str, value: str) -> int:
    return zlib.crc32(f"{name}\0{value}".encode())


class JournalFile:
    """One open file. `load` once, then `commit`; `close` ends in order."""

    def __init__(self, path: Path, node: str, lock: int) -> None:
        self.path = str(path)
        self._file = path
        self._node = node
        self._lock: int | None = lock
        self._db: sqlite3.Connection | None = None
        self._is_loaded = False

    # Opening.

    def load(self) -> Kept:
        """What was kept; raises JournalRefused when it cannot be trusted."""
        try:
            self._check_header()
            has_wal = _beside(self._file, "-wal").exists()
            db = self._db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
            db.execute("pragma locking_mode = exclusive")
            db.execute("pragma synchronous = full")
            self._check_name(db, has_wal=has_wal)
            self._check_whole(db)
            kept = self._read(db)
            # From here on the write-ahead file belongs to the main one; without it, data is gone.
            db.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
            db.execute("pragma journal_mode = wal")
            db.execute(f"pragma journal_size_limit = {WAL_BYTES_MAX}")
            self._set_open(db, is_open=True)
        except sqlite3.Error as error:
            if _primary(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise JournalRefused(
                    f"{self.path}: another program has it open; end that first"
                ) from error
            if _primary(error) in {
                sqlite3.SQLITE_FULL,
                sqlite3.SQLITE_READONLY,
                sqlite3.SQLITE_CANTOPEN,
                sqlite3.SQLITE_PERM,
            }:
                raise JournalRefused(
                    f"{self.path}: cannot be written ({error}); make room or make it writable"
                ) from error
            raise self._refused(f"is damaged ({error})") from error
        except (TypeError, ValueError, AttributeError) as error:  # a value of another type
            raise self._refused(f"is damaged ({error})") from error
        except OSError as error:
            raise JournalRefused(f"{self.path}: cannot be read ({error.strerror})") from error
        self._is_loaded = True
        return kept

    def _refused(self, what: str) -> JournalRefused:
        return JournalRefused(f"{self.path}: {what}; {_WAY_OUT}")

    def _check_header(self) -> None:
        # Before SQLite sees it: an empty file would be a new database to it.
        with self._file.open("rb") as file:
            header = file.read(100)
        if len(header) < 100:
            raise self._refused(f"is truncated to {len(header)} bytes")
        if not header.startswith(b"SQLite format 3\0"):
            raise self._refused("is no SQLite file")
        if int.from_bytes(header[68:72]) != APPLICATION_ID:
            raise JournalRefused(
                f"{self.path}: belongs to another program; set another storage.dir"
            )
        if what := damage(_beside(self._file, "-wal")):
            raise self._refused(f"its write-ahead file {what}")

    def _check_name(self, db: sqlite3.Connection, *, has_wal: bool) -> None:
        (version,) = db.execute("pragma user_version").fetchone()
        if version > FORMAT:
            raise JournalRefused(
                f"{self.path}: has format {version}, this version reads {FORMAT}; start the newer "
                "version that wrote it, or move its folder away to come back empty"
            )
        notes = self._notes(db)
        if notes.get("node") != self._node:
            raise JournalRefused(
                f"{self.path}: belongs to node {notes.get('node')!r}, this is {self._node!r}; "
                "set node.name or storage.dir right"
            )
        if notes.get("is_open") == "1" and not has_wal:
            raise self._refused("its write-ahead file is gone, and with it the newest entries")

    def _check_whole(self, db: sqlite3.Connection) -> None:
        (verdict,) = db.execute("pragma quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._refused(f"is damaged ({str(verdict).splitlines()[-1][:120]})")

    def _set_open(self, db: sqlite3.Connection, *, is_open: bool) -> None:
        _note(db, "is_open", str(int(is_open)))
        # Into the main file itself: it must tell of its write-ahead file when that is gone.
        db.execute("pragma wal_checkpoint(truncate)").fetchone()

    # Reading.

    def _read(self, db: sqlite3.Connection) -> Kept:
        notes = {k: v for k, v in self._notes(db).items() if k not in _OWN_NOTES}
        term, vote = 0, None
        for _, term_kept, vote_kept, crc in db.execute("select * from promise"):
            term, vote = term_kept, vote_kept
            if crc != _promise_crc(term, vote):
                raise self._refused("its term and vote are damaged")
        name = db.execute("select snapshot, chunks from current").fetchone()
        return Kept(
            term=term,
            vote=vote,
            notes=notes,
            entries=tuple(self._entries(db)),
            snapshot=None if name is None else self._snapshot(db, *name),
            snapshot_name=name,
            stale=tuple(_stale(db, name)),
        )

    def _notes(self, db: sqlite3.Connection) -> dict[str, str]:
        notes: dict[str, str] = {}
        for name, value, crc in db.execute("select * from note"):
            if crc != _note_crc(name, value):
                raise self._refused(f"its note {name!r} is damaged")
            notes[name] = value
        return notes

    def _entries(self, db: sqlite3.Connection) -> list[Entry]:
        entries: list[Entry] = []
        for number, term, crc, command in db.execute("select * from entry order by number"):
            if crc != _crc(command, number, term):
                raise self._refused(f"its entry {number} is damaged")
            if entries and number != entries[-1][1] + 1:
                raise self._refused(f"its entries after {entries[-1][1]} are missing")
            entries.append((command, number, term))
        return entries

    def _snapshot(self, db: sqlite3.Connection, snapshot: int, chunks: int) -> bytes:
        rows = db.execute(
            "select data from chunk where snapshot = ? and number < ? order by number",
            (snapshot, chunks),
        ).fetchall()
        if len(rows) != chunks:
            raise self._refused(f"{chunks - len(rows)} parts of its snapshot are missing")
        return b"".join(data for (data,) in rows)

    # Writing.

    def commit(self, batch: Batch) -> None:
        """Returns when all of the batch is safe; raises DiskRefused or DiskLost."""
        db = self._db
        if db is None:
            raise DiskLost(f"{self.path}: is closed")
        try:
            db.execute("begin immediate")
            _write(db, batch)
            db.execute("commit")
        except sqlite3.Error as error:
            what = f"{self.path}: {error}"
            if _primary(error) not in _RETRIED or error.sqlite_errorcode == _MOVED:
                raise DiskLost(what) from error
            try:
                if db.in_transaction:
                    db.execute("rollback")
            except sqlite3.Error as second:
                raise DiskLost(f"{what}, then {second}") from error
            raise DiskRefused(what) from error

    def close(self) -> None:
        """Ends in order: the write-ahead file is emptied into the main one and goes."""
        db, self._db = self._db, None
        if db is not None:
            # What is safe stays so without this; a file that was refused is left as it was.
            with contextlib.suppress(sqlite3.Error):
                if self._is_loaded:
                    self._set_open(db, is_open=False)
            with contextlib.suppress(sqlite3.Error):
                db.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _stale(db: sqlite3.Connection, name: tuple[int, int] | None) -> list[Chunk]:
    snapshot, chunks = name or (-1, 0)
    return [
        (of, number)
        for of, number in db.execute("select snapshot, number from chunk")
        if of != snapshot or number >= chunks
    ]


def _note(db: sqlite3.Connection, name: str, value: str) -> None:
    row = (name, value, _note_crc(name, value))
    db.execute("insert or replace into note values (?, ?, ?)", row)


def _write(db: sqlite3.Connection, batch: Batch) -> None:
    if batch.cut_from == 0:
        db.execute("delete from entry")
    elif batch.cut_from is not None:
        db.execute("delete from entry where number >= ?", (batch.cut_from,))
    if batch.entries:
        db.executemany(
            "insert into entry values (?, ?, ?, ?)",
            [
                (index, term, _crc(command, index, term), command)
                for command, index, term in batch.entries
            ],
        )
    if batch.cut_to is not None:
        db.execute("delete from entry where number < ?", (batch.cut_to,))
    if batch.promise is not None:
        term, vote = batch.promise
        db.execute(
            "insert or replace into promise values (1, ?, ?, ?)",
            (term, vote, _promise_crc(term, vote)),
        )
    for name, value in batch.notes.items():
        _note(db, name, value)
    for (snapshot, number), data in batch.chunks.items():
        db.execute("insert or replace into chunk values (?, ?, ?)", (snapshot, number, data))
    if batch.snapshot is not None:
        db.execute("insert or replace into current values (1, ?, ?)", batch.snapshot)
    for chunk in batch.drops:
        db.execute("delete from chunk where snapshot = ? and number = ?", chunk)


def _primary(error: sqlite3.Error) -> int:
    """SQLite's primary result code; an error of the module itself has none."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
