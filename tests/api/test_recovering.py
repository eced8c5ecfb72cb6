"""A namespace whose executors are heard for what they hold: what is answered, and what is not."""

import asyncio

import pytest

from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEASE_S = 1.0
POLICY = {"lease_ttl_s": LEASE_S, "heartbeat_interval_s": 0.4, "initial_hold_s": 0}
LONG = {"lease_ttl_s": 30}


async def held(api: Caller, ns: str, executor: str, sequence: int = 1, **fields: object):
    """A heartbeat of one that lives on from a cluster that is no more."""
    return await api.beat(ns, executor, sequence, joining=False, **fields)


async def lengthen(api: Caller, ns: str) -> None:
    """A lease that outlasts the test; the window stays as short as it was."""
    assert (await api.ask("PATCH", ns, {"policy": LONG})).status == 200
    assert (await held(api, ns, "e1", 2, shards=None)).status == 200


async def is_open(api: Caller, ns: str) -> bool:
    recovering: bool = (await api.get(ns)).body["recovering"]
    return recovering


async def closed(api: Caller, ns: str) -> None:
    async def is_closed() -> bool:
        return not await is_open(api, ns)

    await until(is_closed)


@pytest.mark.parametrize(
    "path",
    [
        "/routing",
        "/shards/a/owner",
        "/shards/a/owner?create=false",
        "/executors/e1/assignments?incarnation=e1-a",
        "/executors/nobody/assignments?incarnation=x",
    ],
)
async def test_who_would_take_an_empty_answer_for_the_truth_gets_none(api: Caller, path: str):
    ns = await api.namespace(is_recovering=True)
    await api.join(ns, "e1")
    answer = await api.get(ns + path)
    assert (answer.status, answer.reason) == (503, "recovering")
    assert answer.headers["Retry-After"] == "1"
    assert (await api.get(f"{ns}/shards")).body["shards"] == []


async def test_a_long_poll_that_outlives_its_namespace_is_refused_as_well(api: Caller):
    ns = await api.namespace()
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    poll = asyncio.create_task(api.get(f"{ns}/routing?after={cursor}&wait=20s"))
    await asyncio.sleep(0.1)
    name = ns.rpartition("/")[2]
    assert (await api.ask("DELETE", f"{ns}?confirm={name}")).status == 204
    assert (await api.ask("PUT", ns, {"kind": "open"})).status == 201
    assert (await poll).reason in {"recovering", "namespace_not_found"}


async def test_what_an_executor_holds_is_adopted_before_its_heartbeat_is_answered(api: Caller):
    ns = await api.namespace(is_recovering=True, **POLICY)
    assert (await held(api, ns, "e1", shards={"a": {"epoch": 7}, "b": {"epoch": 8}})).status == 200
    rows = (await api.get(f"{ns}/shards")).body["shards"]
    assert [(row["key"], row["executor"], row["state"]) for row in rows] == [
        ("a", "e1", "owned"),
        ("b", "e1", "owned"),
    ]
    assert all(row["epoch"] > 8 for row in rows)
    await lengthen(api, ns)
    await closed(api, ns)
    assert (await api.owner(ns, "a"))["executor"] == "e1"
    sets = await api.get(f"{ns}/executors/e1/assignments?incarnation=e1-a")
    assert [line["key"] for line in sets.body["assignments"]] == ["a", "b"]
    kinds = [event["kind"] for event in (await api.get(f"{ns}/events")).body["events"]]
    assert {"claims_adopted", "claims_closed"} <= set(kinds)


async def test_what_was_last_held_is_back_when_the_window_closes(api: Caller):
    ns = await api.namespace(is_recovering=True, **POLICY)
    assert (await held(api, ns, "e1", shards={}, last_held={"a": 7})).status == 200
    await lengthen(api, ns)
    assert (await api.get(f"{ns}/shards")).body["shards"] == []
    await closed(api, ns)
    owner = await api.owner(ns, "a")
    assert owner["executor"] == "e1"
    assert owner["epoch"] > 7


async def test_a_large_report_is_adopted_in_several_commits(api: Caller):
    ns = await api.namespace(is_recovering=True)
    shards = {f"shard-{number:05}": {"epoch": 7} for number in range(3_000)}
    assert (await held(api, ns, "e1", shards=shards)).status == 200
    assert (await api.get(ns)).body["shards"] == 3_000
    metrics = (await api.get("/metrics")).raw.decode()
    name = ns.rpartition("/")[2]
    assert f'claims_total{{namespace="{name}",outcome="adopted"}} 3000.0' in metrics
    assert f'claims_open{{namespace="{name}"}} 1.0' in metrics


async def test_an_epoch_that_no_cluster_can_have_given_is_refused(api: Caller):
    ns = await api.namespace(is_recovering=True)
    answer = await held(api, ns, "e1", shards={"a": {"epoch": 2**53 - 1}})
    assert (answer.status, answer.reason) == (422, "invalid")
    assert (await api.get(f"{ns}/executors")).body["executors"] == []


async def test_whoever_was_given_it_last_keeps_it_and_the_other_is_not_renewed(api: Caller):
    ns = await api.namespace(is_recovering=True)
    first = await held(api, ns, "e1", shards={"a": {"epoch": 7}, "b": {"epoch": 7}})
    assert first.body["not_renewed"] == []
    assert (await held(api, ns, "e2", shards={"a": {"epoch": 8}})).body["not_renewed"] == []
    again = await held(api, ns, "e1", 2, shards={"a": {"epoch": 7}, "b": {"epoch": 7}})
    assert again.body["not_renewed"] == ["a"]
    conflicts = (await api.get(f"{ns}/events?kind=claim_conflict")).body["events"]
    told = {(one["executor"], one["target"], one["shard"]) for one in conflicts}
    assert told == {("e1", "e2", "a")}


async def test_one_that_does_not_say_what_it_holds_is_closed(api: Caller):
    ns = await api.namespace(is_recovering=True)
    answer = await held(api, ns, "e1")
    assert (answer.status, answer.body["cause"]) == (409, "expired")


async def test_nothing_is_moved_by_hand_in_a_window(api: Caller):
    ns = await api.namespace(is_recovering=True)
    await held(api, ns, "e1", shards={"a": {"epoch": 7}})
    await api.join(ns, "e2")
    answer = await api.post(f"{ns}/shards/a/move", {"to": "e2"})
    assert (answer.status, answer.reason) == (503, "recovering")
