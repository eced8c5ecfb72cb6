"""Orders taken back over HTTP, and who owned a shard at a time that is past."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def fleet(api: Caller) -> str:
    """Two executors on two hosts, a shard on the first."""
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a")
    await api.join(ns, "e2", host="h2")
    return ns


async def orders(api: Caller, ns: str, query: str = "") -> list[dict[str, Any]]:
    answer = await api.get(f"{ns}/events?orders=true{query}")
    assert answer.status == 200, answer.raw
    found: list[dict[str, Any]] = answer.body["events"]
    return found


async def test_a_wrong_pin_is_taken_back_and_that_is_an_event_of_its_own(api: Caller):
    ns = await fleet(api)
    await api.post(f"{ns}/shards/a/pin", {"executor": "e2", "reason": "oops"})
    (pinned,) = await orders(api, ns)
    assert (pinned["can_undo"], pinned["undoes"]) == (True, None)
    would = await api.post(f"{ns}/events/{pinned['id']}/undo?dry_run=true")
    assert would.body["would"] == (
        f"take back event {pinned['id']}: shard_pinned of a to e2, by 127.0.0.1"
    )
    assert (await api.get(f"{ns}/shards/a")).body["pinned"] == "e2"
    undone = await api.post(f"{ns}/events/{pinned['id']}/undo", {"reason": "wrong shard"})
    assert undone.status == 200
    assert (undone.body["kind"], undone.body["undoes"]) == ("shard_unpinned", pinned["id"])
    assert (undone.body["by"], undone.body["reason"]) == ("127.0.0.1", "wrong shard")
    assert (await api.get(f"{ns}/shards/a")).body["pinned"] is None
    assert [one["id"] for one in await orders(api, ns)] == [pinned["id"], undone.body["id"]]


async def test_an_undo_repeated_under_its_key_is_made_once(api: Caller):
    ns = await fleet(api)
    await api.post(f"{ns}/executors/e1/cordon")
    (cordoned,) = await orders(api, ns)
    path, key = f"{ns}/events/{cordoned['id']}/undo", {"Idempotency-Key": f"undo {ns}"}
    first = await api.post(path, **key)
    again = await api.post(path, **key)
    assert (again.status, again.body) == (200, first.body)
    another = await api.post(path)
    assert (another.status, another.reason) == (409, "conflict")
    assert "came after it" in another.body["detail"]


async def test_what_is_no_order_or_no_event_is_not_taken_back(api: Caller):
    ns = await fleet(api)
    events = (await api.get(f"{ns}/events")).body["events"]
    joined = await api.post(f"{ns}/events/{events[0]['id']}/undo")
    assert (joined.status, joined.reason) == (409, "conflict")
    for text in ("1", "9" * 16, "9" * 17, "x"):
        missing = await api.post(f"{ns}/events/{text}/undo")
        assert (missing.status, missing.reason) == (404, "event_not_found")


async def test_who_drained_a_host_last_night_is_one_question(api: Caller):
    ns = await fleet(api)
    before = datetime.now(UTC) - timedelta(seconds=1)
    await api.post(f"{ns}/hosts/h2/drain", {"reason": "kernel"})
    await api.post(f"{ns}/executors/e1/cordon", {"reason": "sick"})
    (drained,) = await orders(api, ns, "&host=h2")
    assert (drained["kind"], drained["by"], drained["reason"]) == (
        "drain_started",
        "127.0.0.1",
        "kernel",
    )
    assert [one["executor"] for one in await orders(api, ns, "&host=h1")] == ["e1"]
    early, late = (f"{at:%FT%TZ}" for at in (before, before + timedelta(hours=1)))
    assert len(await orders(api, ns, f"&since={early}&until={late}")) == 2
    assert await orders(api, ns, f"&since={late}") == []
    assert await orders(api, ns, f"&until={early}") == []
    for wrong in ("since=03:10", "since=2026-13-01T00:00Z", "until=2026-11-30T03:10:00"):
        assert (await api.get(f"{ns}/events?{wrong}")).reason == "invalid"


async def then(api: Caller, ns: str, at: str) -> dict[str, Any]:
    answer = await api.get(f"{ns}/shards/a?at={quote(at)}")
    assert answer.status == 200, answer.raw
    found: dict[str, Any] = answer.body["then"]
    return found


async def test_a_shard_is_told_with_its_owner_of_a_time_that_is_past(api: Caller):
    ns = await fleet(api)
    now = (await api.get(f"{ns}/shards/a")).body
    assert "then" not in now
    created = (await api.get(ns)).body["created_at"]
    nobody = await then(api, ns, created)
    assert (nobody["known"], nobody["executor"], nobody["until"]) == (True, None, now["since"])
    await asyncio.sleep(0.01)
    await api.post(f"{ns}/shards/a/move", {"to": "e2"})
    assert await api.release(ns, "e1") == 1
    moved = (await api.get(f"{ns}/shards/a")).body
    first = await then(api, ns, now["since"])
    assert (first["executor"], first["epoch"]) == ("e1", now["epoch"])
    assert (first["since"], first["until"]) == (now["since"], moved["since"])
    assert first["told"] == (
        f"e1 owned it under epoch {now['epoch']}, since {now['since']} until {moved['since']}"
    )
    second = await then(api, ns, moved["since"])
    assert (second["executor"], second["epoch"], second["until"]) == ("e2", moved["epoch"], None)
    unknown = await then(api, ns, "2020-01-01T00:00:00Z")
    assert (unknown["known"], unknown["executor"], unknown["known_from"]) == (False, None, created)
    assert unknown["told"] == f"it is not known who owned it before {created}"
    for wrong in ("2999-01-01T00:00:00Z", "2026-11-30T00:00:00", "yesterday"):
        assert (await api.get(f"{ns}/shards/a?at={wrong}")).reason == "invalid"


async def test_orders_end_by_themselves_and_say_so(api: Caller):
    ns = await fleet(api)
    drain = (await api.post(f"{ns}/executors/e2/drain", {"expires_in_s": 1})).body
    assert drain["until"] > drain["since"]
    cordon = (await api.post(f"{ns}/hosts/h1/cordon", {"expires_in_s": 1, "reason": "sick"})).body
    assert (cordon["cordon"]["target"], cordon["cordon"]["reason"]) == ("host/h1", "sick")
    assert (await api.get(f"{ns}/executors/e1")).body["cordon"] == cordon["cordon"]
    pin = (
        await api.post(
            f"{ns}/shards/a/pin", {"executor": "e1", "expires_in_s": 1, "reason": "cache"}
        )
    ).body
    assert (pin["pinned"], pin["pin_reason"]) == ("e1", "cache")
    assert pin["pinned_until"] > drain["since"]

    async def ended() -> list[dict[str, Any]]:
        query = "?kind=drain_ended,cordon_ended,shard_unpinned"
        found: list[dict[str, Any]] = (await api.get(f"{ns}/events{query}")).body["events"]
        return found if len(found) == 3 else []

    told = await until(ended)
    assert {(one["cause"], one["by"]) for one in told} == {("expired", "")}
    assert (await api.get(f"{ns}/drains")).body["drains"] == []
    shard = (await api.get(f"{ns}/shards/a")).body
    assert (shard["pinned"], shard["pinned_until"]) == (None, None)


async def test_that_a_drain_is_through_is_an_event(api: Caller):
    ns = await fleet(api)
    drain = (await api.post(f"{ns}/executors/e1/drain")).body
    assert (drain["state"], drain["finished_at"]) == ("draining", None)

    async def released() -> bool:
        return await api.release(ns, "e1") == 1

    await until(released)

    async def finished() -> Any:
        return (await api.get(f"{ns}/events?kind=drain_finished")).body["events"]

    (event,) = await until(finished)
    assert (event["executor"], event["count"], event["detail"]) == ("e1", 1, drain["id"])
    assert (await api.get(f"{ns}/drains/{drain['id']}")).body["finished_at"] == event["at"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("executors/e1/drain", {"expires_in_s": 0}),
        ("hosts/h1/cordon", {"expires_in_s": -1}),
        ("shards/a/pin", {"executor": "e1", "expires_in_s": 40 * 86_400}),
        ("executors/e1/undrain", {"force": True}),
    ],
)
async def test_times_and_fields_that_make_no_sense_are_refused(
    api: Caller, path: str, body: dict[str, Any]
):
    ns = await fleet(api)
    assert (await api.post(f"{ns}/{path}", body)).reason == "invalid"
