"""Fences refuse the late write of a former owner, in every kind of store."""

import sqlite3
import threading

import pytest

from client import Contended, FencedOut
from client.fencing import MemoryFence, SqlFence, Token, keyvalue, objects
from client.lease import Lease
from client.shard import Shard, Tenure
from tests.fencing_store import FencingStore


def token(epoch, key="a", namespace="jobs"):
    return Token(namespace, key, epoch)


def shard(epoch):
    return Shard("jobs", Tenure("a", epoch, Lease(), 0.0), lambda: 0.0)


# ------------------------------------------------------------------------------- in memory


def test_what_is_higher_or_the_same_is_let_through_and_what_is_lower_is_not():
    fence = MemoryFence()
    for epoch in (5, 5, 7):
        fence.admit(token(epoch))
    with pytest.raises(FencedOut, match=r"jobs/a.*7.*6") as late:
        fence.admit(token(6))
    assert (late.value.epoch, late.value.highest) == (6, 7)
    fence.admit(token(7))


def test_shards_and_namespaces_have_fences_of_their_own():
    fence = MemoryFence()
    fence.admit(token(7))
    fence.admit(token(1, key="b"))
    fence.admit(token(1, namespace="mail"))


def test_a_shards_handle_is_a_token():
    fence = MemoryFence()
    fence.admit(shard(9))
    assert Token.of(shard(9)) == token(9)
    with pytest.raises(FencedOut):
        fence.admit(shard(8))


def test_nobody_is_admitted_while_an_admitted_write_goes_on():
    fence, entered, done = MemoryFence(), threading.Event(), []

    def later():
        entered.wait(5)
        with fence.admitted(token(8)):
            done.append("later")

    thread = threading.Thread(target=later)
    thread.start()
    with fence.admitted(token(7)):
        entered.set()
        thread.join(0.05)
        done.append("earlier")
    thread.join(5)
    assert done == ["earlier", "later"]
    with pytest.raises(FencedOut), fence.admitted(token(7)):
        done.append("never")
    assert done == ["earlier", "later"]


# ------------------------------------------------------------------------------------- SQL


@pytest.fixture
def database(tmp_path):
    opened = sqlite3.connect(tmp_path / "data.sqlite", isolation_level=None)
    opened.execute(SqlFence().schema)
    yield opened
    opened.close()


def test_a_row_per_shard_refuses_lower_epochs(database):
    fence, cursor = SqlFence(), database.cursor()
    for epoch in (5, 5, 7, 7):
        fence.admit(cursor, token(epoch))
    fence.admit(cursor, token(1, key="b"))
    with pytest.raises(FencedOut) as late:
        fence.admit(cursor, token(6))
    assert late.value.highest == 7


def test_a_refused_transaction_leaves_nothing_behind(database):
    fence, cursor = SqlFence(), database.cursor()
    fence.admit(cursor, token(7))
    database.execute("CREATE TABLE data (value)")
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO data VALUES (1)")
    with pytest.raises(FencedOut):
        fence.admit(cursor, token(6))
    cursor.execute("ROLLBACK")
    assert database.execute("SELECT * FROM data").fetchall() == []


def test_an_epoch_that_was_rolled_back_was_never_seen(database):
    fence, cursor = SqlFence(), database.cursor()
    fence.admit(cursor, token(5))
    cursor.execute("BEGIN")
    fence.admit(cursor, token(9))
    cursor.execute("ROLLBACK")
    fence.admit(cursor, token(6))


class OtherDialect:
    """SQLite as other databases behave: `%s` marks, and only changed values count as changed."""

    def __init__(self, cursor):
        self._cursor = cursor
        self.rowcount = -1
        self.statements = []

    def execute(self, statement, arguments=()):
        self.statements.append(statement)
        if statement.startswith("UPDATE"):
            statement += " AND epoch <> %s"
            arguments = (*arguments, arguments[0])
        self._cursor.execute(statement.replace("%s", "?"), arguments)
        self.rowcount = self._cursor.rowcount

    def fetchone(self):
        return self._cursor.fetchone()


def test_other_marks_verbs_and_counts_of_rows_will_do(database):
    fence = SqlFence(
        "pyformat", table="main.shard_fence", insert_verb="INSERT OR IGNORE", insert_clause=""
    )
    cursor = OtherDialect(database.cursor())
    for epoch in (5, 5, 7, 7):
        fence.admit(cursor, token(epoch))
    with pytest.raises(FencedOut):
        fence.admit(cursor, token(6))
    assert not any("?" in statement for statement in cursor.statements)


@pytest.mark.parametrize("table", ["", "a b", "a;b", "a.b.c", "1a", "a--", 'a"'])
def test_a_table_is_named_plainly(table):
    with pytest.raises(ValueError, match="table"):
        SqlFence(table=table)


def test_a_style_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="numeric"):
        SqlFence("numeric")


def test_of_two_who_insert_the_first_row_at_once_the_lower_never_wins(tmp_path):
    path = tmp_path / "race.sqlite"
    with FencingStore(path) as store:

        def write(epoch):
            with FencingStore(path) as mine:
                for _ in range(20):
                    try:
                        mine.write(token(epoch), f"w{epoch}")
                    except FencedOut:
                        return

        threads = [threading.Thread(target=write, args=(epoch,)) for epoch in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert store.faults() == []
        assert store.accepted()[-1].epoch == 6
        assert all(one.highest > one.epoch for one in store.refused())


def test_a_store_that_did_not_fence_would_be_seen(tmp_path):
    with FencingStore(tmp_path / "open.sqlite") as store:
        store._fence.admit = lambda *_: None
        for epoch, writer in ((5, "x"), (7, "y"), (6, "x"), (6, "y")):
            store.write(token(epoch), writer)
        kinds = [fault.split(":")[0] for fault in store.faults()]
        assert kinds == ["epoch falls", "two writers"]


# -------------------------------------------------------------------------- keys and values


def test_the_keys_of_a_script_lie_on_one_node():
    _, keys, _ = keyvalue.setting(token(5), "state:{jobs/a}", "x")
    assert keys[0] == "fence:{jobs/a}"
    assert [key[key.index("{") : key.index("}")] for key in keys] == ["{jobs/a"] * 2


def test_a_reply_that_names_a_higher_epoch_is_a_refusal():
    keyvalue.check(token(5), 0)
    with pytest.raises(FencedOut) as late:
        keyvalue.check(token(5), 7)
    assert late.value.highest == 7


# ---------------------------------------------------------------------------------- objects


class Bucket:
    """Objects with ETags, and a hook between what a caller does in two steps."""

    def __init__(self):
        self.bodies = {}
        self.writes = 0
        self.before_put = lambda: None

    def get(self, name):
        found = self.bodies.get(name)
        return None if found is None else (found[0], found[1])

    def put(self, name, body, etag):
        self.before_put()
        found = self.bodies.get(name)
        if etag != (None if found is None else found[1]):
            return False
        self.writes += 1
        self.bodies[name] = (body, f"etag-{self.writes}")
        return True

    def once(self, act):
        def run():
            self.before_put = lambda: None
            act()

        self.before_put = run


def test_an_object_that_was_taken_over_is_closed_to_the_former_owner():
    bucket = Bucket()
    objects.put(bucket, "x", token(5), b"one")
    assert objects.take_over(bucket, "x", token(7)) == b"one"
    with pytest.raises(FencedOut):
        objects.put(bucket, "x", token(5), b"late")
    with pytest.raises(FencedOut):
        objects.take_over(bucket, "x", token(6))
    objects.put(bucket, "x", token(7), b"two")
    assert objects.take_over(bucket, "x", token(7)) == b"two"


def test_a_write_that_was_overtaken_between_its_check_and_its_put_is_refused():
    bucket = Bucket()
    objects.put(bucket, "x", token(5), b"one")
    bucket.once(lambda: objects.take_over(bucket, "x", token(7)))
    with pytest.raises(FencedOut):
        objects.put(bucket, "x", token(5), b"late")
    assert objects.opened(bucket.bodies["x"][0]) == (7, b"one")


def test_a_take_over_that_was_overtaken_reads_what_is_there_now():
    bucket = Bucket()
    objects.put(bucket, "x", token(5), b"one")
    bucket.once(lambda: objects.put(bucket, "x", token(5), b"two"))
    assert objects.take_over(bucket, "x", token(7)) == b"two"
    bucket.once(lambda: objects.take_over(bucket, "x", token(9)))
    with pytest.raises(FencedOut):
        objects.take_over(bucket, "x", token(8))


def test_what_does_not_exist_is_created_once():
    bucket = Bucket()
    assert objects.take_over(bucket, "x", token(7)) is None
    bucket.once(lambda: objects.put(bucket, "x", token(9), b"later"))
    with pytest.raises(FencedOut):
        objects.put(bucket, "x", token(7), b"earlier")


def test_an_object_that_others_keep_changing_is_not_tried_for_ever():
    bucket = Bucket()

    def meddle():
        bucket.bodies["x"] = (b"theirs", f"etag-{len(bucket.bodies['x'][1])}{bucket.writes}")
        bucket.writes += 1

    objects.put(bucket, "x", token(5), b"one")
    bucket.before_put = meddle
    for write in (
        lambda: objects.put(bucket, "x", token(5), b"two"),
        lambda: objects.take_over(bucket, "x", token(6)),
    ):
        before = bucket.writes
        with pytest.raises(Contended, match="x"):
            write()
        assert bucket.writes - before == objects.TRIES_MAX


@pytest.mark.parametrize(
    "body",
    [b"", b"plain", b"epoch \nx", b"epoch 5", b"epoch -5\nx", b"epoch 12345678901234567\nx"],
)
def test_an_object_from_before_the_fence_has_no_epoch(body):
    assert objects.opened(body) == (0, body)


def test_any_payload_survives_its_seal():
    for payload in (b"", b"\n", b"epoch 9\n", bytes(range(256))):
        assert objects.opened(objects.sealed(token(2**53 - 1), payload)) == (2**53 - 1, payload)
