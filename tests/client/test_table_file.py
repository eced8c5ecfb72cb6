"""A router's table outlives the router, and what it does not know is where hashing puts it."""

import logging
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client import Router
from client.hashing import hashed
from client.protocol import RoutedExecutor, RoutingAnswer
from client.router import SAVE_EVERY_S
from client.table import RoutingTable
from client.table_file import read_table, write_table
from client.testing import LocalCluster
from tests.client.conftest import free_port
from tests.client.fleet import Diary
from tests.waiting import until

TABLE = RoutingAnswer(
    kind="snapshot",
    cursor="c1:7",
    executors={"e1": RoutedExecutor("10.0.0.1:1", "h1", "z1"), "e2": RoutedExecutor("10.0.0.2:1")},
    owners={"a": ("e1", 5), "b": ("e2", 6)},
    moving={"a": "e2"},
    parked=["bad"],
)
FLEET = {"e1": "10.0.0.1:1", "e2": "10.0.0.2:1", "e3": "10.0.0.3:1"}


def table(**options):
    made = RoutingTable(**options)
    made.apply(TABLE)
    return made


def test_what_is_written_is_what_is_read(tmp_path):
    write_table(tmp_path / "t", "jobs", table().snapshot())
    assert read_table(tmp_path / "t", "jobs") == TABLE
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"format": 2, "namespace": "jobs", "table": {"kind": "snapshot", "cursor": "c:1"}}',
         "format 2"),
        (b'{"format": 1, "namespace": "mail", "table": {"kind": "snapshot", "cursor": "c:1"}}',
         "not of 'jobs'"),
        (b'{"format": 1, "namespace": "jobs", "table": {"kind": "delta", "cursor": "c:1"}}',
         "not of 'jobs'"),
        (b"[" * 100_000, "path="),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_no_table_and_says_why(tmp_path, caplog, body, why):
    (tmp_path / "t").write_bytes(body)
    with caplog.at_level(logging.WARNING):
        assert read_table(tmp_path / "t", "jobs") is None
    assert why in caplog.text


def test_no_file_is_no_table_and_nothing_to_speak_of(tmp_path, caplog):
    assert read_table(tmp_path / "t", "jobs") is None
    assert caplog.text == ""


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch, caplog):
    write_table(tmp_path / "t", "jobs", TABLE)
    monkeypatch.setattr("client.table_file.BYTES_MAX", 20)
    assert read_table(tmp_path / "t", "jobs") is None
    assert "more than 20 bytes" in caplog.text


def test_a_write_that_fails_leaves_the_older_table_and_no_other_file(tmp_path):
    write_table(tmp_path / "t", "jobs", TABLE)
    with pytest.raises(TypeError):
        write_table(tmp_path / "t", "jobs", object())
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_table(tmp_path / "folder", "jobs", TABLE)
    assert read_table(tmp_path / "t", "jobs") == TABLE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "t"]


# ------------------------------------------------------------------------------ fallback fleet


def test_a_row_wins_and_what_has_none_is_where_hashing_puts_it():
    routes = table(fallback_fleet=FLEET)
    assert (routes.owner("a").executor, routes.owner("a").epoch) == ("e1", 5)
    found = routes.owner("unknown")
    expected = hashed("unknown", sorted(FLEET))
    assert (found.executor, found.epoch, found.address) == (expected, 0, FLEET[expected])
    assert routes.owner("bad") is None  # parked: nobody runs it, whatever a hash says


def test_a_row_that_names_somebody_outside_the_readers_fleet_falls_back():
    routes = table(fallback_fleet={"e1": "10.0.0.1:1"})
    assert routes.owner("b").executor == "e1"
    assert routes.owner("b").epoch == 0
    assert routes.owner("a").executor == "e1"
    assert routes.owner("a").epoch == 5


@given(st.text(st.characters(codec="utf-8"), max_size=20), st.integers(1, 9))
def test_without_any_table_a_router_is_exactly_the_hash(key, count):
    fleet = {f"e{number}": f"at-{number}" for number in range(count)}
    assert RoutingTable(fallback_fleet=fleet).owner(key).executor == hashed(key, sorted(fleet))


def test_an_empty_fleet_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        RoutingTable(fallback_fleet={})


# ------------------------------------------------------------------------------- whole routers


@pytest.mark.asyncio(loop_scope="session")
async def test_a_router_that_starts_in_an_outage_routes_by_the_last_table(
    cluster, namespace, operator, tmp_path
):
    diary, path = Diary(), tmp_path / "routes"
    await operator.declare_shards(namespace, ["a", "b"])
    async with (
        diary.executor(cluster.endpoints, namespace, "e1"),
        Router(cluster.endpoints, namespace=namespace, table_file=path) as routes,
    ):
        await until(lambda: len(routes) == 2)
        expected = routes.owners()
    nobody = [f"http://127.0.0.1:{free_port()}"]
    async with Router(nobody, namespace=namespace, table_file=path) as again:
        await again.ready(timeout_s=5)
        assert again.is_stale
        assert again.owners() == expected
        assert again.owner("a").address == "e1:80"
    # When the nodes are back the table goes on from its cursor, and is confirmed.
    async with Router(cluster.endpoints, namespace=namespace, table_file=path) as back:
        await until(lambda: not back.is_stale)
        await until(lambda: len(back) == 0)  # e1 left meanwhile


async def test_the_file_follows_while_the_router_runs_and_a_bad_place_for_it_harms_nothing(
    tmp_path, caplog
):
    path = tmp_path / "routes"

    def written():
        return path.exists() and "a" in read_table(path, "test").owners

    async with (
        LocalCluster() as cluster,
        cluster.router(table_file=path),
        cluster.router(table_file=tmp_path / "no" / "such") as unkept,
        cluster.executor("e1", on_start=nothing, on_stop=nothing, leave_timeout_s=0.5),
    ):
        await cluster.declare("a")
        await cluster.until(lambda: unkept.owner("a"))
        await cluster.until(written, within_s=SAVE_EVERY_S + 1.0)
        await cluster.until(lambda: "table_file_not_written" in caplog.text)
        assert unkept.owner("a")


async def nothing(_shard):
    pass
