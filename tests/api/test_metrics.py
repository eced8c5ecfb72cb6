"""What a scrape says of a real node, figure by figure."""

import asyncio
import math
import subprocess
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from coordinator.api.app import DESK
from coordinator.clock import SystemClock
from coordinator.core.namespace import NamespaceState
from coordinator.metrics import PREFIX, series
from coordinator.metrics.series import listed_executors
from coordinator.node import Node
from tests.api.nodes import Caller, calling, ready, running, settings_of
from tests.metrics.test_alerts import PROMTOOL, promtool
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(api: Caller) -> Figures:
    text = (await api.get("/metrics")).raw.decode()
    return {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
        for family in parsed(text)
        for sample in family.samples
    }


def of(figures: Figures, name: str, **labels: str) -> float | None:
    return figures.get((name, frozenset(labels.items())))


class Later(SystemClock):
    """Half of a lease of 60 s is over."""

    def monotonic(self) -> float:
        return super().monotonic() + 31.0


async def test_each_executor_is_told_with_its_load_and_the_silent_one_is_unknown(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch
):
    ns = await api.namespace(lease_ttl_s=60)
    name = ns.rpartition("/")[2]
    await api.join(ns, "e1", "e2", "e3")
    await api.post(f"{ns}/executors/e3/cordon", {"reason": "it stays empty"})
    owned = {key: await api.owner(ns, key) for key in "0123"}
    held = {
        key: {"epoch": one["epoch"], "load": 2.0}
        for key, one in owned.items()
        if one["executor"] == "e1"
    }
    process = {"event_loop_lag_s": 0.125}
    await asyncio.sleep(0.05)  # a mean is over some time
    assert (await api.beat(ns, "e1", 2, shards=held, process=process)).status == 200
    told = await scraped(api)
    mine = {"namespace": name, "executor": "e1"}
    assert of(told, "executor_load", **mine) == pytest.approx(2.0 * len(held))
    assert of(told, "executor_shards", **mine) == len(held)
    assert of(told, "executor_loop_lag_seconds", **mine) == 0.125
    age_s = of(told, "executor_heartbeat_age_seconds", **mine)
    assert age_s is not None
    assert 0.0 <= age_s < 30.0
    assert 0 < len(held) < 4
    # Of what it holds nothing was ever measured: its load is not zero, it is not known.
    other = {"namespace": name, "executor": "e2"}
    assert of(told, "executor_load", **other) is None
    assert of(told, "executor_shards", **other) == 4 - len(held)
    assert of(told, "executor_loop_lag_seconds", **other) is None
    assert of(told, "executor_load", namespace=name, executor="e3") == 0.0
    assert of(told, "shards_unmeasured", namespace=name) == 4 - len(held)
    assert of(told, "lease_seconds", namespace=name) == 60.0
    left = of(told, "lease_left_min_ratio", namespace=name)
    assert left is not None
    assert 0.4 < left <= 1.0
    monkeypatch.setattr(node.app[DESK].metrics, "_clock", Later())
    told = await scraped(api)
    assert of(told, "executor_load", **mine) is None
    assert of(told, "executors_silent", namespace=name) == 3
    assert of(told, "heartbeat_age_max_seconds", namespace=name) >= 30.0


async def test_the_fleets_figures_are_those_that_the_balance_shows(api: Caller):
    """A drained executor is no cold one, or every drain looked like a fleet out of level."""
    ns = await api.namespace(balancer={"mode": "off"})
    name = ns.rpartition("/")[2]
    await api.join(ns, "e1", "e2", "e3")
    held: dict[str, dict[str, Any]] = {}
    for key in "abcd":
        one = await api.owner(ns, key)
        mine = held.setdefault(one["executor"], {})
        mine[key] = {"epoch": one["epoch"], "load": 0.1 * (1 + len(mine))}
    (empty,) = {"e1", "e2", "e3"} - held.keys() or {"e3"}
    for executor, shards in held.items():
        if executor != empty:
            await asyncio.sleep(0.02)
            assert (await api.beat(ns, executor, 2, shards=shards)).status == 200
    await api.post(f"{ns}/executors/{empty}/drain", {"reason": "kernel", "force": True})

    async def is_drained() -> bool:
        await api.release(ns, empty)
        return (await api.get(f"{ns}/executors/{empty}")).body["status"] == "drained"

    await until(is_drained)
    shown, told = (await api.get(f"{ns}/balance")).body, await scraped(api)
    for metric, field in (
        ("fleet_load_max", "hottest"),
        ("fleet_load_mean", "mean"),
        ("fleet_load_min", "coldest"),
        ("fleet_load_spread_ratio", "spread"),
    ):
        assert of(told, metric, namespace=name) == pytest.approx(shown[field]), metric
    assert shown["coldest"] > 0.0


async def test_capacity_is_told_where_a_mark_is_set(api: Caller):
    marked = await api.namespace("fixed", 2, balancer={"high_mark": 0.5})
    plain = await api.namespace("fixed", 2)
    for ns in (marked, plain):
        await api.join(ns, "e1")
        epochs = {key: (await api.owner(ns, key))["epoch"] for key in "01"}
        await asyncio.sleep(0.02)
        shards = {key: {"epoch": epoch, "load": 0.6} for key, epoch in epochs.items()}
        assert (await api.beat(ns, "e1", 2, shards=shards)).status == 200
    told = await scraped(api)
    # A load of 1.2 on executors of capacity 1 that are to be half full.
    assert of(told, "executors_needed", namespace=marked.rpartition("/")[2]) == 3
    assert of(told, "executors_needed", namespace=plain.rpartition("/")[2]) is None


async def test_requests_are_timed_by_route_and_long_polls_are_not(api: Caller):
    ns = await api.namespace()
    route = "/v1/namespaces/{namespace}/routing"

    async def timed() -> float:
        told = await scraped(api)
        return of(told, "http_request_seconds_count", route=route) or 0.0

    before = await timed()
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    assert await timed() == before + 1
    assert (await api.get(f"{ns}/routing?after={cursor}&wait=0.1s")).status == 304
    assert await timed() == before + 1
    told = await scraped(api)
    buckets = {
        labels: count
        for (name, labels), count in told.items()
        if name == "http_request_seconds_bucket" and ("route", route) in labels
    }
    assert buckets[frozenset({("route", route), ("le", "+Inf")})] == before + 1


async def test_orders_are_timed_from_proposal_to_outcome(api: Caller):
    before = await scraped(api)
    await api.namespace()
    after = await scraped(api)
    commits = of(after, "raft_commit_seconds_count") - of(before, "raft_commit_seconds_count")
    assert commits >= 1
    assert of(after, "raft_commit_seconds_sum") > of(before, "raft_commit_seconds_sum")
    assert of(after, "leader_step_seconds_count") > of(before, "leader_step_seconds_count")
    assert of(after, "raft_leader_changes_total") == 1
    assert of(after, "raft_members") == 1
    assert of(after, "raft_applied_index") <= of(after, "raft_commit_index")
    assert 1 <= of(after, "http_connections") <= of(after, "http_connections_max")
    assert of(after, "watch_waiters_max") == 10_000


async def test_shards_without_an_owner_are_told_with_how_long(api: Caller):
    ns = await api.namespace("fixed", 3)
    name = ns.rpartition("/")[2]

    async def waited() -> Figures | None:
        told = await scraped(api)
        since = of(told, "shards_unassigned_for_seconds", namespace=name)
        return told if since is not None and since > 0.1 else None

    told = await until(waited)
    assert of(told, "shards_unassigned", namespace=name) == 3
    await api.join(ns, "e1")
    for key in "012":
        await api.owner(ns, key)

    async def over() -> Figures | None:
        told = await scraped(api)
        return told if of(told, "shards_unassigned_for_seconds", namespace=name) == 0.0 else None

    told = await until(over)
    assert of(told, "shards_unowned_seconds_total", namespace=name) >= 0.3


async def test_orders_that_stand_are_counted(api: Caller):
    ns = await api.namespace("fixed", 2)
    name = ns.rpartition("/")[2]
    await api.join(ns, "e1")
    await api.owner(ns, "0")
    await api.post(f"{ns}/shards/0/pin", {"executor": "e1", "reason": "r"})
    await api.post(f"{ns}/hosts/h9/drain", {"reason": "r"})
    await api.post(f"{ns}/balance/pause", {"reason": "r"})
    told = await scraped(api)
    for metric in ("shards_pinned", "drains", "balance_paused"):
        assert of(told, metric, namespace=name) == 1, metric


async def test_what_is_too_much_is_left_out_and_counted(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch
):
    ns = await api.namespace()
    await api.join(ns, "e1", "e2", "e3")
    every = len(node.replica.state.namespaces)
    monkeypatch.setattr(series, "NAMESPACES_MAX", 1)
    monkeypatch.setattr("coordinator.metrics.EXECUTORS_MAX", 2)
    told = await scraped(api)
    assert of(told, "namespaces") == every > 1
    assert of(told, "namespaces_unlisted") == every - 1
    names = {value for _, labels in told for label, value in labels if label == "namespace"}
    assert len(names) == 1
    executors = {labels for metric, labels in told if metric == "executor_shards"}
    assert len(executors) <= 2


async def test_a_scrape_of_a_large_fleet_is_a_bounded_number_of_lines(
    api: Caller, monkeypatch: pytest.MonkeyPatch
):
    """Whoever may heartbeat may invent names: none of them costs the Prometheus a series."""
    monkeypatch.setattr("coordinator.metrics.EXECUTORS_MAX", 5)
    before = len((await api.get("/metrics")).raw.splitlines())
    ns = await api.namespace()
    for number in range(20):
        strange = f"e{number}-" + "x" * 50
        assert (await api.beat(ns, strange)).status == 200
        await api.get(f"{ns}/shards/{'k' * 200}{number}/owner?create=false")
        await api.get(f"/nowhere/{number}")
    text = (await api.get("/metrics")).raw.decode()
    assert len(text.splitlines()) - before < 200
    assert "kkkk" not in text
    assert "nowhere" not in text


@promtool
async def test_promtool_finds_nothing_to_say_of_a_scrape(api: Caller):
    ns = await api.namespace("fixed", 2, balancer={"high_mark": 0.5})
    await api.join(ns, "e1")
    await api.owner(ns, "0")
    body = (await api.get("/metrics")).raw
    done = await asyncio.to_thread(
        subprocess.run, [PROMTOOL, "check", "metrics"], input=body, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_a_large_scrape_is_the_same_in_slices_and_by_a_thread(
    api: Caller, monkeypatch: pytest.MonkeyPatch
):
    ns = await api.namespace("fixed", 8, lease_ttl_s=60)
    name = ns.rpartition("/")[2]
    await api.join(ns, "e1", "e2", "e3", "e4", "e5")
    whole = await scraped(api)
    monkeypatch.setattr("coordinator.metrics.AT_ONCE", 2)
    monkeypatch.setattr("coordinator.metrics.WRITTEN_HERE_MAX", 1)
    sliced = await scraped(api)
    # Executors of other tests may go meanwhile.
    ours = {key for key in whole if dict(key[1]).get("namespace", name) == name}
    assert sliced.keys() >= {key for key in ours if key[0] != "http_requests_total"}
    assert of(sliced, "executor_shards", namespace=name, executor="e5") is not None


async def test_an_executor_that_goes_between_two_slices_has_no_series(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch
):
    ns = await api.namespace()
    name = ns.rpartition("/")[2]
    await api.join(ns, "e1", "e2")
    monkeypatch.setattr("coordinator.metrics.AT_ONCE", 1)
    names = iter(["e1", "e2"])

    def leaving(namespace: NamespaceState, room: int) -> list[str]:
        found = listed_executors(namespace, room)
        if namespace.info.name == name:
            namespace.executors.pop(next(names))
        return found

    monkeypatch.setattr("coordinator.metrics.listed_executors", leaving)
    records = node.replica.state.namespaces[name].executors
    kept = dict(records)
    told = await scraped(api)
    records.update(kept)
    assert of(told, "executor_shards", namespace=name, executor="e1") is None
    assert of(told, "executor_shards", namespace=name, executor="e2") is not None


async def test_followers_tell_what_they_know_and_nothing_of_what_only_the_leader_does():
    async with (
        running(*settings_of(3)) as nodes,
        calling(nodes[0]) as first,
        calling(nodes[1]) as second,
    ):
        await ready(first)
        await ready(second)
        made = await first.ask("PUT", "/v1/namespaces/shared", {"kind": "open"})
        assert made.status == 201

        async def known() -> bool:
            return all("shared" in node.replica.state.namespaces for node in nodes)

        await until(known)
        (leader,) = [node for node in nodes if node.leader.is_leading]
        for node in nodes:
            async with calling(node) as caller:
                told = await scraped(caller)
            leads = node is leader
            assert of(told, "raft_is_leader") == leads
            assert of(told, "raft_members") == 3
            assert of(told, "raft_peers_connected") == 2
            assert of(told, "claims_open", namespace="shared") == 1
            silent = of(told, "executors_silent", namespace="shared")
            assert silent == (0 if leads else None)
            contact_s = of(told, "raft_leader_contact_seconds")
            assert contact_s is not None
            assert 0.0 <= contact_s < 20.0
            assert not math.isnan(contact_s)
