"""Two owners of a shard, by a client that goes on after it said that it stopped."""

import asyncio
from typing import Any

import pytest

from tests.api.nodes import Caller
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

INTERVAL_S = 0.1


async def handed_over(api: Caller) -> tuple[str, int, int]:
    """A shard that e1 released and e2 got: the namespace and both epochs."""
    ns = await api.namespace(lease_ttl_s=5, heartbeat_interval_s=INTERVAL_S)
    await api.join(ns, "e1")
    before = (await api.owner(ns, "a"))["epoch"]
    await api.join(ns, "e2")
    await api.post(f"{ns}/shards/a/move", {"to": "e2"})
    assert await api.release(ns, "e1") == 1
    after = (await api.owner(ns, "a"))["epoch"]
    return ns, before, after


async def beating(api: Caller, ns: str, held: dict[str, dict[str, Any]]) -> None:
    """Both executors report what they hold, until this is cancelled."""
    sequence = 1
    while True:
        sequence += 1
        for executor, shards in held.items():
            assert (await api.beat(ns, executor, sequence, shards=shards)).status == 200
        await asyncio.sleep(INTERVAL_S)


async def gauge(api: Caller, ns: str, name: str) -> float:
    text = (await api.get("/metrics")).raw.decode()
    line = f'shard_coordinator_{name}{{namespace="{ns.rpartition("/")[2]}"}} '
    return float(text.partition(line)[2].partition("\n")[0])


async def test_a_client_that_goes_on_after_its_release_is_told_by_metric_and_event(api: Caller):
    ns, before, after = await handed_over(api)
    held = {"e1": {"a": {"epoch": before}}, "e2": {"a": {"epoch": after}}}
    beats = asyncio.ensure_future(beating(api, ns, held))
    try:

        async def event() -> Any:
            page = await api.get(f"{ns}/events?kind=shard_double_owned")
            return page.body["events"]

        (told,) = await until(event)
        assert (told["shard"], told["executor"], told["target"]) == ("a", "e1", "e2")
        assert told["detail"] == f"held under epoch {before}"
        assert await gauge(api, ns, "shards_double_owned") == 1.0
        assert await gauge(api, ns, "shards_held_astray") == 1.0
        # Nothing is taken away for it.
        assert (await api.owner(ns, "a"))["executor"] == "e2"
        held["e1"] = {}

        async def is_over() -> bool:
            return await gauge(api, ns, "shards_double_owned") == 0.0

        await until(is_over)
    finally:
        beats.cancel()
    assert len((await api.get(f"{ns}/events?kind=shard_double_owned")).body["events"]) == 1


async def test_a_shard_that_nobody_else_holds_is_held_astray(api: Caller):
    ns, _, _ = await handed_over(api)
    beats = asyncio.ensure_future(beating(api, ns, {"e1": {"b": {"epoch": 1}}, "e2": {}}))
    try:

        async def is_told() -> bool:
            return await gauge(api, ns, "shards_held_astray") == 1.0

        await until(is_told)
        assert await gauge(api, ns, "shards_double_owned") == 0.0
    finally:
        beats.cancel()


async def test_a_handoff_in_time_raises_no_alarm(api: Caller):
    ns, _, after = await handed_over(api)
    beats = asyncio.ensure_future(beating(api, ns, {"e1": {}, "e2": {"a": {"epoch": after}}}))
    try:
        await asyncio.sleep(8 * INTERVAL_S)
        assert await gauge(api, ns, "shards_held_astray") == 0.0
    finally:
        beats.cancel()
