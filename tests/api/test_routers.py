import asyncio
import gzip

import msgspec
import pytest

from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_look_up_creates_the_shard_of_an_open_namespace_once(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1", "e2")
    answers = await asyncio.gather(*(api.owner(ns, "new") for _ in range(20)))
    assert len({(answer["executor"], answer["epoch"]) for answer in answers}) == 1
    assert (await api.get(f"{ns}/shards")).body["total"] == 1


async def test_an_owner_is_told_with_address_host_and_epoch(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    owner = await api.owner(ns, "a")
    assert owner.pop("epoch") > 2**20
    cursor = owner.pop("cursor")
    assert owner == {
        "namespace": ns.rpartition("/")[2],
        "key": "a",
        "executor": "e1",
        "address": "e1:1",
        "host": "h1",
        "state": "owned",
        "next": None,
    }
    assert cursor == (await api.get(ns)).body["cursor"]


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("a%2Fb", "a/b"),
        ("a%2fb", "a/b"),
        ("%252F", "%2F"),
        ("%2E%2E", ".."),
        ("%C3%A4", "ä"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
        ("%7Bx%7D", "{x}"),
        ("a;b=c", "a;b=c"),
        ("k" * 256, "k" * 256),
    ],
)
async def test_a_key_in_a_path_is_percent_decoded_once(api: Caller, sent: str, key: str):
    ns = await api.namespace()
    await api.join(ns, "e1")
    assert (await api.owner(ns, sent))["key"] == key
    assert (await api.get(f"{ns}/shards/{sent}")).body["key"] == key
    assert (await api.get(f"{ns}/shards")).body["shards"][0]["key"] == key


@pytest.mark.parametrize("sent", ["%00", "%0A", "%ff", "%7F", "%zz", "k" * 257])
async def test_a_key_that_breaks_the_rule_is_never_born(api: Caller, sent: str):
    ns = await api.namespace()
    await api.join(ns, "e1")
    answer = await api.get(f"{ns}/shards/{sent}/owner")
    assert answer.body["errors"][0]["path"] == "key"
    assert (await api.get(f"{ns}/shards")).body["total"] == 0


async def test_without_create_an_unknown_key_stays_unknown(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    answer = await api.get(f"{ns}/shards/a/owner?create=false")
    assert (answer.status, answer.reason) == (404, "shard_not_found")
    assert (await api.get(f"{ns}/shards/a")).reason == "shard_not_found"
    assert (await api.get(f"{ns}/shards")).body["total"] == 0


async def test_a_fixed_namespace_knows_only_its_numbers(api: Caller):
    ns = await api.namespace("fixed", 2)
    await api.join(ns, "e1")
    assert (await api.owner(ns, "1"))["executor"] == "e1"
    for query in ("", "?create=true"):
        assert (await api.get(f"{ns}/shards/2/owner{query}")).reason == "shard_not_found"


async def test_without_an_executor_a_shard_is_unassigned(api: Caller):
    ns = await api.namespace()
    answer = await api.get(f"{ns}/shards/a/owner")
    assert (answer.status, answer.reason) == (503, "shard_unassigned")
    assert answer.headers["Retry-After"] == "1"


async def test_a_look_up_waits_for_the_first_executor(api: Caller):
    ns = await api.namespace()
    looking = asyncio.ensure_future(api.get(f"{ns}/shards/a/owner"))
    await asyncio.sleep(0.1)
    await api.join(ns, "e1")
    assert (await looking).body["executor"] == "e1"


async def test_a_parked_shard_is_said_to_be_parked(api: Caller):
    ns = await api.namespace()
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    await api.post(f"{ns}/shards/a/drain", {"reason": "poison"})
    answer = await api.get(f"{ns}/shards/a/owner")
    assert (answer.status, answer.reason) == (409, "shard_parked")
    assert "poison" in answer.body["detail"]


async def test_during_a_handoff_the_owner_and_the_next_are_told(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a")
    await api.join(ns, "e2")
    await api.post(f"{ns}/shards/a/move", {"to": "e2"})
    owner = await api.owner(ns, "a")
    assert (owner["executor"], owner["state"]) == ("e1", "releasing")
    assert owner["next"] == {"executor": "e2", "address": "e2:1"}
    table = (await api.get(f"{ns}/routing")).body
    assert table["moving"] == {"a": "e2"}
    assert set(table["executors"]) == {"e1", "e2"}


async def test_a_linearizable_look_up_is_confirmed_by_a_quorum(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    answer = await api.get(f"{ns}/shards/a/owner?consistency=linearizable")
    assert answer.body["executor"] == "e1"
    bad = await api.get(f"{ns}/shards/a/owner?consistency=eventual")
    assert bad.body["errors"][0]["path"] == "consistency"


async def test_a_table_without_a_cursor_is_a_snapshot(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    epoch = (await api.owner(ns, "a"))["epoch"]
    table = (await api.get(f"{ns}/routing")).body
    assert table["kind"] == "snapshot"
    assert table["owners"] == {"a": ["e1", epoch]}
    assert table["executors"] == {
        "e1": {"address": "e1:1", "host": "h1", "zone": "", "status": "active"}
    }


async def test_a_delta_holds_only_what_changed_since(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a")
    await api.owner(ns, "gone")
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    await api.owner(ns, "b")
    await api.post(f"{ns}/shards", {"keys": ["p"]})
    await api.owner(ns, "p")
    for key in ("p", "gone"):
        order = ("POST", f"{ns}/shards/p/drain") if key == "p" else ("DELETE", f"{ns}/shards/gone")
        await api.ask(*order)
        await api.release(ns, "e1")
    delta = (await api.get(f"{ns}/routing?after={cursor}")).body
    assert delta["kind"] == "delta"
    assert set(delta["owners"]) == {"b"}
    assert (delta["parked"], delta["removed"]) == (["p"], ["gone"])
    assert set(delta["executors"]) == {"e1"}


async def test_a_poll_of_the_table_sees_a_change_at_once(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a")
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    polls = [
        asyncio.ensure_future(api.get(f"{ns}/routing?after={cursor}&wait=20s")) for _ in range(5)
    ]
    await asyncio.sleep(0.05)
    await api.post(f"{ns}/executors/e1/cordon")
    answers = await asyncio.gather(*polls)
    assert len({answer.raw for answer in answers}) == 1
    assert answers[0].body["executors"]["e1"]["status"] == "cordoned"


async def test_a_level_cursor_without_a_wait_gets_304(api: Caller):
    ns = await api.namespace()
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    answer = await api.get(f"{ns}/routing?after={cursor}")
    assert (answer.status, answer.raw) == (304, b"")
    # No news is only worth as much as the node's contact with the leader.
    assert float(answer.headers["X-Leader-Contact-Seconds"]) < 5


async def test_a_cursor_of_another_cluster_gets_a_snapshot_at_once(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    answer = await api.get(f"{ns}/routing?after=elsewhere:99999999&wait=20s")
    assert answer.body["kind"] == "snapshot"
    poll = await api.get(
        f"{ns}/executors/e1/assignments?incarnation=e1-a&after=elsewhere:999&wait=20s"
    )
    assert poll.status == 200


async def test_a_cursor_from_before_the_namespace_gets_a_snapshot(api: Caller):
    ns = await api.namespace()
    cluster = (await api.get(ns)).headers["X-Cluster-Id"]
    assert (await api.get(f"{ns}/routing?after={cluster}:0")).body["kind"] == "snapshot"


@pytest.mark.parametrize("path", ["routing?", "executors/e1/assignments?incarnation=e1-a&"])
async def test_a_cursor_ahead_of_the_leader_is_never_led_back(api: Caller, path: str):
    ns = await api.namespace()
    await api.join(ns, "e1")
    cluster = (await api.get(ns)).headers["X-Cluster-Id"]
    answer = await api.get(f"{ns}/{path}after={cluster}:{2**52}&wait=10s")
    assert (answer.status, answer.reason) == (503, "recovering")


async def test_a_cursor_slightly_ahead_waits_for_this_node_to_catch_up(api: Caller):
    ns = await api.namespace()
    cluster, _, revision = (await api.get(ns)).body["cursor"].partition(":")
    ahead = asyncio.ensure_future(api.get(f"{ns}/routing?after={cluster}:{int(revision) + 1}"))
    await asyncio.sleep(0.05)
    assert not ahead.done()
    await api.join(ns, "e1")
    assert (await ahead).status in {200, 304}


@pytest.mark.parametrize("cursor", ["x", "x:", ":5", "x:-1", "x:1e3", "a" * 200 + ":1"])
async def test_what_never_was_a_cursor_is_refused(api: Caller, cursor: str):
    ns = await api.namespace()
    answer = await api.get(f"{ns}/routing?after={cursor}")
    assert answer.body["errors"][0]["path"] == "after"


async def test_a_wait_needs_a_cursor_and_a_bound(api: Caller):
    ns = await api.namespace()
    assert (await api.get(f"{ns}/routing?wait=1s")).body["errors"][0]["path"] == "wait"
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    for wait in ("301s", "6m", "-1", "soon"):
        answer = await api.get(f"{ns}/routing?after={cursor}&wait={wait}")
        assert answer.body["errors"][0]["path"] == "wait"


async def test_the_table_comes_in_msgpack_when_asked_for(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a")
    plain = await api.get(f"{ns}/routing")
    packed = await api.get(f"{ns}/routing", Accept="application/msgpack")
    assert packed.body == plain.body
    assert packed.raw == msgspec.msgpack.encode(plain.body) or len(packed.raw) < len(plain.raw)


@pytest.mark.parametrize("shards", [200, 5000])
async def test_a_table_over_a_kibibyte_is_compressed_when_asked_for(api: Caller, shards: int):
    ns = await api.namespace("fixed", shards)
    await api.join(ns, "e1")

    async def placed() -> bool:
        return len((await api.get(f"{ns}/routing")).body["owners"]) == shards

    await until(placed)
    plain = await api.get(f"{ns}/routing")
    assert "Content-Encoding" not in plain.headers
    async with api.session.get(
        f"{api.base}{ns}/routing", headers={"Accept-Encoding": "gzip"}
    ) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        packed = await answer.read()
    assert gzip.decompress(packed) == plain.raw
    assert len(packed) < len(plain.raw) / 2


async def test_a_small_table_is_not_compressed(api: Caller):
    ns = await api.namespace()
    answer = await api.get(f"{ns}/routing", **{"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in answer.headers
    assert answer.body["owners"] == {}


async def test_a_namespace_that_is_not_there_has_no_table(api: Caller):
    for path in ("routing", "shards/a/owner", "executors/e1/assignments?incarnation=x"):
        answer = await api.get(f"/v1/namespaces/nowhere/{path}")
        assert (answer.status, answer.reason) == (404, "namespace_not_found")


async def test_a_poll_of_a_namespace_that_goes_away_ends(api: Caller):
    ns = await api.namespace()
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    poll = asyncio.ensure_future(api.get(f"{ns}/routing?after={cursor}&wait=20s"))
    await asyncio.sleep(0.05)
    await api.ask("DELETE", f"{ns}?confirm={ns.rpartition('/')[2]}")
    assert (await poll).reason == "namespace_not_found"


@pytest.mark.parametrize(
    "header",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_lets_no_shard_be_born_by_a_look_up(
    api: Caller, header: dict[str, str]
):
    ns = await api.namespace()
    await api.join(ns, "e1")
    look_up = f"{ns}/shards/born/owner"
    refused = await api.get(look_up, **header)
    assert (refused.status, refused.reason) == (403, "forbidden")
    assert (await api.get(f"{ns}/shards/born")).status == 404
    assert (await api.get(look_up, **{"Sec-Fetch-Site": "same-origin"})).status == 200
    assert (await api.get(look_up, **header)).status == 200  # nothing changes by it any more
