"""What an order would come to: figures of a dry run, and drains refused for want of room."""

from typing import Any

import pytest

from tests.api.nodes import Caller

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def loaded(api: Caller, loads: dict[str, dict[str, float]], **policy: Any) -> str:
    """Executors, each on a host of its own, that report these loads of their shards."""
    ns = await api.namespace(balancer={"mode": "off", **policy}, lease_ttl_s=60)
    for number, (executor, shards) in enumerate(loads.items(), start=1):
        await api.join(ns, executor, host=f"h{number}")
        for key in shards:
            await api.post(f"{ns}/shards", {"keys": [key]})
            await api.post(f"{ns}/shards/{key}/move", {"to": executor})
    for sequence in (2, 3):
        for number, (executor, shards) in enumerate(loads.items(), start=1):
            told = {
                key: {"epoch": (await api.owner(ns, key))["epoch"], "load": load}
                for key, load in shards.items()
            }
            answer = await api.beat(ns, executor, sequence, host=f"h{number}", shards=told)
            assert answer.status == 200, answer.raw
    return ns


LEVEL = {"e1": {"a": 0.3, "b": 0.1}, "e2": {"c": 0.2}, "e3": {"d": 0.3}}


async def test_a_drain_shows_the_load_that_moves_and_what_is_left(api: Caller):
    ns = await loaded(api, LEVEL)
    would = (await api.post(f"{ns}/hosts/h1/drain?dry_run=true")).body
    room = would["room"]
    assert (would["shards"], room["executors"], room["capacity"]) == (2, 2, 2.0)
    assert would["moved_load"] == pytest.approx(0.4)
    assert room["mean_before"] == pytest.approx(0.3)
    assert room["mean_after"] == pytest.approx(0.45)
    assert room["hottest_before"] == pytest.approx(0.4)
    # The planner gives the heavy one to the colder, the light one to the other.
    assert room["hottest_after"] == pytest.approx(0.5)
    assert (room["hottest_executor"], room["mark"], room["pinned"]) == ("e2", 1.0, 0)
    assert would["would"] == (
        "hand over every shard of every executor on host h1 and place nothing there"
    )
    assert (await api.get(f"{ns}/drains")).body["drains"] == []


async def test_a_drain_that_the_others_have_no_room_for_is_refused_unless_forced(api: Caller):
    ns = await loaded(api, LEVEL, high_mark=0.4)
    for path in ("executors/e1/drain", "hosts/h1/drain", "executors/e1/drain?dry_run=true"):
        refused = await api.post(f"{ns}/{path}", {"reason": "kernel"})
        assert (refused.status, refused.reason) == (409, "would_overload")
        assert refused.body["detail"] == (
            "its 2 shards would bring the 2 executors that are left from 30% to 45% of their"
            " capacity, above 40%"
        )
    assert (await api.get(f"{ns}/drains")).body["drains"] == []
    assert (await api.get(f"{ns}/executors/e1")).body["status"] == "active"
    forced = await api.post(f"{ns}/executors/e1/drain", {"force": True})
    assert (forced.status, forced.body["state"]) == (202, "draining")
    # One that is in force is not refused when it is ordered again.
    assert (await api.post(f"{ns}/executors/e1/drain")).status == 202


async def test_a_drain_under_a_key_that_has_an_answer_is_not_asked_for_room_again(api: Caller):
    ns = await loaded(api, LEVEL, high_mark=0.4)
    drain, key = f"{ns}/hosts/h9/drain", {"Idempotency-Key": f"{ns[-20:]}-once"}
    assert (await api.ask("POST", drain, {}, headers=key)).status in {200, 202}
    assert (await api.post(f"{ns}/hosts/h9/undrain")).status == 200
    assert (await api.beat(ns, "e1", 4, host="h9")).status == 200  # it has moved there since
    assert (await api.post(drain)).reason == "would_overload"
    repeated = await api.ask("POST", drain, {}, headers=key)
    assert (repeated.status, repeated.reason) == (404, "drain_not_found")  # it was taken back


async def test_a_drain_that_begins_again_by_undo_needs_room_as_well(api: Caller):
    ns = await loaded(api, LEVEL)
    await api.post(f"{ns}/hosts/h9/drain")
    await api.post(f"{ns}/hosts/h9/undrain")
    assert (await api.beat(ns, "e1", 4, host="h9")).status == 200  # it has moved there since
    ended = (await api.get(f"{ns}/events?orders=true")).body["events"][-1]
    undo = f"{ns}/events/{ended['id']}/undo"
    would = (await api.post(f"{undo}?dry_run=true")).body
    assert (would["shards"], would["room"]["executors"]) == (2, 2)
    await api.ask("PATCH", ns, {"policy": {"balancer": {"high_mark": 0.4}}})
    for path in (undo, f"{undo}?dry_run=true"):
        refused = await api.post(path)
        assert (refused.status, refused.reason) == (409, "would_overload")
    assert (await api.get(f"{ns}/drains")).body["drains"] == []
    assert (await api.post(undo, {"force": True})).body["kind"] == "drain_started"
    # What came in between is told before any want of room.
    assert (await api.post(undo)).reason == "conflict"


async def test_drains_one_after_the_other_do_not_count_the_same_room_twice(api: Caller):
    loads = {f"e{at}": {f"s{at}": 0.3} for at in (1, 2, 3, 4)}
    ns = await loaded(api, loads)
    answers = [await api.post(f"{ns}/executors/e{at}/drain") for at in (1, 2, 3)]
    assert [one.status for one in answers] == [202, 202, 409]
    assert answers[2].reason == "would_overload"


async def test_the_last_executor_is_not_drained_by_accident(api: Caller):
    ns = await loaded(api, {"e1": {"a": 0.1}})
    refused = await api.post(f"{ns}/executors/e1/drain")
    assert refused.body["detail"] == "no other executor may be given its 1 shards"
    would = await api.post(f"{ns}/executors/e1/drain?dry_run=true", {"force": True})
    assert (would.body["room"]["executors"], would.body["room"]["unplaced"]) == (0, 1)
    assert would.body["room"]["hottest_executor"] is None


async def test_an_executor_without_shards_may_always_be_drained(api: Caller):
    ns = await loaded(api, {"e1": {}})
    assert (await api.post(f"{ns}/executors/e1/drain")).body["state"] == "drained"


async def test_loads_in_a_unit_of_their_own_are_not_held_against_a_capacity(api: Caller):
    ns = await loaded(api, {"e1": {"a": 300.0}, "e2": {"b": 100.0}})
    would = (await api.post(f"{ns}/executors/e1/drain?dry_run=true")).body
    assert (would["room"]["mark"], would["moved_load"]) == (None, pytest.approx(300.0))
    marked = await loaded(api, {"e1": {"a": 300.0}, "e2": {"b": 100.0}}, high_mark=350.0)
    assert (await api.post(f"{marked}/executors/e1/drain")).reason == "would_overload"


async def test_shards_that_are_pinned_there_are_counted(api: Caller):
    ns = await loaded(api, LEVEL)
    await api.post(f"{ns}/shards/a/pin", {"executor": "e1"})
    would = (await api.post(f"{ns}/executors/e1/drain?dry_run=true")).body
    assert would["room"]["pinned"] == 1


async def test_orders_about_a_shard_show_its_load_and_how_its_target_would_stand(api: Caller):
    ns = await loaded(api, LEVEL)
    for path, body in (
        ("shards/a/move", {"to": "e2"}),
        ("shards/a/pin", {"executor": "e2"}),
    ):
        would = (await api.post(f"{ns}/{path}?dry_run=true", body)).body
        assert would["moved_load"] == pytest.approx(0.3)
        assert would["target_before"] == pytest.approx(0.2)
        assert would["target_after"] == pytest.approx(0.5)
    stays = (await api.post(f"{ns}/shards/a/pin?dry_run=true", {"executor": "e1"})).body
    assert (stays["moved_load"], stays["target_after"]) == (0.0, stays["target_before"])
    parked = (await api.post(f"{ns}/shards/a/drain?dry_run=true")).body
    assert (parked["moved_load"], parked["room"]) == (pytest.approx(0.3), None)
    evicted = (await api.post(f"{ns}/executors/e1/evict?dry_run=true")).body
    assert evicted["moved_load"] == pytest.approx(0.4)
    assert evicted["room"]["mean_after"] == pytest.approx(0.45)


async def test_an_executor_that_is_closed_to_shards_is_no_room(api: Caller):
    ns = await loaded(api, LEVEL)
    await api.post(f"{ns}/executors/e2/cordon")
    would = (await api.post(f"{ns}/executors/e1/drain?dry_run=true")).body
    assert would["room"]["executors"] == 1
    assert would["room"]["hottest_executor"] == "e3"
    await api.post(f"{ns}/executors/e3/cordon")
    assert (await api.post(f"{ns}/executors/e1/drain?dry_run=true")).reason == "would_overload"
