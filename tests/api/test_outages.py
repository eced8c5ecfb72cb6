"""A mass failure over HTTP: told loudly, held, and proceeded with by order."""

import asyncio
from typing import Any

import pytest

from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEASE_S = 2.0


async def outage(api: Caller) -> str:
    """A namespace in which three of four executors have fallen silent, and the alarm holds."""
    ns = await api.namespace(
        "fixed", 8, lease_ttl_s=LEASE_S, heartbeat_interval_s=0.2, initial_hold_s=0.2
    )
    await api.join(ns, "e1", "e2", "e3", "e4")

    async def is_holding() -> bool:
        await api.beat(ns, "e4", 2)
        return bool((await api.get(f"{ns}/mass-failure")).body["state"] == "holding")

    await until(is_holding)
    return ns


async def beating(api: Caller, ns: str) -> None:
    while True:
        await api.beat(ns, "e4", 3)
        await asyncio.sleep(0.15)


async def owners(api: Caller, ns: str) -> set[str]:
    listed = (await api.get(f"{ns}/shards")).body["shards"]
    return {shard["executor"] for shard in listed}


async def test_an_alarm_shows_wherever_somebody_may_look(
    api: Caller, caplog: pytest.LogCaptureFixture
):
    ns = await outage(api)
    name = ns.rpartition("/")[2]
    told = (await api.get(f"{ns}/mass-failure")).body
    assert (told["silent"], told["total"], told["executors"]) == (3, 4, ["e1", "e2", "e3"])
    alarm = {
        "namespace": name,
        "alarm": "mass_failure",
        "state": "holding",
        "since": told["since"],
    }
    assert (await api.get(ns)).body["alarms"] == [alarm]
    assert alarm in (await api.get("/v1/cluster")).body["alarms"]
    assert (await api.get(f"{ns}/balance")).body["skipped"] == "mass_failure"
    (event,) = (await api.get(f"{ns}/events?kind=mass_failure_raised")).body["events"]
    assert event["detail"] == "3 of 4 executors are silent"
    figures = (await api.get("/metrics")).raw.decode()
    assert f'shard_coordinator_mass_failure{{namespace="{name}"}} 1.0' in figures
    assert f'shard_coordinator_executors_silent{{namespace="{name}"}}' in figures
    assert await owners(api, ns) == {"e1", "e2", "e3", "e4"}
    assert f"mass_failure_raised namespace={name} silent=3 total=4" in caplog.text


async def test_an_order_to_proceed_moves_what_the_silent_had(api: Caller):
    ns = await outage(api)
    keeper = asyncio.ensure_future(beating(api, ns))
    try:
        would = (await api.post(f"{ns}/mass-failure/proceed?dry_run=true")).body
        assert would["would"].startswith("give up 3 silent executors")
        assert would["shards"] == 6
        assert (await api.get(f"{ns}/mass-failure")).body["state"] == "holding"
        order = {"reason": "rack 4"}
        done = await api.post(f"{ns}/mass-failure/proceed", order, **{"Idempotency-Key": "k1"})
        assert done.status == 200
        assert (done.body["state"], done.body["by"], done.body["reason"]) == (
            "proceeded",
            "127.0.0.1",
            "rack 4",
        )

        async def is_over() -> bool:
            return (await api.get(f"{ns}/mass-failure")).body["state"] == "none"

        await until(is_over)
        assert await owners(api, ns) == {"e4"}
        again = await api.post(f"{ns}/mass-failure/proceed", order, **{"Idempotency-Key": "k1"})
        assert (again.status, again.body["state"]) == (200, "none")
        kinds = [
            event["kind"]
            for event in (await api.get(f"{ns}/events")).body["events"]
            if event["kind"].startswith(("mass", "executor_lost"))
        ]
        assert kinds == [
            "mass_failure_raised",
            "mass_failure_proceeded",
            "executor_lost",
            "executor_lost",
            "executor_lost",
            "mass_failure_over",
        ]
    finally:
        keeper.cancel()


async def test_those_who_return_keep_what_they_had(api: Caller):
    ns = await outage(api)
    before = (await api.get(f"{ns}/shards")).body["shards"]

    async def is_over() -> bool:
        for name in ("e1", "e2", "e3", "e4"):
            assert (await api.beat(ns, name, 5)).status == 200
        return bool((await api.get(f"{ns}/mass-failure")).body["state"] == "none")

    await until(is_over)
    after = (await api.get(f"{ns}/shards")).body["shards"]
    assert [(s["key"], s["executor"], s["epoch"]) for s in after] == [
        (s["key"], s["executor"], s["epoch"]) for s in before
    ]


async def test_a_farewell_is_no_loss_and_is_taken_while_the_alarm_holds(api: Caller):
    ns = await outage(api)
    answer = await api.ask("DELETE", f"{ns}/executors/e4?incarnation=e4-a")
    assert answer.status == 204
    listed = (await api.get(f"{ns}/executors")).body["executors"]
    assert [one["executor"] for one in listed] == ["e1", "e2", "e3"]
    assert (await api.get(f"{ns}/mass-failure")).body["state"] == "holding"
    left = (await api.get(f"{ns}/events?kind=executor_left")).body["events"]
    assert [event["executor"] for event in left] == ["e4"]


async def test_without_an_outage_there_is_nothing_to_proceed_with(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    before = (await api.get(ns)).body
    told: dict[str, Any] = (await api.post(f"{ns}/mass-failure/proceed", {"reason": "x"})).body
    assert (told["state"], told["since"], told["total"]) == ("none", None, 1)
    assert (await api.get(ns)).body == before


async def test_an_outage_of_nowhere_is_not_found(api: Caller):
    assert (await api.get("/v1/namespaces/nowhere/mass-failure")).reason == "namespace_not_found"
    answer = await api.post("/v1/namespaces/nowhere/mass-failure/proceed")
    assert answer.reason == "namespace_not_found"
    assert (await api.get("/v1/namespaces/nowhere/events")).reason == "namespace_not_found"
