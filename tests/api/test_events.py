"""Events over HTTP: pages, filters, cursors, waiting."""

import asyncio
from typing import Any

import pytest

from coordinator.core.events import EVENTS_MAX
from coordinator.node import Node
from tests.api.nodes import Caller

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def fleet(api: Caller) -> str:
    """Two executors, one shard on e1."""
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a")
    await api.join(ns, "e2", host="h2")
    return ns


async def events(api: Caller, ns: str, query: str = "") -> dict[str, Any]:
    answer = await api.get(f"{ns}/events{query}")
    assert answer.status == 200, answer.raw
    found: dict[str, Any] = answer.body
    return found


def kinds(page: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in page["events"]]


async def test_what_happened_is_told_oldest_first_with_who_and_why(api: Caller):
    ns = await fleet(api)
    await api.post(f"{ns}/shards/a/move", {"to": "e2", "reason": "hot"})
    page = await events(api, ns)
    assert kinds(page) == [
        "executor_joined",
        "shards_placed",
        "executor_joined",
        "move_ordered",
        "handoff_started",
    ]
    moved = page["events"][3]
    assert (moved["shard"], moved["executor"], moved["target"]) == ("a", "e1", "e2")
    assert (moved["by"], moved["reason"]) == ("127.0.0.1", "hot")
    assert moved["at"].endswith("Z")
    ids = [event["id"] for event in page["events"]]
    assert ids == sorted(ids)
    assert (page["more"], page["missed"]) == (False, False)


async def test_every_order_tells_who_gave_it_and_why(api: Caller):
    ns = await fleet(api)
    orders: list[tuple[str, dict[str, str], str]] = [
        ("executors/e2/drain", {"reason": "r"}, "drain_started"),
        ("executors/e2/undrain", {"reason": "r"}, "drain_ended"),
        ("executors/e2/cordon", {"reason": "r"}, "cordon_started"),
        ("executors/e2/uncordon", {"reason": "r"}, "cordon_ended"),
        ("hosts/h2/drain", {"reason": "r"}, "drain_started"),
        ("hosts/h2/undrain", {"reason": "r"}, "drain_ended"),
        ("hosts/h2/cordon", {"reason": "r"}, "cordon_started"),
        ("hosts/h2/uncordon", {"reason": "r"}, "cordon_ended"),
        ("shards/a/pin", {"executor": "e1", "reason": "r"}, "shard_pinned"),
        ("shards/a/unpin", {"reason": "r"}, "shard_unpinned"),
        ("shards/a/drain", {"reason": "r"}, "shard_parked"),
        ("shards/a/undrain", {"reason": "r"}, "shard_unparked"),
        ("balance/pause", {"reason": "r"}, "balancer_paused"),
        ("balance/resume", {"reason": "r"}, "balancer_resumed"),
        ("executors/e2/evict", {"reason": "r"}, "executor_evicted"),
    ]
    for path, body, kind in orders:
        after = (await events(api, ns))["cursor"]
        assert (await api.post(f"{ns}/{path}", body)).status in {200, 202}
        (event,) = (await events(api, ns, f"?after={after}&kind={kind}"))["events"]
        assert (event["by"], event["reason"]) == ("127.0.0.1", "r"), path
        assert event["at"] > "2020"
    await api.ask("PATCH", ns, {"policy": {"lease_ttl_s": 30}})
    changed = (await events(api, ns, "?kind=policy_changed"))["events"][-1]
    assert changed["detail"] == "lease_ttl_s 20.0 -> 30.0"
    assert changed["by"] == "127.0.0.1"
    await api.ask("DELETE", f"{ns}/shards/a")
    assert (await events(api, ns, "?kind=shard_retired"))["events"][0]["by"] == "127.0.0.1"


async def test_events_are_found_by_kind_shard_and_executor(api: Caller):
    ns = await fleet(api)
    await api.post(f"{ns}/shards/a/move", {"to": "e2"})
    joined = await events(api, ns, "?kind=executor_joined")
    assert [event["executor"] for event in joined["events"]] == ["e1", "e2"]
    both = await events(api, ns, "?kind=executor_joined,move_ordered")
    assert kinds(both) == ["executor_joined", "executor_joined", "move_ordered"]
    assert kinds(await events(api, ns, "?shard=a&executor=e2")) == [
        "move_ordered",
        "handoff_started",
    ]
    assert kinds(await events(api, ns, "?executor=e9")) == []


@pytest.mark.parametrize(
    "query",
    ["kind=odd", "shard=", "executor=a%20b", "limit=0", "limit=1001", "wait=5s", "after=x", "x=1"],
)
async def test_a_question_that_is_not_well_formed_is_refused(api: Caller, query: str):
    ns = await api.namespace()
    assert (await api.get(f"{ns}/events?{query}")).reason == "invalid"


async def test_pages_join_without_gap_or_repetition(api: Caller):
    ns = await api.namespace()
    start = (await events(api, ns))["cursor"]
    await api.join(ns, *(f"e{number}" for number in range(7)))
    seen, cursor = [], start
    while True:
        page = await events(api, ns, f"?after={cursor}&limit=3")
        assert not page["missed"]
        seen += [event["executor"] for event in page["events"]]
        cursor = page["cursor"]
        if not page["more"]:
            break
    assert seen == [f"e{number}" for number in range(7)]
    newest = await events(api, ns, "?limit=2")
    assert [event["executor"] for event in newest["events"]] == ["e5", "e6"]
    assert newest["cursor"] == cursor
    assert (await api.get(f"{ns}/events?after={cursor}")).status == 304


async def test_a_poll_is_answered_by_the_event_it_waits_for_and_by_no_other(api: Caller):
    ns = await fleet(api)
    cursor = (await events(api, ns))["cursor"]
    query = f"?after={cursor}&wait=10s&kind=drain_started"
    waiting = asyncio.ensure_future(api.get(f"{ns}/events{query}"))
    await asyncio.sleep(0.1)
    await api.post(f"{ns}/executors/e2/cordon")
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await api.post(f"{ns}/executors/e2/drain", {"reason": "kernel"})
    answer = await asyncio.wait_for(waiting, 2)
    assert kinds(answer.body) == ["drain_started"]


async def test_changes_that_are_no_events_wake_nobody(api: Caller, node: Node):
    ns = await fleet(api)
    cursor = (await events(api, ns))["cursor"]
    waiting = asyncio.ensure_future(api.get(f"{ns}/events?after={cursor}&wait=1s"))
    await asyncio.sleep(0.1)
    before = node.replica.state.namespaces[ns.rpartition("/")[2]].revision
    await api.beat(ns, "e1", 2, address="elsewhere:1")
    assert node.replica.state.namespaces[ns.rpartition("/")[2]].revision > before
    assert (await waiting).status == 304


async def test_a_wait_in_vain_gives_a_cursor_past_what_was_not_wanted(api: Caller):
    ns = await fleet(api)
    cursor = (await events(api, ns))["cursor"]
    query = "&wait=300ms&kind=executor_lost"
    waiting = asyncio.ensure_future(events(api, ns, f"?after={cursor}{query}"))
    await asyncio.sleep(0.1)
    await api.post(f"{ns}/executors/e2/cordon")
    page = await waiting
    assert (page["events"], page["missed"]) == ([], False)
    assert page["cursor"] != cursor
    assert (await api.get(f"{ns}/events?after={page['cursor']}{query}")).status == 304


async def test_who_comes_too_late_or_from_another_cluster_is_told_that_it_missed_some(
    api: Caller, node: Node
):
    ns = await fleet(api)
    page = await events(api, ns, "?limit=1")
    strange = await events(api, ns, "?after=elsewhere:5")
    assert strange["missed"]
    assert len(strange["events"]) == 3
    ring = node.replica.state.namespaces[ns.rpartition("/")[2]].events
    first = (await events(api, ns))["events"][0]["id"]
    cluster_id = page["cursor"].partition(":")[0]
    assert not (await events(api, ns, f"?after={cluster_id}:0"))["missed"]
    ring.forgotten = first  # as if it had fallen out of a ring of EVENTS_MAX
    assert EVENTS_MAX >= 1000
    assert (await events(api, ns, f"?after={cluster_id}:0"))["missed"]
    assert not (await events(api, ns, f"?after={cluster_id}:{first}"))["missed"]
    ring.forgotten = 0


async def test_a_cursor_ahead_of_this_node_is_never_led_back(api: Caller):
    ns = await fleet(api)
    cluster_id = (await events(api, ns))["cursor"].partition(":")[0]
    answer = await api.get(f"{ns}/events?after={cluster_id}:{2**52}")
    assert (answer.status, answer.reason) == (503, "recovering")


async def test_a_namespace_that_goes_ends_the_wait(api: Caller):
    ns = await api.namespace()
    cursor = (await events(api, ns))["cursor"]
    waiting = asyncio.ensure_future(api.get(f"{ns}/events?after={cursor}&wait=10s"))
    await asyncio.sleep(0.1)
    await api.ask("DELETE", f"{ns}?confirm={ns.rpartition('/')[2]}")
    assert (await asyncio.wait_for(waiting, 2)).reason == "namespace_not_found"
