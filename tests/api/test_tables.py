import asyncio
import gzip
import json
from typing import Any

import pytest

from coordinator.api import tables
from coordinator.api.tables import Table, Tables
from coordinator.core.commands import CreateNamespace, DeclareShards
from coordinator.core.namespace import NamespaceState
from coordinator.core.state import NAMESPACES_MAX, ClusterState
from coordinator.core.types import NamespaceKind, Policy


def a_state(*names: str, shards: int = 0) -> ClusterState:
    state = ClusterState()
    for name in names:
        state.apply(
            CreateNamespace(
                namespace=name,
                kind=NamespaceKind.FIXED if shards else NamespaceKind.OPEN,
                shard_count=shards,
                policy=Policy(),
                at_ms=0,
            )
        )
    return state


async def table(
    kept: Tables, namespace: NamespaceState, after: int | None = None, **how: bool
) -> Table:
    return await kept.encoded(
        namespace,
        "c",
        after,
        as_msgpack=how.get("as_msgpack", False),
        as_gzip=how.get("as_gzip", False),
    )


async def test_all_who_ask_alike_share_the_same_bytes():
    namespace = a_state("n").namespaces["n"]
    kept = Tables()
    first = await table(kept, namespace)
    assert await table(kept, namespace) is first
    assert await table(kept, namespace, as_msgpack=True) is not first
    assert await table(kept, namespace, after=namespace.revision) is not first


async def test_a_change_ends_what_was_kept():
    state = a_state("n")
    kept = Tables()
    before = await table(kept, state.namespaces["n"])
    state.apply(DeclareShards(namespace="n", keys=("a",)))
    after = await table(kept, state.namespaces["n"])
    assert json.loads(before.body)["cursor"] != json.loads(after.body)["cursor"]


async def test_the_number_of_kept_answers_is_bounded(monkeypatch: pytest.MonkeyPatch):
    made: list[int | None] = []
    answer = tables._answer

    def counted(namespace: NamespaceState, cursor: str, after: int | None) -> Any:
        made.append(after)
        return answer(namespace, cursor, after)

    monkeypatch.setattr(tables, "_answer", counted)
    namespace = a_state("n").namespaces["n"]
    kept = Tables()
    for after in range(tables.KEPT_PER_REVISION_MAX + 1):
        await table(kept, namespace, after)
    await table(kept, namespace, tables.KEPT_PER_REVISION_MAX)
    assert len(made) == tables.KEPT_PER_REVISION_MAX + 1
    await table(kept, namespace, 0)  # the oldest had to go
    assert len(made) == tables.KEPT_PER_REVISION_MAX + 2


async def test_readers_far_behind_share_one_encoding_of_the_whole_table():
    namespace = a_state("n", shards=2).namespaces["n"]
    kept = Tables()
    behind = [await table(kept, namespace, after) for after in range(namespace.ring.floor)]
    assert len(behind) > 1
    assert len({id(one) for one in behind}) == 1
    assert json.loads(behind[0].body)["kind"] == "snapshot"


async def test_namespaces_that_are_gone_do_not_pile_up():
    kept = Tables()
    for number in range(NAMESPACES_MAX + 1):
        namespace = a_state(f"n{number}").namespaces[f"n{number}"]
        await table(kept, namespace)
    assert len(kept._kept) <= NAMESPACES_MAX


@pytest.mark.parametrize("is_large", [False, True], ids=["at once", "off the loop"])
async def test_compression_happens_once_for_all(monkeypatch: pytest.MonkeyPatch, is_large: object):
    calls: list[int] = []
    compress = gzip.compress

    def counted(data: bytes, *args: int, **kwargs: float) -> bytes:
        calls.append(len(data))
        return compress(data, *args, **kwargs)

    monkeypatch.setattr(gzip, "compress", counted)
    monkeypatch.setattr(tables, "COMPRESS_FROM_BYTES", 10)
    if is_large:
        monkeypatch.setattr(tables, "OFF_LOOP_FROM_BYTES", 20)
    namespace = a_state("n", shards=10).namespaces["n"]
    kept = Tables()
    leaving = asyncio.ensure_future(table(kept, namespace, as_gzip=True))
    await asyncio.sleep(0)
    leaving.cancel()  # one that leaves takes nothing from the others
    answers = await asyncio.gather(*(table(kept, namespace, as_gzip=True) for _ in range(10)))
    assert len({id(answer) for answer in answers}) == 1
    assert len(calls) == 1
    assert gzip.decompress(answers[0].body) == (await table(kept, namespace)).body


async def test_what_is_kept_is_bounded_in_bytes_as_well(monkeypatch: pytest.MonkeyPatch):
    names = [f"n{number}" for number in range(20)]
    state = a_state(*names, shards=100)
    size = len((await table(Tables(), state.namespaces["n0"])).body)
    monkeypatch.setattr(tables, "KEPT_BYTES_MAX", 5 * size)
    kept = Tables()
    for name in names:
        made = await table(kept, state.namespaces[name])
        assert await table(kept, state.namespaces[name]) is made
        held = [each for _, by_cursor in kept._kept.values() for each in by_cursor.values()]
        assert sum(len(each.body) for each in held if isinstance(each, Table)) <= 5 * size + 99
