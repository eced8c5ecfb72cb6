import asyncio
from typing import Any

import pytest

from coordinator.consensus import Overloaded
from coordinator.core.commands import Outcome
from coordinator.node import Node
from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def fleet(api: Caller, *keys: str, **policy: Any) -> str:
    """Two executors on two hosts; every key is owned by e1."""
    ns = await api.namespace(**policy)
    await api.join(ns, "e1", host="h1")
    for key in keys:
        await api.owner(ns, key)
    await api.join(ns, "e2", host="h2", zone="z", version="v2", capacity=2.0)
    return ns


async def test_executors_are_shown_with_what_the_leader_knows(api: Caller):
    ns = await fleet(api, "a")
    first, second = (await api.get(f"{ns}/executors")).body["executors"]
    assert (first["executor"], first["shards"], first["status"]) == ("e1", 1, "active")
    assert (second["zone"], second["version"], second["capacity"]) == ("z", "v2", 2.0)
    assert 0 <= first["heartbeat_age_s"] < 10
    alone = (await api.get(f"{ns}/executors/e1")).body
    assert alone.pop("heartbeat_age_s") >= first.pop("heartbeat_age_s")
    assert first == alone


async def test_executors_are_found_by_host_and_standing(api: Caller):
    ns = await fleet(api)
    await api.post(f"{ns}/executors/e2/cordon")

    async def names(query: str) -> list[str]:
        listed = (await api.get(f"{ns}/executors?{query}")).body["executors"]
        return [record["executor"] for record in listed]

    assert await names("host=h1") == ["e1"]
    assert await names("status=cordoned") == ["e2"]
    assert await names("host=h1&status=cordoned") == []
    assert (await api.get(f"{ns}/executors?status=odd")).reason == "invalid"
    assert (await api.get(f"{ns}/executors?host=a%20b")).reason == "invalid"


async def test_a_drain_is_followed_to_its_end(api: Caller):
    ns = await fleet(api, "a", "b")
    ordered = await api.post(f"{ns}/executors/e1/drain", {"reason": "kernel"})
    assert ordered.status == 202
    drain = ordered.body
    assert (drain["target"], drain["state"], drain["shards_left"]) == ("executor/e1", "draining", 2)
    assert (drain["reason"], drain["by"]) == ("kernel", "127.0.0.1")
    again = await api.post(f"{ns}/executors/e1/drain", {"reason": "other"})
    assert (again.body["id"], again.body["reason"]) == (drain["id"], "kernel")
    released = 0
    while released < 2:
        released += await until(lambda: api.release(ns, "e1"))
    done = (await api.get(f"{ns}/drains/{drain['id']}")).body
    assert (done["state"], done["shards_left"], done["shards_moved"]) == ("drained", 0, 2)
    assert (await api.get(f"{ns}/executors/e1")).body["status"] == "drained"
    assert (await api.owner(ns, "new"))["executor"] == "e2"


async def test_an_undrained_executor_is_used_again(api: Caller):
    ns = await fleet(api)
    drain = (await api.post(f"{ns}/executors/e1/drain")).body
    assert drain["state"] == "drained"
    assert (await api.post(f"{ns}/executors/e1/undrain")).body["status"] == "active"
    assert (await api.get(f"{ns}/drains")).body["drains"] == []
    gone = await api.get(f"{ns}/drains/{drain['id']}")
    assert (gone.status, gone.reason) == (404, "drain_not_found")


async def test_a_drain_that_cannot_go_on_says_why(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a")
    alone = (await api.post(f"{ns}/executors/e1/drain", {"force": True})).body
    assert alone["state"] == "blocked"
    assert alone["blocked"] == [{"key": "a", "reason": "no_target"}]


async def test_a_pinned_shard_blocks_the_drain_of_its_executor(api: Caller):
    ns = await fleet(api, "a")
    await api.post(f"{ns}/shards/a/pin", {"executor": "e1"})
    drain = (await api.post(f"{ns}/executors/e1/drain")).body
    assert drain["blocked"] == [{"key": "a", "reason": "pinned"}]


async def test_a_host_is_drained_for_executors_present_and_future(api: Caller):
    ns = await fleet(api, "a")
    drain = (await api.post(f"{ns}/hosts/h1/drain")).body
    assert (drain["target"], drain["shards_left"]) == ("host/h1", 1)
    await api.join(ns, "e3", host="h1")
    assert (await api.get(f"{ns}/executors/e3")).body["status"] == "drained"
    ended = (await api.post(f"{ns}/hosts/h1/undrain")).body
    assert ended == {
        "host": "h1",
        "status": "active",
        "drain": None,
        "cordon": None,
        "executors": ["e1", "e3"],
    }


async def test_a_host_may_be_ordered_about_before_anybody_is_there(api: Caller):
    ns = await api.namespace()
    assert (await api.post(f"{ns}/hosts/h9/cordon")).body["status"] == "cordoned"
    await api.join(ns, "e1", host="h9")
    assert (await api.get(f"{ns}/executors/e1")).body["status"] == "cordoned"
    assert (await api.post(f"{ns}/hosts/h9/uncordon")).body["status"] == "active"
    assert (await api.get(f"{ns}/executors/e1")).body["status"] == "active"


async def test_a_cordoned_executor_keeps_what_it_has_and_gets_nothing(api: Caller):
    ns = await fleet(api, "a")
    assert (await api.post(f"{ns}/executors/e1/cordon")).body["status"] == "cordoned"
    assert (await api.owner(ns, "a"))["executor"] == "e1"
    assert {(await api.owner(ns, f"n{i}"))["executor"] for i in range(4)} == {"e2"}
    assert (await api.post(f"{ns}/executors/e1/uncordon")).body["status"] == "active"


@pytest.mark.parametrize("verb", ["drain", "cordon", "evict"])
async def test_orders_for_an_unknown_executor_are_refused(api: Caller, verb: str):
    ns = await api.namespace()
    answer = await api.post(f"{ns}/executors/e9/{verb}")
    assert (answer.status, answer.reason) == (404, "executor_not_found")


async def test_an_evicted_executor_keeps_its_shards_until_its_lease_is_over(api: Caller):
    ns = await fleet(api, "a")
    answer = await api.post(f"{ns}/executors/e1/evict", {"reason": "stuck"})
    assert (answer.status, answer.body["evicted"], answer.body["shards"]) == (202, True, 1)
    assert "warning" not in answer.body
    late = await api.beat(ns, "e1", 2)
    assert (late.reason, late.body["cause"]) == ("incarnation_closed", "evicted")
    assert (await api.owner(ns, "a"))["executor"] == "e1"


async def test_a_forced_eviction_moves_the_shards_at_once_and_says_what_that_risks(api: Caller):
    ns = await fleet(api, "a")
    answer = await api.post(f"{ns}/executors/e1/evict", {"force": True})
    assert answer.status == 200
    assert "two owners" in answer.body["warning"]
    assert (await api.owner(ns, "a"))["executor"] == "e2"
    assert (await api.get(f"{ns}/executors/e1")).reason == "executor_not_found"


async def test_an_eviction_that_names_an_incarnation_spares_the_next_one(api: Caller):
    ns = await fleet(api, "a")
    seen = (await api.get(f"{ns}/executors/e1")).body["incarnation"]
    assert (await api.beat(ns, "e1", 1, incarnation="e1-b", joining=True)).status == 200
    late = await api.post(f"{ns}/executors/e1/evict", {"incarnation": seen, "force": True})
    assert (late.status, late.reason) == (409, "conflict")
    assert "e1-b" in late.body["detail"]
    assert (await api.beat(ns, "e1", 2, incarnation="e1-b")).status == 200
    named = await api.post(f"{ns}/executors/e1/evict", {"incarnation": "e1-b"})
    assert named.status in {200, 202}
    assert (await api.beat(ns, "e1", 3, incarnation="e1-b")).body["cause"] == "evicted"


async def test_an_eviction_repeated_under_its_key_spares_the_next_incarnation(api: Caller):
    ns = await fleet(api, "a")
    order = (f"{ns}/executors/e1/evict", {"force": True})
    assert (await api.post(*order, **{"Idempotency-Key": f"k{ns}"})).status == 200
    assert (await api.beat(ns, "e1", 1, incarnation="e1-b", joining=True)).status == 200
    repeated = await api.post(*order, **{"Idempotency-Key": f"k{ns}"})
    assert repeated.status in {200, 202}
    assert (await api.beat(ns, "e1", 2, incarnation="e1-b")).status == 200


async def test_a_shard_is_shown_with_why_it_is_where_it_is(api: Caller):
    ns = await fleet(api, "a")
    shard = (await api.get(f"{ns}/shards/a")).body
    assert (shard["state"], shard["executor"], shard["host"]) == ("owned", "e1", "h1")
    assert (shard["why"], shard["next_why"], shard["previous"]) == ("placed", None, None)
    await api.post(f"{ns}/shards/a/move", {"to": "e2", "reason": "test"})
    await api.release(ns, "e1")
    shard = (await api.get(f"{ns}/shards/a")).body
    assert (shard["executor"], shard["why"], shard["previous"]) == ("e2", "operator", "e1")


async def test_shards_are_paged_by_key_without_gap_or_repetition(api: Caller):
    ns = await api.namespace()
    keys = sorted([f"k{i}" for i in range(23)] + ["a/b", "ä"])
    await api.post(f"{ns}/shards", {"keys": keys})
    seen: list[str] = []
    page, pages = "", 0
    while True:
        answer = (await api.get(f"{ns}/shards?limit=10{page}")).body
        assert answer["total"] == 25
        seen += [shard["key"] for shard in answer["shards"]]
        pages += 1
        if answer["next_page"] is None:
            break
        page = f"&page={answer['next_page']}"
    assert (seen, pages) == (keys, 3)


async def test_shards_are_paged_heaviest_first(api: Caller):
    ns = await fleet(api, "a", "b", "c")
    held = {key: {"epoch": (await api.owner(ns, key))["epoch"]} for key in "abc"}
    for load, key in enumerate("abc"):
        held[key]["load"] = float(load)
    await api.beat(ns, "e1", 2, shards=held)
    await api.post(f"{ns}/shards", {"keys": ["unmeasured"]})
    first = (await api.get(f"{ns}/shards?sort=load&limit=2")).body
    assert [(s["key"], s["load"]) for s in first["shards"]] == [("c", 2.0), ("b", 1.0)]
    rest = (await api.get(f"{ns}/shards?sort=load&limit=2&page={first['next_page']}")).body
    assert [s["key"] for s in rest["shards"]] == ["a", "unmeasured"]
    assert rest["next_page"] is None


async def test_shards_are_found_by_owner_and_state(api: Caller):
    ns = await fleet(api, "a", "b")
    await api.post(f"{ns}/shards/b/drain")

    async def keys(query: str) -> list[str]:
        return [s["key"] for s in (await api.get(f"{ns}/shards?{query}")).body["shards"]]

    assert await keys("executor=e1") == ["a", "b"]
    assert await keys("executor=e2") == []
    assert await keys("state=releasing") == ["b"]
    assert await keys("executor=e1&state=owned") == ["a"]
    for query in ("state=odd", "sort=odd", "limit=0", "limit=1001", "page=%21", "executor=-"):
        assert (await api.get(f"{ns}/shards?{query}")).reason == "invalid", query
    assert (await api.get(f"{ns}/shards?sort=load&page=YQ")).reason == "invalid"


async def test_a_parked_shard_is_stopped_and_placed_again_when_undrained(api: Caller):
    ns = await fleet(api, "a")
    parking = await api.post(f"{ns}/shards/a/drain", {"reason": "poison"})
    assert (parking.status, parking.body["state"], parking.body["parked"]) == (
        202,
        "releasing",
        "poison",
    )
    await api.release(ns, "e1")
    parked = (await api.post(f"{ns}/shards/a/drain")).body
    assert (parked["state"], parked["executor"], parked["parked"]) == ("parked", None, "poison")
    await api.post(f"{ns}/shards/a/undrain")
    assert (await api.owner(ns, "a"))["state"] == "owned"
    assert (await api.get(f"{ns}/shards/a")).body["parked"] is None


async def test_a_pinned_shard_is_brought_to_its_executor(api: Caller):
    ns = await fleet(api, "a")
    pinned = await api.post(f"{ns}/shards/a/pin", {"executor": "e2", "reason": "ssd"})
    assert (pinned.status, pinned.body["pinned"]) == (202, "e2")
    await until(lambda: api.release(ns, "e1"))
    assert (await api.owner(ns, "a"))["executor"] == "e2"
    refused = await api.post(f"{ns}/shards/a/move", {"to": "e1"})
    assert (refused.status, refused.reason) == (409, "conflict")
    unpinned = await api.post(f"{ns}/shards/a/unpin")
    assert (unpinned.status, unpinned.body["pinned"]) == (200, None)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("drain", {}),
        ("undrain", {}),
        ("unpin", {}),
        ("pin", {"executor": "e1"}),
        ("move", {"to": "e1"}),
    ],
)
async def test_orders_for_an_unknown_shard_are_refused(
    api: Caller, verb: str, body: dict[str, str]
):
    ns = await fleet(api)
    answer = await api.post(f"{ns}/shards/nowhere/{verb}", body)
    assert (answer.status, answer.reason) == (404, "shard_not_found")


@pytest.mark.parametrize(("verb", "field"), [("pin", "executor"), ("move", "to")])
async def test_a_shard_cannot_be_sent_to_nobody(api: Caller, verb: str, field: str):
    ns = await fleet(api, "a")
    assert (await api.post(f"{ns}/shards/a/{verb}", {field: "e9"})).reason == "executor_not_found"
    assert (await api.post(f"{ns}/shards/a/{verb}", {field: "-"})).reason == "invalid"
    assert (await api.post(f"{ns}/shards/a/{verb}", {})).reason == "invalid"
    assert (await api.ask("POST", f"{ns}/shards/a/{verb}")).reason == "invalid"


async def test_a_move_to_a_closed_or_parked_place_is_refused(api: Caller):
    ns = await fleet(api, "a")
    await api.post(f"{ns}/executors/e2/cordon")
    assert (await api.post(f"{ns}/shards/a/move", {"to": "e2"})).reason == "conflict"
    await api.post(f"{ns}/shards/a/drain")
    assert (await api.post(f"{ns}/shards/a/move", {"to": "e1"})).reason == "shard_parked"


async def test_a_move_to_where_it_is_is_done_already(api: Caller):
    ns = await fleet(api, "a")
    answer = await api.post(f"{ns}/shards/a/move", {"to": "e1"})
    assert (answer.status, answer.body["state"]) == (200, "owned")


async def test_declaring_counts_what_is_new(api: Caller):
    ns = await api.namespace()
    first = await api.post(f"{ns}/shards", {"keys": ["a", "b", "a"]})
    assert (first.status, first.body["created"], first.body["existing"]) == (201, 2, 0)
    second = await api.post(f"{ns}/shards", {"keys": ["b", "c"]})
    assert (second.body["created"], second.body["existing"]) == (1, 1)
    third = await api.post(f"{ns}/shards", {"keys": ["b"]})
    assert (third.status, third.body["created"]) == (200, 0)


async def test_declaring_stops_at_the_namespaces_bound(api: Caller):
    ns = await api.namespace(max_shards=2)
    await api.post(f"{ns}/shards", {"keys": ["a", "b"]})
    answer = await api.post(f"{ns}/shards", {"keys": ["c"]})
    assert (answer.status, answer.reason) == (429, "quota_exceeded")
    await api.join(ns, "e1")
    assert (await api.get(f"{ns}/shards/c/owner")).reason == "quota_exceeded"
    assert (await api.get(f"{ns}/shards")).body["total"] == 2


@pytest.mark.parametrize("keys", [[], [""], ["a\n"], ["k" * 257], [1], "a", None])
async def test_bad_keys_are_not_declared(api: Caller, keys: object):
    ns = await api.namespace()
    assert (await api.post(f"{ns}/shards", {"keys": keys})).reason == "invalid"
    assert (await api.get(f"{ns}/shards")).body["total"] == 0


async def test_a_fixed_namespace_neither_declares_nor_retires(api: Caller):
    ns = await api.namespace("fixed", 2)
    assert (await api.post(f"{ns}/shards", {"keys": ["2"]})).reason == "shard_not_found"
    assert (await api.ask("DELETE", f"{ns}/shards/1")).reason == "conflict"


async def test_a_retired_shard_is_forgotten_once_it_is_stopped(api: Caller):
    ns = await fleet(api, "a")
    await api.post(f"{ns}/executors/e1/cordon")
    await api.post(f"{ns}/executors/e2/cordon")
    await api.post(f"{ns}/shards", {"keys": ["idle"]})
    assert (await api.ask("DELETE", f"{ns}/shards/idle")).status == 204
    going = await api.ask("DELETE", f"{ns}/shards/a")
    assert (going.status, going.body["retiring"]) == (202, True)
    await api.release(ns, "e1")
    assert (await api.get(f"{ns}/shards/a")).reason == "shard_not_found"
    assert (await api.ask("DELETE", f"{ns}/shards/a")).reason == "shard_not_found"


async def test_the_balance_is_told_with_its_best_possible(api: Caller):
    ns = await fleet(api, "a", "b", "c")
    held = {}
    for load, key in ((3.0, "a"), (1.0, "b"), (1.0, "c")):
        held[key] = {"epoch": (await api.owner(ns, key))["epoch"], "load": load}
    await api.beat(ns, "e1", 2, shards=held)
    told = (await api.get(f"{ns}/balance")).body
    five = pytest.approx(5.0)  # a sum of sums under weights: right but for its last digit
    assert (told["hottest_executor"], told["hottest"], told["coldest"]) == ("e1", five, 0.0)
    assert told["mean"] == pytest.approx(5 / 3)
    assert told["executors"][0] == {
        "executor": "e1",
        "load": five,
        "share": pytest.approx(1.0),
        "utilisation": five,
        "shards": 3,
    }
    assert told["gap"] == pytest.approx(told["spread"] - told["best_possible"])
    assert told["mode"] == "on"


async def test_the_last_pass_is_told_with_its_moves(api: Caller):
    ns = await api.namespace(
        lease_ttl_s=1,
        heartbeat_interval_s=0.5,
        join_ramp_ratio=1,
        balancer={"interval_s": 0.05, "smoothing_horizon_s": 1, "cooldown_s": 60},
    )
    await api.join(ns, "e1")
    held = {}
    for key in "abcd":
        held[key] = {"epoch": (await api.owner(ns, key))["epoch"], "load": 1.0}
    await api.join(ns, "e2")
    sequence = iter(range(2, 1000))

    async def balanced() -> dict[str, Any] | None:
        number = next(sequence)
        await api.beat(ns, "e1", number, shards=held)
        await api.beat(ns, "e2", number, shards={})
        last = (await api.get(f"{ns}/balance")).body["last_pass"]
        return last if last and last["moves"] else None

    last = await until(balanced)
    assert last["moves"] == len(last["moved"]) == 2
    assert {(m["source"], m["target"]) for m in last["moved"]} == {("e1", "e2")}
    assert last["moved_load"] == pytest.approx(2.0)
    assert last["spread_after"] < last["spread_before"]

    async def begun() -> dict[str, Any] | None:  # a pass is told when it is planned
        shard: dict[str, Any] = (await api.get(f"{ns}/shards/{last['moved'][0]['key']}")).body
        return shard if shard["next"] else None

    cooling = await until(begun)
    assert (cooling["next_why"], cooling["next"]) == ("balance", "e2")
    assert 0 < cooling["cooldown_left_s"] <= 60
    figures = (await api.get("/metrics")).raw.decode()
    name = ns.rpartition("/")[2]
    assert f'shard_coordinator_moves_total{{namespace="{name}",reason="balance"}} 2.0' in figures


async def test_orders_for_what_is_in_no_namespace_are_refused(api: Caller):
    for path in ("executors/e/drain", "hosts/h/drain", "shards/a/drain", "balance/pause"):
        answer = await api.post(f"/v1/namespaces/nowhere/{path}")
        assert (answer.status, answer.reason) == (404, "namespace_not_found")
    for path in ("executors", "executors/e", "drains", "drains/d", "shards", "shards/a", "balance"):
        answer = await api.get(f"/v1/namespaces/nowhere/{path}")
        assert (answer.status, answer.reason) == (404, "namespace_not_found")
    ns = await api.namespace()
    assert (await api.get(f"{ns}/executors/e9")).reason == "executor_not_found"
    assert (await api.get(f"{ns}/drains/d-9")).reason == "drain_not_found"


async def test_who_gave_an_order_is_an_address_and_nothing_else(api: Caller):
    ns = await api.namespace()
    told = await api.post(f"{ns}/hosts/a/drain", **{"X-Forwarded-Caller": "10.1.2.3"})
    assert told.body["by"] == "10.1.2.3"
    odd = await api.post(f"{ns}/hosts/b/drain", **{"X-Forwarded-Caller": "root; rm -rf"})
    assert odd.body["by"] == "127.0.0.1"


async def test_a_paused_balancer_says_who_why_and_until_when(api: Caller):
    ns = await fleet(api)
    paused = (await api.post(f"{ns}/balance/pause", {"reason": "exam", "expires_in_s": 60})).body
    assert (paused["paused"], paused["paused_reason"], paused["skipped"]) == (
        True,
        "exam",
        "paused",
    )
    assert paused["pause"]["by"] == "127.0.0.1"
    assert paused["pause"]["until"] > paused["pause"]["since"]
    resumed = (await api.post(f"{ns}/balance/resume")).body
    assert (resumed["paused"], resumed["pause"]) == (False, None)


async def test_a_pause_runs_out_by_itself(api: Caller):
    ns = await fleet(api)
    await api.post(f"{ns}/balance/pause", {"expires_in_s": 0.05})
    await asyncio.sleep(0.1)
    assert not (await api.get(f"{ns}/balance")).body["paused"]
    for bad in (0, -1, 30 * 86_400 + 1, "1"):
        assert (await api.post(f"{ns}/balance/pause", {"expires_in_s": bad})).reason == "invalid"


@pytest.mark.parametrize(
    ("method", "path", "body", "unchanged"),
    [
        ("POST", "/executors/e1/drain", {}, "/drains"),
        ("POST", "/executors/e1/undrain", {}, "/drains"),
        ("POST", "/executors/e1/cordon", {}, "/executors?status=cordoned"),
        ("POST", "/executors/e1/uncordon", {}, "/executors?status=cordoned"),
        ("POST", "/executors/e1/evict", {"force": True}, "/shards"),
        ("POST", "/hosts/h1/drain", {}, "/drains"),
        ("POST", "/hosts/h1/undrain", {}, "/drains"),
        ("POST", "/hosts/h1/cordon", {}, "/executors?status=cordoned"),
        ("POST", "/hosts/h1/uncordon", {}, "/executors?status=cordoned"),
        ("POST", "/shards/a/drain", {}, "/shards"),
        ("POST", "/shards/a/undrain", {}, "/shards"),
        ("POST", "/shards/a/pin", {"executor": "e2"}, "/shards"),
        ("POST", "/shards/a/unpin", {}, "/shards"),
        ("POST", "/shards/a/move", {"to": "e2"}, "/shards"),
        ("POST", "/shards", {"keys": ["z"]}, "/shards"),
        ("DELETE", "/shards/a", None, "/shards"),
        ("POST", "/balance/pause", {}, ""),
        ("POST", "/balance/resume", {}, ""),
        ("PATCH", "", {"policy": {"lease_ttl_s": 30}}, ""),
    ],
)
async def test_a_dry_run_tells_and_changes_nothing(
    api: Caller, method: str, path: str, body: Any, unchanged: str
):
    ns = await fleet(api, "a")
    before = (await api.get(ns)).body["cursor"]
    shown = (await api.get(ns + unchanged)).body
    answer = await api.ask(method, f"{ns}{path}?dry_run=true", body)
    assert answer.status == 200, answer.raw
    assert answer.body["dry_run"]
    assert answer.body["would"]
    assert (await api.get(ns)).body["cursor"] == before
    after = (await api.get(ns + unchanged)).body
    for volatile in ("heartbeat_age_s", "cooldown_left_s"):
        for table in (shown, after):
            for rows in table.values():
                for row in rows if isinstance(rows, list) else []:
                    row.pop(volatile, None)
    assert after == shown


async def test_a_dry_run_of_whole_namespaces_changes_nothing(api: Caller):
    ns = await api.namespace()
    name = ns.rpartition("/")[2]
    made = await api.ask("PUT", f"{ns}-b?dry_run=true", {"kind": "open"})
    assert made.body["creates"]
    assert (await api.get(f"{ns}-b")).reason == "namespace_not_found"
    assert (await api.ask("DELETE", f"{ns}?confirm={name}&dry_run=true")).body["dry_run"]
    assert (await api.get(ns)).status == 200


async def test_a_dry_run_is_refused_as_the_order_would_be(api: Caller):
    ns = await fleet(api, "a")
    answer = await api.post(f"{ns}/shards/a/move?dry_run=true", {"to": "e9"})
    assert answer.reason == "executor_not_found"
    assert (await api.post(f"{ns}/shards/a/unpin?dry_run=maybe")).reason == "invalid"
    assert (await api.post(f"{ns}/shards/a/unpin?dryrun=true")).reason == "invalid"


async def test_an_order_repeated_under_its_key_is_made_once(api: Caller):
    ns = await fleet(api)
    key = {"Idempotency-Key": f"drain {ns}"}
    first = await api.post(f"{ns}/executors/e1/drain", {"reason": "x"}, **key)
    again = await api.post(f"{ns}/executors/e1/drain", {"reason": "x"}, **key)
    assert (again.status, again.body["id"]) == (first.status, first.body["id"])
    await api.post(f"{ns}/executors/e1/undrain")
    late = await api.post(f"{ns}/executors/e1/drain", {"reason": "x"}, **key)
    assert late.reason == "drain_not_found"
    assert (await api.get(f"{ns}/drains")).body["drains"] == []


async def test_a_refusal_is_remembered_under_its_key_as_well(api: Caller):
    ns = await api.namespace()
    key = {"Idempotency-Key": f"cordon {ns}"}
    assert (await api.post(f"{ns}/executors/e1/cordon", **key)).reason == "executor_not_found"
    await api.join(ns, "e1")
    assert (await api.post(f"{ns}/executors/e1/cordon", **key)).reason == "executor_not_found"
    assert (await api.post(f"{ns}/executors/e1/cordon")).status == 200


async def test_a_creation_repeated_under_its_key_is_created_again_in_the_answer(api: Caller):
    path, body = "/v1/namespaces/once-only", {"kind": "open"}
    key = {"Idempotency-Key": "create once-only"}
    answers = [await api.ask("PUT", path, body, headers=key) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201]
    await api.ask("DELETE", f"{path}?confirm=once-only")


@pytest.mark.parametrize(
    ("path", "body"),
    [("e1/drain", {"reason": "y"}), ("e2/drain", {"reason": "x"}), ("e1/cordon", {"reason": "x"})],
)
async def test_a_key_that_comes_with_another_request_is_refused(
    api: Caller, path: str, body: dict[str, str]
):
    ns = await fleet(api)
    key = {"Idempotency-Key": f"{path} {ns}"}
    await api.post(f"{ns}/executors/e1/drain", {"reason": "x"}, **key)
    answer = await api.post(f"{ns}/executors/{path}", body, **key)
    assert (answer.status, answer.reason) == (422, "idempotency_key_reused")


async def test_a_key_is_at_most_128_printable_bytes(api: Caller):
    ns = await fleet(api)
    longest = (ns + "k" * 128)[:128]
    answer = await api.post(f"{ns}/executors/e1/uncordon", **{"Idempotency-Key": longest})
    assert answer.status == 200
    for key in ("k" * 129, "", "\xe4", "a\tb"):
        answer = await api.post(f"{ns}/executors/e1/uncordon", **{"Idempotency-Key": key})
        assert answer.body["errors"][0]["path"] == "Idempotency-Key", key


@pytest.mark.parametrize(
    "data",
    [
        b'{"reason":"a","reason":"b"}',
        b'{"reason":"' + b"r" * 1025 + b'"}',
        b'{"reason":1}',
        b'{"reason":null}',
        b'{"because":"a"}',
        b"[" * 100_000,
        b"[]",
        b"{",
    ],
)
async def test_an_order_that_is_not_well_formed_is_not_carried_out(api: Caller, data: bytes):
    ns = await fleet(api)
    answer = await api.ask("POST", f"{ns}/executors/e1/cordon", data=data[: 64 << 10])
    assert (answer.status, answer.reason) == (422, "invalid")
    assert (await api.get(f"{ns}/executors/e1")).body["status"] == "active"


async def test_a_reason_of_1024_characters_is_kept_whole(api: Caller):
    ns = await fleet(api)
    reason = "ä" * 1024
    assert (await api.post(f"{ns}/executors/e1/drain", {"reason": reason})).body["reason"] == reason


async def test_an_order_without_a_body_takes_the_defaults(api: Caller):
    ns = await fleet(api)
    assert (await api.ask("POST", f"{ns}/executors/e1/cordon")).status == 200


async def test_an_order_that_did_not_get_into_the_log_leaves_its_executor_alive(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch
):
    ns = await api.namespace()
    await api.join(ns, "e1")

    async def full(*_: object, **__: object) -> Outcome:
        raise Overloaded("full")

    with monkeypatch.context() as patch:
        patch.setattr(node.replica, "execute", full)
        refused = await api.post(f"{ns}/executors/e1/evict", {"reason": "stuck"})
    assert refused.status == 429
    assert (await api.beat(ns, "e1", 2)).status == 200
