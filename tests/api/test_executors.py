import asyncio
import json
import math
import time

import msgspec
import pytest

from tests.api.nodes import Answer, Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def assignments(api: Caller, ns: str, executor: str, query: str = "") -> Answer:
    return await api.get(f"{ns}/executors/{executor}/assignments?incarnation={executor}-a{query}")


async def test_a_heartbeat_joins_and_is_told_its_lease(api: Caller):
    ns = await api.namespace(lease_ttl_s=7, heartbeat_interval_s=1)
    answer = await api.beat(ns, "e1")
    assert answer.status == 200
    cluster = answer.headers["X-Cluster-Id"]
    assert answer.body["cursor"].startswith(f"{cluster}:")
    del answer.body["cursor"]
    assert {name: answer.body[name] for name in answer.body if name not in {"cursor", "term"}} == {
        "lease_ttl_s": 7.0,
        "heartbeat_interval_s": 1.0,
        "status": "active",
        "on_lease_loss": "stop",
        "not_renewed": [],
    }


async def test_a_heartbeat_tells_what_to_do_when_no_node_can_be_reached(api: Caller):
    ns = await api.namespace(on_lease_loss="continue")
    assert (await api.beat(ns, "e1")).body["on_lease_loss"] == "continue"
    await api.ask("PATCH", ns, {"policy": {"on_lease_loss": "stop"}})
    assert (await api.beat(ns, "e1", sequence=2)).body["on_lease_loss"] == "stop"


async def test_a_heartbeat_may_come_and_be_answered_in_msgpack(api: Caller):
    ns = await api.namespace()
    body = {"incarnation": "i", "sequence": 1, "joining": True, "shards": {"a": {"epoch": 1}}}
    answer = await api.ask(
        "POST",
        f"{ns}/executors/e1/heartbeat",
        data=msgspec.msgpack.encode(body),
        headers={"Content-Type": "application/msgpack", "Accept": "application/msgpack"},
    )
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/msgpack"
    assert answer.body["status"] == "active"


@pytest.mark.parametrize("load", [math.nan, math.inf, -math.inf, -1.0, 1e13, True, "1"])
async def test_msgpack_brings_no_load_that_is_no_number(api: Caller, load: object):
    ns = await api.namespace()
    shards = {"a": {"epoch": 1, "load": load}}
    body = {"incarnation": "i", "sequence": 1, "joining": True, "shards": shards}
    answer = await api.ask(
        "POST",
        f"{ns}/executors/e1/heartbeat",
        data=msgspec.msgpack.encode(body),
        headers={"Content-Type": "application/msgpack"},
    )
    assert answer.body["errors"][0]["path"] == "shards[...].load"


async def test_an_unknown_incarnation_that_does_not_join_is_over(api: Caller):
    ns = await api.namespace()
    answer = await api.beat(ns, "e1", joining=False)
    assert (answer.status, answer.reason) == (409, "incarnation_closed")
    assert answer.body["cause"] == "expired"


async def test_a_new_incarnation_closes_the_old_one(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    assert (await api.beat(ns, "e1", incarnation="e1-b")).status == 200
    old = await api.beat(ns, "e1", 2)
    assert (old.reason, old.body["cause"]) == ("incarnation_closed", "superseded")
    poll = await assignments(api, ns, "e1")
    assert (poll.reason, poll.body["cause"]) == ("incarnation_closed", "superseded")


async def test_an_older_sequence_is_stale_and_an_equal_one_is_not(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    assert (await api.beat(ns, "e1", 5)).status == 200
    assert (await api.beat(ns, "e1", 5)).status == 200
    stale = await api.beat(ns, "e1", 4)
    assert (stale.status, stale.reason) == (409, "stale_sequence")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"incarnation": ""}, "incarnation"),
        ({"incarnation": "a" * 65}, "incarnation"),
        ({"incarnation": "a_b"}, "incarnation"),
        ({"incarnation": "ab\n"}, "incarnation"),
        ({"sequence": -1}, "sequence"),
        ({"sequence": 1.5}, "sequence"),
        ({"sequence": True}, "sequence"),
        ({"sequence": 2**53}, "sequence"),
        ({"sequence": 10**30}, "sequence"),
        ({"status": "tired"}, "status"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": -1}, "capacity"),
        ({"capacity": "1"}, "capacity"),
        ({"host": "a b"}, "host"),
        ({"address": "a\r\nb"}, "address"),
        ({"zone": "z" * 257}, "zone"),
        ({"version": "\x85"}, "version"),
        ({"host": "h" * 129}, "host"),
        ({"labels": {str(i): "" for i in range(33)}}, "labels"),
        ({"labels": {"k" * 129: ""}}, "labels"),
        ({"labels": {"k": "v" * 1025}}, "labels.k"),
        ({"shards": {"a": {"epoch": 1, "load": -0.1}}}, "shards[...].load"),
        ({"shards": {"a": {"epoch": 1, "load": True}}}, "shards[...].load"),
        ({"shards": {"a": {"epoch": 1, "lod": 1}}}, "shards[...]"),
        ({"shards": {"a": {"load": 1}}}, "shards[...]"),
        ({"shards": {"a": {"epoch": 2**53}}}, "shards[...].epoch"),
        ({"shards": []}, "shards"),
        ({"process": {"cpu_cores": -1}}, "process.cpu_cores"),
        ({"joining": 1}, "joining"),
        ({"last_held": {"a": 2**53}}, "last_held[...]"),
        ({"last_held": {"a" * 257: 1}}, "body"),
        ({"lasst_held": {}}, "body"),
    ],
)
async def test_a_bad_heartbeat_is_refused_with_its_place(
    api: Caller, fields: dict[str, object], path: str
):
    ns = await api.namespace()
    answer = await api.beat(ns, "e1", **fields)
    assert (answer.status, answer.reason) == (422, "invalid"), answer.raw
    assert answer.body["errors"][0]["path"] == path
    assert (await api.get(f"{ns}/executors")).body["executors"] == []


async def test_a_heartbeat_at_every_limit_is_taken(api: Caller):
    ns = await api.namespace()
    answer = await api.beat(
        ns,
        "e" * 128,
        incarnation="a" * 64,
        sequence=2**53 - 1,
        joining=True,
        host="h" * 128,
        zone="ä" * 256,
        labels={f"{i:0128d}": "v" * 1024 for i in range(32)},
        capacity=1e-9,
        shards={"k" * 256: {"epoch": 2**53 - 1, "load": 0}},
        process={"cpu_cores": 0, "event_loop_lag_s": 0.5, "backlog": 3},
    )
    assert answer.status == 200, answer.raw
    (shown,) = (await api.get(f"{ns}/executors")).body["executors"]
    assert len(shown["labels"]) == 32
    assert shown["process"] == {"event_loop_lag_s": 0.5, "backlog": 3.0, "cpu_cores": 0.0}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"incarnation":"a","sequence":1} x',
        b'{"incarnation":"a","sequence":NaN}',
        b'{"incarnation":"a","sequence":1,"capacity":1e999}',
        b'{"incarnation":"a","sequence":1,"capacity":Infinity}',
        b'{"incarnation":"a","sequence":' + b"9" * 5000 + b"}",
        b'{"incarnation":"a","sequence":1,"zone":' + b"[" * 100_000 + b"}",
        b'{"incarnation":"a","sequence":1,"shards":' + b'{"a":' * 50_000 + b"}",
        b'{"incarnation":"a","sequence":1,"zone":"\\ud800"}',
        b'{"incarnation":"a","sequence":1,"zone":"\xff"}',
        b"\xef\xbb\xbf{}",
    ],
)
async def test_a_body_that_is_no_heartbeat_is_refused_and_never_a_fault(api: Caller, data: bytes):
    ns = await api.namespace()
    answer = await api.ask("POST", f"{ns}/executors/e1/heartbeat", data=data)
    assert (answer.status, answer.reason) == (422, "invalid"), answer.raw


async def test_of_doubled_keys_in_a_heartbeat_the_last_wins(api: Caller):
    ns = await api.namespace()
    data = b'{"incarnation":"a","sequence":1,"joining":true,"zone":"x","zone":"y"}'
    answer = await api.ask("POST", f"{ns}/executors/e1/heartbeat", data=data)
    assert answer.status == 200
    assert (await api.get(f"{ns}/executors/e1")).body["zone"] == "y"


@pytest.mark.parametrize("executor", ["-x", "a%20b", "a%2Fb", "%0d%0aX", "e" * 129])
async def test_a_name_that_breaks_the_rule_never_joins(api: Caller, executor: str):
    ns = await api.namespace()
    body = {"incarnation": "a", "sequence": 1, "joining": True}
    answer = await api.post(f"{ns}/executors/{executor}/heartbeat", body)
    assert answer.body["errors"][0]["path"] == "executor"


async def test_assignments_are_always_the_full_set(api: Caller):
    ns = await api.namespace("fixed", 4)
    await api.join(ns, "e1")

    async def full() -> bool:
        return len((await assignments(api, ns, "e1")).body["assignments"]) == 4

    await until(full)
    answer = await assignments(api, ns, "e1")
    assert [line["key"] for line in answer.body["assignments"]] == ["0", "1", "2", "3"]
    assert {line["state"] for line in answer.body["assignments"]} == {"run"}
    assert len({line["epoch"] for line in answer.body["assignments"]}) == 4
    assert int(answer.headers["X-Revision"]) > 0
    assert float(answer.headers["X-Leader-Contact-Seconds"]) >= 0


async def test_assignments_come_in_msgpack_when_asked_for(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    answer = await api.get(
        f"{ns}/executors/e1/assignments?incarnation=e1-a", Accept="application/msgpack"
    )
    assert answer.body["assignments"] == []


async def test_a_poll_of_assignments_ends_when_its_own_set_changes(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    cursor = (await assignments(api, ns, "e1")).body["cursor"]
    poll = asyncio.ensure_future(assignments(api, ns, "e1", f"&after={cursor}&wait=20s"))
    await asyncio.sleep(0.05)
    assert not poll.done()
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    answer = await poll
    assert [line["key"] for line in answer.body["assignments"]] == ["a"]


async def test_a_poll_of_assignments_ignores_what_happens_to_others(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.join(ns, "e2")
    await api.post(f"{ns}/executors/e1/cordon")
    cursor = (await assignments(api, ns, "e1")).body["cursor"]
    poll = asyncio.ensure_future(assignments(api, ns, "e1", f"&after={cursor}&wait=600ms"))
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    assert (await api.owner(ns, "a"))["executor"] == "e2"
    assert (await poll).status == 304


async def test_a_poll_without_news_ends_in_time_and_without_a_body(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    cursor = (await assignments(api, ns, "e1")).body["cursor"]
    began = time.monotonic()
    answer = await assignments(api, ns, "e1", f"&after={cursor}&wait=400ms")
    assert (answer.status, answer.raw) == (304, b"")
    assert float(answer.headers["X-Leader-Contact-Seconds"]) < 5
    assert 0.4 * 15 / 16 - 0.02 <= time.monotonic() - began < 1.0


async def test_assignments_want_to_know_whose(api: Caller):
    ns = await api.namespace()
    missing = await api.get(f"{ns}/executors/e1/assignments")
    assert missing.body["errors"][0]["path"] == "incarnation"
    assert (await assignments(api, ns, "e1")).reason == "executor_not_found"


async def test_acknowledging_a_release_hands_the_shard_over(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    before = await api.owner(ns, "a")
    await api.join(ns, "e2")
    moved = await api.post(f"{ns}/shards/a/move", {"to": "e2"})
    assert (moved.status, moved.body["state"], moved.body["next"]) == (202, "releasing", "e2")
    ack = {"incarnation": "e1-a", "released": [{"key": "a", "epoch": before["epoch"]}]}
    for _ in range(2):  # repeated acknowledgements are harmless
        answer = await api.post(f"{ns}/executors/e1/acks", ack)
        assert answer.status == 200
    after = await api.owner(ns, "a")
    assert (after["executor"], after["epoch"] > before["epoch"]) == ("e2", True)
    assert answer.body["cursor"] == after["cursor"]


async def test_a_failed_start_places_the_shard_elsewhere(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1", "e2")
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    first = await api.owner(ns, "a")
    failed = [{"key": "a", "epoch": first["epoch"], "error": "disk full"}]
    answer = await api.post(
        f"{ns}/executors/{first['executor']}/acks",
        {"incarnation": f"{first['executor']}-a", "failed": failed},
    )
    assert answer.status == 200
    second = await api.owner(ns, "a")
    assert second["executor"] != first["executor"]


async def test_acknowledgements_of_a_closed_incarnation_are_refused(api: Caller):
    ns = await api.namespace()
    answer = await api.post(f"{ns}/executors/e1/acks", {"incarnation": "x"})
    assert (answer.reason, answer.body["cause"]) == ("incarnation_closed", "expired")


async def test_a_bad_acknowledgement_names_its_place(api: Caller):
    ns = await api.namespace()
    body = {"incarnation": "x", "released": [{"key": "", "epoch": 1}]}
    answer = await api.post(f"{ns}/executors/e1/acks", body)
    assert answer.body["errors"][0]["path"] == "released[0].key"


async def test_a_farewell_places_the_shards_elsewhere_at_once(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    await api.join(ns, "e2")
    assert (await api.owner(ns, "a"))["executor"] == "e1"
    for _ in range(2):  # saying it twice is saying it once
        assert (await api.ask("DELETE", f"{ns}/executors/e1?incarnation=e1-a")).status == 204
    assert (await api.owner(ns, "a"))["executor"] == "e2"
    late = await api.beat(ns, "e1", 2)
    assert (late.reason, late.body["cause"]) == ("incarnation_closed", "left")


async def gone_for_a_restart(api: Caller, ns: str, back_within_s: float = 20) -> None:
    """e1 has shard a and says that it will be back; e2 is there as well."""
    await api.join(ns, "e1", version="v1")
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    assert (await api.owner(ns, "a"))["executor"] == "e1"
    await api.join(ns, "e2")
    leaving = await api.beat(
        ns, "e1", 2, status="leaving", back_within_s=back_within_s, version="v1"
    )
    assert leaving.body["status"] == "cordoned"
    assert (await assignments(api, ns, "e1")).body["assignments"][0]["state"] == "run"
    left = await api.ask("DELETE", f"{ns}/executors/e1?incarnation=e1-a")
    assert left.status == 204


async def test_the_shards_of_one_that_will_be_back_are_kept_for_it(api: Caller):
    ns = await api.namespace()
    await gone_for_a_restart(api, ns)
    asked_at = time.monotonic()
    refused = await api.get(f"{ns}/shards/a/owner")
    assert (refused.status, refused.reason) == (503, "shard_unassigned")
    assert time.monotonic() - asked_at < 1  # no caller waits for a restart
    assert "e1" in refused.body["detail"]
    shard = (await api.get(f"{ns}/shards/a")).body
    assert (shard["state"], shard["reserved"], shard["executor"]) == ("vacant", "e1", None)
    returning = (await api.get(f"{ns}/executors")).body["returning"]
    assert [(one["executor"], one["shards"], one["window_s"]) for one in returning] == [
        ("e1", 1, 20.0)
    ]
    assert returning[0]["version"] == "v1"
    epoch = shard["epoch"]
    back = await api.beat(ns, "e1", incarnation="e1-b")
    assert back.status == 200
    owner = await api.owner(ns, "a")
    assert owner["executor"] == "e1"
    assert owner["epoch"] > epoch
    assert (await api.get(f"{ns}/executors")).body["returning"] == []


async def test_who_is_not_back_in_time_finds_its_shards_elsewhere(api: Caller):
    ns = await api.namespace(return_window_s=0.3)
    await gone_for_a_restart(api, ns)

    async def moved() -> bool:
        return (await api.get(f"{ns}/shards/a")).body["executor"] == "e2"

    await until(moved)


async def test_an_eviction_of_one_that_is_away_ends_its_reservation(api: Caller):
    ns = await api.namespace()
    await gone_for_a_restart(api, ns)
    answer = await api.post(f"{ns}/executors/e1/evict", {"reason": "gone for good"})
    assert answer.status == 200
    assert (answer.body["executor"], answer.body["evicted"]) == ("e1", True)
    assert (await api.owner(ns, "a"))["executor"] == "e2"


async def test_a_drain_of_one_that_is_away_ends_its_reservation(api: Caller):
    ns = await api.namespace()
    await gone_for_a_restart(api, ns)
    assert (await api.post(f"{ns}/executors/e1/drain", {"reason": "gone"})).status == 200
    assert (await api.owner(ns, "a"))["executor"] == "e2"


async def test_when_one_that_stays_says_when_it_will_be_back_it_means_nothing(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1", back_within_s=9)
    assert (await api.get(f"{ns}/executors/e1")).body["back_within_s"] is None
    await api.beat(ns, "e1", 2, status="leaving", back_within_s=9)
    shown = (await api.get(f"{ns}/executors/e1")).body
    assert (shown["leaving"], shown["back_within_s"]) == (True, 9.0)
    assert (await api.beat(ns, "e1", 3, status="leaving", back_within_s=-1)).status == 422


async def test_the_balance_says_that_versions_differ(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1", version="v1")
    await api.join(ns, "e2", version="v2")
    assert (await api.get(f"{ns}/balance")).body["skipped"] == "mixed_versions"


async def test_a_farewell_of_another_incarnation_is_refused(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    other = await api.ask("DELETE", f"{ns}/executors/e1?incarnation=other")
    assert (other.reason, other.body["cause"]) == ("incarnation_closed", "expired")
    assert (await api.ask("DELETE", f"{ns}/executors/e9?incarnation=x")).reason == (
        "executor_not_found"
    )
    assert (await api.ask("DELETE", f"{ns}/executors/e1")).body["errors"][0]["path"] == (
        "incarnation"
    )


async def test_leaving_is_drained_by_handoff(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    await api.owner(ns, "a")
    await api.join(ns, "e2")
    leaving = await api.beat(ns, "e1", 2, status="leaving")
    assert leaving.body["status"] == "draining"
    await until(lambda: api.release(ns, "e1"))
    assert (await api.owner(ns, "a"))["executor"] == "e2"
    assert (await api.beat(ns, "e1", 3, status="leaving")).body["status"] == "drained"


async def test_a_superseded_incarnation_that_says_it_stopped_hands_over_at_once(api: Caller):
    ns = await api.namespace(lease_ttl_s=300)
    await api.join(ns, "e1")
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    before = await api.owner(ns, "a")
    assert (await api.beat(ns, "e1", incarnation="e1-b")).status == 200
    successors = f"{ns}/executors/e1/assignments?incarnation=e1-b"
    assert (await api.get(successors)).body["assignments"] == []
    left = await api.ask("DELETE", f"{ns}/executors/e1?incarnation=e1-a")
    assert left.status == 204
    (row,) = (await api.get(successors)).body["assignments"]
    assert (row["key"], row["state"]) == ("a", "run")
    assert row["epoch"] > before["epoch"]


async def test_a_hundred_loads_reach_the_balance(api: Caller):
    ns = await api.namespace("fixed", 100)
    await api.join(ns, "e1")

    async def full() -> bool:
        return len((await assignments(api, ns, "e1")).body["assignments"]) == 100

    await until(full)
    held = {
        line["key"]: {"epoch": line["epoch"], "load": 0.01}
        for line in (await assignments(api, ns, "e1")).body["assignments"]
    }
    assert (await api.beat(ns, "e1", 2, shards=held)).status == 200
    shown = (await api.get(f"{ns}/executors/e1")).body
    assert shown["load"] == pytest.approx(1.0)
    assert shown["shards"] == 100
    assert json.loads(json.dumps(shown)) == shown


@pytest.mark.parametrize("_try", range(4))
async def test_a_farewell_that_the_next_incarnation_overtakes_still_hands_over_at_once(
    api: Caller, _try: int
):
    ns = await api.namespace("fixed", 2)
    await api.join(ns, "e1")
    await until(lambda: _has_all(api, ns, "e1-a", 2))
    # Both are looked at before either is decided.
    await asyncio.gather(
        api.beat(ns, "e1", incarnation="e1-b"),
        api.ask("DELETE", f"{ns}/executors/e1?incarnation=e1-a"),
    )
    await until(lambda: _has_all(api, ns, "e1-b", 2), within_s=3.0)


async def _has_all(api: Caller, ns: str, incarnation: str, count: int) -> bool:
    answer = await api.get(f"{ns}/executors/e1/assignments?incarnation={incarnation}")
    return answer.status == 200 and len(answer.body["assignments"]) == count


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("", "must be 1 to 256 bytes, is 0"),
        ("a\nb", "must not contain control characters"),
        ("a\x00b", "must not contain control characters"),
        ("a\x85b", "must not contain control characters"),
        ("k" * 257, "must be 1 to 256 bytes, is 257"),
        ("ä" * 129, "must be 1 to 256 bytes, is 258"),
    ],
)
@pytest.mark.parametrize("place", ["shards", "last_held", "released", "prepared", "failed"])
async def test_what_can_be_no_key_is_refused_wherever_it_stands_and_named(
    api: Caller, key: str, fault: str, place: str
):
    ns = await api.namespace()
    await api.join(ns, "e1")
    keys = ["good", key]
    if place in {"shards", "last_held"}:
        held: dict[str, object] = dict.fromkeys(keys, 1)
        if place == "shards":
            held = {name: {"epoch": 1} for name in keys}
        answer = await api.beat(ns, "e1", sequence=9, **{place: held})
    else:
        body = {"incarnation": "e1-a", place: [{"key": name, "epoch": 1} for name in keys]}
        answer = await api.ask("POST", f"{ns}/executors/e1/acks", body)
    assert (answer.status, answer.reason) == (422, "invalid")
    (error,) = answer.body["errors"]
    if place == "shards" or "control" in fault or (key and len(key) <= 256):
        assert error == {"path": place, "message": f"the key {key[:64]!r} {fault}"}
    # It names the place, and costs no lease: the same without it is renewed.
    assert (await api.beat(ns, "e1", sequence=10, shards={"good": {"epoch": 1}})).status == 200


async def test_keys_of_any_letters_up_to_the_bound_are_taken(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    keys = ["ä" * 128, "k" * 256, "a/b", "..", "a\u202eb", " ", "🐘"]
    held = {key: {"epoch": 1} for key in keys}
    assert (await api.beat(ns, "e1", sequence=9, shards=held)).status == 200
