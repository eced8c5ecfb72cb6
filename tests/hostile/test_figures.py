"""Loads and capacities at the edges of what numbers can be: every question is still answered."""

import json
import math
from typing import Any

import pytest

from tests.api.nodes import Caller

pytestmark = pytest.mark.asyncio(loop_scope="session")

TINY, HUGE = 5e-324, 1e12
QUESTIONS = (
    "/executors",
    "/shards?sort=load",
    "/shards/a",
    "/balance",
    "/balance/plan",
    "/balance/plan?level=tight",
    "/balance/capacity",
    "/balance/history",
)


def no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


@pytest.mark.parametrize("capacity", [TINY, 1e-9, HUGE])
@pytest.mark.parametrize("load", [0.0, TINY, HUGE])
async def test_whatever_figures_come_every_question_is_answered_in_numbers(
    api: Caller, load: float, capacity: float
):
    ns = await api.namespace(balancer={"interval_s": 0.05, "high_mark": 0.8})
    await api.join(ns, "odd", capacity=capacity)
    await api.join(ns, "even")
    keys = [chr(ord("a") + number) for number in range(8)]
    await api.post(f"{ns}/shards", {"keys": keys})
    for key in keys:
        await api.owner(ns, key)
    owners = (await api.get(f"{ns}/routing")).body["owners"]
    for sequence in (2, 3):
        for name, fields in (("odd", {"capacity": capacity}), ("even", {})):
            shards = {
                key: {"epoch": epoch, "load": load}
                for key, (owner, epoch) in owners.items()
                if owner == name
            }
            answer = await api.beat(ns, name, sequence, shards=shards, **fields)
            assert answer.status == 200, answer.raw
    for at in QUESTIONS:
        told = await api.get(ns + at)
        assert told.status == 200, (at, told.raw)
        json.loads(told.raw, parse_constant=no_constant)
    asked = await api.post(f"{ns}/balance/what-if", {"executors": 3})
    assert asked.status == 200, asked.raw
    metrics = (await api.get("/metrics")).raw.decode()
    name = ns.rpartition("/")[2]
    for line in metrics.splitlines():
        if f'"{name}"' in line and not line.startswith("#"):
            assert math.isfinite(float(line.rpartition(" ")[2])), line
    assert (await api.get("/readyz")).status == 200


@pytest.mark.parametrize(
    "policy",
    [
        {"high_mark": TINY},
        {"quiet_mark": TINY, "high_mark": 1e300},
        {"start_gap": 1e-300, "stop_gap": 0.0},
        {"load_cost": 1e300},
        {"smoothing_horizon_s": TINY},
    ],
)
async def test_whatever_a_policy_says_every_question_is_answered(
    api: Caller, policy: dict[str, float]
):
    name = await api.namespace()
    changed = await api.ask("PATCH", name, {"policy": {"balancer": policy}})
    if changed.status == 422:
        return  # beyond its bounds
    await api.join(name, "e1")
    await api.join(name, "e2")
    for key in "abc":
        owner = await api.owner(name, key)
        shards = {key: {"epoch": owner["epoch"], "load": HUGE}}
        assert (await api.beat(name, owner["executor"], 2, shards=shards)).status == 200
    for at in QUESTIONS:
        told = await api.get(name + at.replace("/shards/a", "/shards/b"))
        assert told.status == 200, (at, told.raw)
        json.loads(told.raw, parse_constant=no_constant)
