"""The recipes of client/FENCING.md, run as they stand."""

import re
import sqlite3
from pathlib import Path

import pytest
from lupa import lua51

import client
from client import FencedOut
from client.fencing import SqlFence, Token
from tests.client.test_fencing import Bucket, token

PAGE = (Path(client.__file__).parent / "FENCING.md").read_text()
RECIPES = dict(re.findall(r"```python (\w+)\n(.*?)```", PAGE, re.DOTALL))


def recipe(name, **given):
    """What a block of the page defines."""
    exec(compile(RECIPES[name], f"FENCING.md:{name}", "exec"), given)  # noqa: S102 - our own page
    return given


def test_every_block_is_one_of_those_that_are_run():
    assert PAGE.count("```") == 2 * len(RECIPES)
    assert set(RECIPES) == {"sql", "conditional", "redis", "objects", "s3", "service"}


def test_sql(tmp_path):
    def connect():
        return sqlite3.connect(tmp_path / "jobs.sqlite")

    with connect() as database:
        database.execute("CREATE TABLE jobs (shard, job, state, PRIMARY KEY (shard, job))")
        database.execute(SqlFence().schema)
    page = recipe("sql", connect=connect)
    assert page["on_start"](token(5)) == []
    page["save"](token(5), 1, "begun")
    assert page["on_start"](token(7)) == [("begun",)]
    with pytest.raises(FencedOut):
        page["save"](token(5), 1, "late")
    page["save"](token(7), 1, "done")
    assert page["on_start"](token(7)) == [("done",)]


def test_a_row_that_carries_its_epoch():
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE rooms (shard PRIMARY KEY, state, epoch)")
    database.execute("INSERT INTO rooms VALUES ('a', '', 0)")
    save_row = recipe("conditional")["save_row"]
    save_row(database, token(5), "one")
    save_row(database, token(7), "two")
    with pytest.raises(LookupError):
        save_row(database, token(6), "late")
    assert database.execute("SELECT state, epoch FROM rooms").fetchall() == [("two", 7)]


class Redis:
    """The commands that the script needs, behind the engine that Redis runs scripts with."""

    def __init__(self):
        self.data = {}
        self._lua = lua51.LuaRuntime(unpack_returned_tuples=True)

    def get(self, key):
        return self.data.get(key)

    def eval(self, script, numkeys, *names):
        bound = self._lua.eval("function(call, f) redis = {call = call}; return f end")
        run = self._lua.eval(f"function(KEYS, ARGV) {script} end")
        keys, arguments = names[:numkeys], names[numkeys:]
        run = bound(self._call, run)
        reply = run(self._lua.table(*keys), self._lua.table(*arguments))
        return int(reply)  # as Redis does with a number

    def _call(self, command, *arguments):
        match command, arguments:
            case "GET", (key,):
                return self.data.get(key, False)  # what a script gets for nil
            case "SET", (key, value):
                assert isinstance(value, str)
                self.data[key] = value
                return "OK"
        raise NotImplementedError(command)


def test_redis():
    redis = Redis()
    page = recipe("redis", redis=redis)
    assert page["on_start"](token(2**53 - 3)) is None
    page["save"](token(2**53 - 3), "one")
    assert page["on_start"](token(2**53 - 1)) == "one"
    with pytest.raises(FencedOut) as late:
        page["save"](token(2**53 - 2), "late")
    assert late.value.highest == 2**53 - 1
    page["save"](token(2**53 - 1), "two")
    assert redis.get("state:{jobs/a}") == "two"
    assert redis.get("fence:{jobs/a}") == str(2**53 - 1)


def test_objects():
    bucket = Bucket()
    page = recipe("objects", bucket=bucket)
    assert page["load"](token(5)) is None
    page["save"](token(5), b"one")
    assert page["load"](token(7)) == b"one"
    with pytest.raises(FencedOut):
        page["save"](token(5), b"late")
    page["save"](token(7), b"two")
    assert page["load"](token(8)) == b"two"


class S3:
    """What the recipe uses of boto3's client, over objects with ETags."""

    class exceptions:  # noqa: N801 - boto3's name
        class NoSuchKey(Exception):  # noqa: N818
            pass

        class ClientError(Exception):
            def __init__(self, code):
                super().__init__(code)
                self.response = {"Error": {"Code": code}}

    def __init__(self):
        self.bucket = Bucket()

    def get_object(self, *, Bucket, Key):  # noqa: N803 - boto3's names
        assert Bucket == "rooms"
        found = self.bucket.get(Key)
        if found is None:
            raise self.exceptions.NoSuchKey

        class Body:
            def read(self):
                return found[0]

        return {"Body": Body(), "ETag": found[1]}

    def put_object(self, *, Bucket, Key, Body, IfMatch=None, IfNoneMatch=None):  # noqa: N803
        assert Bucket == "rooms"
        assert (IfMatch is None) == (IfNoneMatch == "*")
        if Body == b"epoch 9\nforbidden":
            raise self.exceptions.ClientError("AccessDenied")
        if not self.bucket.put(Key, Body, IfMatch):
            raise self.exceptions.ClientError("PreconditionFailed")


def test_s3():
    s3 = S3()
    bucket = recipe("s3")["Bucket"](s3, "rooms")
    page = recipe("objects", bucket=bucket)
    assert page["load"](token(5)) is None
    page["save"](token(5), b"one")
    s3.bucket.once(lambda: page["load"](token(7)))
    with pytest.raises(FencedOut):
        page["save"](token(5), b"late")
    with pytest.raises(S3.exceptions.ClientError):
        page["save"](token(9), b"forbidden")
    assert page["load"](token(7)) == b"one"


def test_a_service_of_your_own():
    log = []
    append = recipe("service", log=log)["append"]
    append("jobs", "a", 5, "one")
    append("jobs", "a", 7, "two")
    with pytest.raises(FencedOut):
        append("jobs", "a", 6, "late")
    assert log == ["one", "two"]
    assert Token("jobs", "a", 5) == token(5)
