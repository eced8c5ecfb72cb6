"""Plans, decisions and fleets that are not there, over HTTP: answers, refusals, and no move."""

import asyncio
import threading
from typing import Any

import pytest

from coordinator.clock import SystemClock
from coordinator.forecasts import BusyError, Forecasts
from coordinator.node import Node
from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXECUTORS = ("e1", "e2", "e3")


async def uneven(api: Caller, **balancer: Any) -> str:
    """Three executors: the first has six shards with a load of 1 each, the others one."""
    ns = await api.namespace(balancer={"mode": "off", **balancer}, join_ramp_ratio=1.0)
    await api.join(ns, "e1", host="h1")
    for number in range(6):
        await api.owner(ns, f"k{number}")
    for name, host in (("e2", "h2"), ("e3", "h3")):
        await api.join(ns, name, host=host)
        await api.owner(ns, f"only-{name}")
    for name in EXECUTORS:
        await report(api, ns, name)
    return ns


async def report(api: Caller, ns: str, name: str, sequence: int = 2, **process: float) -> None:
    shown = (await api.get(f"{ns}/shards?executor={name}")).body["shards"]
    shards = {one["key"]: {"epoch": one["epoch"], "load": 1.0} for one in shown}
    answer = await api.beat(
        ns, name, sequence, host=f"h{name[1]}", shards=shards, process=process or None
    )
    assert answer.status == 200, answer.raw


async def where(api: Caller, ns: str) -> dict[str, str]:
    shown = (await api.get(f"{ns}/shards")).body["shards"]
    return {one["key"]: one["executor"] for one in shown}


async def test_a_plan_shows_what_a_pass_would_do_and_moves_nothing(api: Caller):
    ns = await uneven(api)
    before = await where(api, ns)
    plan = (await api.get(f"{ns}/balance/plan")).body
    assert (plan["skipped"], plan["moves"] > 0) == ("off", True)
    move = plan["moved"][0]
    assert (move["source"], move["source_before"], move["source_after"]) == ("e1", 6.0, 5.0)
    effect = f"it takes e1 from 6 to 5 times its capacity and {move['target']} from 1 to 2"
    assert move["why"] == effect
    assert plan["after"]["spread"] < plan["before"]["spread"]
    assert plan["after"]["hottest"] >= plan["best_possible_hottest"]
    assert await where(api, ns) == before


async def test_a_tighter_level_goes_further(api: Caller):
    ns = await uneven(api, stop_gap=0.9, start_gap=0.9, move_budget_ratio=1.0)
    plans = {
        level: (await api.get(f"{ns}/balance/plan?level={level}")).body
        for level in ("default", "level", "tight")
    }
    assert plans["tight"]["stop_gap"] < plans["level"]["stop_gap"] < plans["default"]["stop_gap"]
    assert plans["tight"]["after"]["spread"] <= plans["default"]["after"]["spread"]
    assert (await api.get(f"{ns}/balance/plan?level=odd")).reason == "invalid"


async def test_what_is_passed_over_is_told_with_the_rule_that_rejected_it(api: Caller):
    ns = await uneven(api)
    await api.post(f"{ns}/shards/k0/pin", {"executor": "e1"})
    rejected = (await api.get(f"{ns}/balance/plan")).body["rejected"]
    rules = {one["key"]: one["rule"] for one in rejected}
    assert rules["k0"] == "pinned"
    assert all(one["why"] for one in rejected)


async def test_a_fleet_that_is_not_there_is_planned_by_the_same_planner(api: Caller):
    ns = await uneven(api)
    fewer = (await api.post(f"{ns}/balance/what-if", {"without_hosts": ["h2"]})).body
    assert (fewer["executors"], fewer["owed"], fewer["unplaced"]) == (2, 1, 0)
    assert fewer["plan"]["after"]["hottest"] == pytest.approx(4.0)
    more = (await api.post(f"{ns}/balance/what-if", {"executors": 4})).body
    assert (more["executors"], more["owed"]) == (4, 0)
    assert more["plan"]["after"]["hottest"] == pytest.approx(2.0)
    assert more["passes"] >= 1
    loose = {"policy": {"balancer": {"stop_gap": 5.0, "start_gap": 5.0}}}
    assert (await api.post(f"{ns}/balance/what-if", loose)).body["plan"]["moves"] == 0
    nobody = {"without_executors": list(EXECUTORS)}
    assert (await api.post(f"{ns}/balance/what-if", nobody)).body["unplaced"] == 8
    assert set((await where(api, ns)).values()) == set(EXECUTORS)


@pytest.mark.parametrize(
    "body",
    [
        {"without_hosts": ["h9"]},
        {"without_executors": ["e9"]},
        {"executors": 0},
        {"executors": 10_001},
        {"policy": {"balancer": {"stop_gap": 5.0}}},
        {"policy": {"lease_ttl_s": 5}},
        {"odd": 1},
    ],
)
async def test_a_fleet_that_makes_no_sense_is_refused(api: Caller, body: dict[str, Any]):
    ns = await api.namespace()
    assert (await api.post(f"{ns}/balance/what-if", body)).reason == "invalid"


async def test_capacity_says_how_many_executors_it_takes(api: Caller):
    ns = await uneven(api, high_mark=2.5)
    answer = (await api.get(f"{ns}/balance/capacity?executors=2-5")).body
    assert (answer["demand"], answer["executors"], answer["floor"]) == (
        8.0,
        3,
        pytest.approx(8 / 3),
    )
    assert (answer["needed"], answer["needed_planned"]) == (4, 4)
    rows = {row["executors"]: row for row in answer["table"]}
    assert set(rows) == {2, 3, 4, 5}
    assert [rows[n]["is_enough"] for n in (2, 3, 4, 5)] == [False, False, True, True]
    assert rows[4]["planned"] == pytest.approx(2.0)
    assert rows[4]["static_hash"] >= rows[4]["best_possible"]
    assert (answer["lower_bound"], answer["saturated"]) == (False, [])


async def test_a_saturated_executor_makes_the_figures_lower_bounds(api: Caller):
    ns = await uneven(api)
    for sequence in (3, 4, 5):
        await report(api, ns, "e1", sequence, event_loop_lag_s=0.5)
    answer = (await api.get(f"{ns}/balance/capacity")).body
    assert (answer["lower_bound"], answer["saturated"]) == (True, ["e1"])
    assert [row["executors"] for row in answer["table"]] == [1, 2, 3, 4, 5]
    assert (answer["high_mark"], answer["needed"]) == (None, None)
    assert (await api.get(f"{ns}/balance")).body["saturated"] == ["e1"]


@pytest.mark.parametrize("text", ["0", "9-8", "1-200", "a", "1-2-3", "-3", "99999", ""])
async def test_a_range_that_is_none_or_too_wide_is_refused(api: Caller, text: str):
    ns = await api.namespace()
    assert (await api.get(f"{ns}/balance/capacity?executors={text}")).reason == "invalid"


async def test_a_table_of_more_work_than_the_bound_is_refused(
    api: Caller, monkeypatch: pytest.MonkeyPatch
):
    ns = await uneven(api)
    monkeypatch.setattr("coordinator.api.operators.outlook.WORK_MAX", 16)
    refused = await api.get(f"{ns}/balance/capacity?executors=1-3")
    assert refused.reason == "invalid"
    assert "at most 2 numbers" in refused.body["errors"][0]["message"]
    assert (await api.get(f"{ns}/balance/capacity?executors=1-2")).status == 200


async def test_static_hashing_is_told_by_both_of_its_rules(api: Caller):
    ns = await uneven(api)
    balance = (await api.get(f"{ns}/balance")).body
    assert balance["static_hash"] >= balance["best_possible"]
    assert balance["static_ring"] >= balance["best_possible"]
    assert balance["static_hash_hottest"] >= balance["mean"]
    assert balance["skipped_why"] == "the balancer is off"


async def test_a_dry_run_is_told_with_its_decisions_and_moves_nothing(api: Caller, node: Node):
    ns = await uneven(api, mode="dry_run", interval_s=0.05, move_budget_ratio=1.0)
    before = await where(api, ns)
    state = node.replica.state.namespaces[ns.rpartition("/")[2]]
    mind = node.leader.current().mind(state, 0.0)
    mind.next_pass_at = 0.0  # this leader has heard enough
    history = await until(lambda: decided(api, ns))
    (told,) = history["decisions"]
    assert (told["dry_run"], told["effect"], told["realised"]) == (True, "pending", None)
    assert told["hottest_predicted"] < told["hottest_before"] == 6.0
    assert history["passes"][0]["decision"] == told["id"]
    whole = (await api.get(f"{ns}/balance/decisions/{told['id']}")).body
    assert whole["replayed"] is True
    assert [seat["executor"] for seat in whole["executors"]] == list(EXECUTORS)
    assert whole["plan"]["moves"] == told["moves"] == len(whole["plan"]["moved"])
    assert await where(api, ns) == before


async def decided(api: Caller, ns: str) -> Any:
    history = (await api.get(f"{ns}/balance/history")).body
    return history if history["decisions"] else None


async def test_an_unknown_decision_is_not_found(api: Caller):
    ns = await api.namespace()
    assert (await api.get(f"{ns}/balance/decisions/7")).reason == "decision_not_found"
    assert (await api.get(f"{ns}/balance/history")).body["decisions"] == []


async def test_a_shard_is_explained_in_words(api: Caller):
    ns = await uneven(api)
    shard = (await api.get(f"{ns}/shards/k0")).body
    assert shard["why_here"].startswith("it had no owner, and e1 was the least loaded")
    assert shard["why_no_move"] == "nothing is moved for balance now: the balancer is off"
    assert {one["executor"] for one in shard["why_not_there"]} == {"e2", "e3"}
    assert shard["history"][0]["kind"] == "shards_placed"
    await api.post(f"{ns}/shards/k0/pin", {"executor": "e1"})
    shard = (await api.get(f"{ns}/shards/k0")).body
    assert {one["rule"] for one in shard["why_not_there"]} == {"pinned"}
    assert "why_here" not in (await api.get(f"{ns}/shards")).body["shards"][0]


async def test_one_calculation_at_a_time_and_another_is_refused_meanwhile(api: Caller):
    ns = await uneven(api)
    forecasts = Forecasts(SystemClock())
    gate = threading.Event()
    first = asyncio.create_task(forecasts.beside(gate.wait))
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await forecasts.beside(lambda: True)
    first.cancel()  # whoever asked is gone; the work is not
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await forecasts.beside(lambda: True)
    gate.set()
    await until(lambda: free(forecasts))
    assert (await api.get(f"{ns}/balance/plan")).status == 200


async def free(forecasts: Forecasts) -> bool:
    try:
        return await forecasts.beside(lambda: True)
    except BusyError:
        return False
