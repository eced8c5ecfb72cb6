"""A fence in a SQL database: one row per shard, checked in the transaction of the write.

Decides the statements. It must not know the database's driver: any DB-API 2.0 cursor will do, and
transactions stay the caller's.
"""

import re
from typing import Any, Final, Protocol

from client.fencing.tokens import Owned, Token, fenced_out

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
# Of the DB-API's five styles these take arguments in order; `pyformat` drivers take `%s` as well.
_MARKS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}


class Cursor(Protocol):
    """What is needed of a DB-API cursor."""

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""
        ...

    def execute(self, statement: str, arguments: Any = ..., /) -> Any:
        """Run one statement."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...


class SqlFence:
    """The highest epoch of each shard, in a table.

    `admit` takes part in the caller's transaction: it locks the shard's row until that ends, so no
    two owners are between check and write at the same time. Whoever is refused rolls back.

    The statements are those of PostgreSQL and SQLite. `insert_clause` is what makes an insert of a
    row that exists change nothing; in MySQL write `insert_verb="INSERT IGNORE"` and an empty
    clause. In SQLite begin with `BEGIN IMMEDIATE` when the transaction reads first.
    """

    def __init__(
        self,
        paramstyle: str = "qmark",
        *,
        table: str = "shard_fence",
        insert_verb: str = "INSERT",
        insert_clause: str = "ON CONFLICT DO NOTHING",
    ) -> None:
        if _NAME.fullmatch(table) is None:
            raise ValueError(f"not the plain name of a table: {table!r}")
        if paramstyle not in _MARKS:
            known = ", ".join(_MARKS)
            raise ValueError(f"paramstyle {paramstyle!r} is none of {known}")
        mark = _MARKS[paramstyle]
        row = f"namespace = {mark} AND shard = {mark}"
        self.schema: Final = (
            f"CREATE TABLE IF NOT EXISTS {table} (namespace VARCHAR(63) NOT NULL,"
            " shard VARCHAR(256) NOT NULL, epoch BIGINT NOT NULL, PRIMARY KEY (namespace, shard))"
        )
        self._raise: Final = f"UPDATE {table} SET epoch = {mark} WHERE {row} AND epoch <= {mark}"  # noqa: S608 - the name was checked
        self._look: Final = f"SELECT epoch FROM {table} WHERE {row}"  # noqa: S608 - same
        self._insert: Final = (
            f"{insert_verb} INTO {table} (namespace, shard, epoch)"
            f" VALUES ({mark}, {mark}, {mark}) {insert_clause}"
        )

    def admit(self, cursor: Cursor, owned: Owned) -> None:
        """Let the writes of this transaction through, or raise `FencedOut`."""
        token = Token.of(owned)
        shard = (token.namespace, token.key)
        cursor.execute(self._raise, (token.epoch, *shard, token.epoch))
        if cursor.rowcount > 0:
            return
        cursor.execute(self._insert, (*shard, token.epoch))
        if cursor.rowcount > 0:
            return
        # Refused; or a database that counts only rows whose values changed; or somebody else
        # inserted the row in between, whose transaction has ended now that ours went on.
        cursor.execute(self._raise, (token.epoch, *shard, token.epoch))
        cursor.execute(self._look, shard)
        (highest,) = cursor.fetchone()
        if token.epoch < highest:
            raise fenced_out(token, highest)
