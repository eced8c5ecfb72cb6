"""What a stolen token of an executor is good for, and what it is not.

The thief has the token of `bad`, limited to that name as the threat model advises, and everything
else that an executor knows: names, keys and epochs.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coordinator.api.app import DESK
from coordinator.api.route import Route
from coordinator.api.routes import ROUTES
from coordinator.core.controller.strays import STRAYS_MAX
from coordinator.core.namespace import CLOSED_MAX
from coordinator.core.types import EPOCH_MAX
from coordinator.node import Node
from tests.api.keys import Keys
from tests.api.nodes import Answer, Caller, calling, running, settings_of
from tests.waiting import until
from tests.windows import close_window

pytestmark = pytest.mark.asyncio(loop_scope="module")

NS = "/v1/namespaces/mine"
SEEDS = """
[namespaces.mine]
kind = "open"
[namespaces.mine.policy]
initial_hold_s = 0.0
lease_ttl_s = 60.0
heartbeat_interval_s = 0.05
balancer = { mode = "off" }
[namespaces.other]
kind = "open"
"""


@dataclass(slots=True)
class Scene:
    """A namespace with an honest executor and the thief, each with shards of its own."""

    node: Node
    api: Caller
    keys: Keys
    sequence: int = 1

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> Answer:
        return await self.api.ask(method, path, body, headers=self.keys.bearer(who))

    async def beat(self, who: str, executor: str = "", **fields: Any) -> Answer:
        self.sequence += 1
        body = {"incarnation": f"{who}-1", "sequence": self.sequence, "host": who, **fields}
        return await self.ask(who, "POST", f"{NS}/executors/{executor or who}/heartbeat", body)

    async def ack(self, who: str, executor: str = "", **words: Any) -> Answer:
        body = {"incarnation": f"{who}-1", **words}
        return await self.ask(who, "POST", f"{NS}/executors/{executor or who}/acks", body)

    def owners(self) -> dict[str, tuple[str | None, int]]:
        shards = self.node.replica.state.namespaces["mine"].shards
        return {key: (shard.executor, shard.epoch) for key, shard in shards.items()}

    def held_by(self, executor: str) -> dict[str, int]:
        return {key: epoch for key, (owner, epoch) in self.owners().items() if owner == executor}


@pytest_asyncio.fixture(loop_scope="module")
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    keys = Keys(tmp_path, boss={"role": "operator"})
    for name in ("bad", "good"):
        keys.add(
            name, role="executor", namespaces=["mine"], executors=[name], hosts=[name],
            capacity_max=2.0,
        )  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        (node,) = await stack.enter_async_context(
            running(*settings_of(extra=keys.settings + SEEDS))
        )
        api = await stack.enter_async_context(calling(node))
        await until(lambda: "mine" in node.replica.state.namespaces)
        await close_window([node], "mine")
        made = Scene(node, api, keys)
        for name in ("bad", "good"):
            assert (await made.beat(name, joining=True)).status == 200
        for key in range(8):
            path = f"{NS}/shards/k{key}/owner"
            assert (await made.ask("boss", "GET", path)).status == 200
        assert made.held_by("bad")
        assert made.held_by("good")
        yield made


def path_of(route: Route, namespace: str) -> str:
    names = dict.fromkeys(route.variables, "k0") | {"namespace": namespace, "executor": "bad"}
    return route.path.format_map(names)


async def test_it_reads_nothing_of_other_namespaces_and_little_of_its_own(scene: Scene):
    good = {"heartbeat", "assignments", "acks"}
    for route in ROUTES:
        if "namespace" not in route.variables:
            continue
        other = await scene.ask("bad", route.method, path_of(route, "other"))
        absent = await scene.ask("bad", route.method, path_of(route, "absent"))
        assert other.status == absent.status == 403, route.path
        if route.method == "GET" and route.path.rpartition("/")[2] not in good:
            assert (await scene.ask("bad", "GET", path_of(route, "mine"))).status == 403
    told = await scene.ask("bad", "GET", f"{NS}/executors/bad/assignments?incarnation=bad-1")
    assert {line["key"] for line in told.body["assignments"]} == set(scene.held_by("bad"))
    assert "good" not in told.raw.decode()


async def test_it_takes_no_shard_that_it_was_not_given(scene: Scene):
    before = scene.owners()
    theirs = scene.held_by("good")
    raised = {key: epoch + 5 for key, epoch in theirs.items()}
    for held in (theirs, raised):
        claims = {key: {"epoch": epoch, "load": 1.0} for key, epoch in held.items()}
        assert (await scene.beat("bad", shards=claims)).status == 200
        assert (await scene.beat("bad", last_held=held)).status == 200
    words = [{"key": key, "epoch": epoch} for key, epoch in theirs.items()]
    for kind in ("released", "prepared", "failed"):
        assert (await scene.ack("bad", **{kind: words})).status < 500
        assert (await scene.ack("bad", "good", **{kind: words})).reason == "forbidden"
    # Nor by coming in another's name, or in one that nobody has yet.
    for name in ("good", "fresh"):
        assert (await scene.beat("bad", name, joining=True)).reason == "forbidden"
        path = f"{NS}/executors/{name}?incarnation=good-1"
        assert (await scene.ask("bad", "DELETE", path)).reason == "forbidden"
    again = {"incarnation": "bad-2", "predecessor_dead": "good-1", "joining": True}
    assert (await scene.beat("bad", **again)).status == 200
    assert {key: scene.owners()[key] for key in theirs} == {key: before[key] for key in theirs}


async def test_a_shard_that_it_says_it_holds_is_told_of(scene: Scene):
    key, epoch = next(iter(scene.held_by("good").items()))
    held = {**scene.held_by("bad"), key: epoch}
    claims = {one: {"epoch": at} for one, at in held.items()}

    async def noticed() -> bool:
        await scene.beat("bad", shards=claims)
        events = (await scene.ask("boss", "GET", f"{NS}/events?limit=50")).body["events"]
        return any(event["shard"] == key and "held_astray" in event["kind"] for event in events)

    await until(noticed)


async def test_it_lowers_no_epoch_and_uses_none_up(scene: Scene):
    before, counter = scene.owners(), scene.node.replica.state.next_epoch
    for epoch in (0, 1, EPOCH_MAX):
        claims = {key: {"epoch": epoch} for key in before}
        assert (await scene.beat("bad", shards=claims)).status < 500
        assert (await scene.beat("bad", last_held=dict.fromkeys(before, epoch))).status < 500
        words = [{"key": key, "epoch": epoch} for key in before]
        await scene.ack("bad", released=words, prepared=words, failed=words)
    beyond = {"k0": {"epoch": EPOCH_MAX + 1}}
    assert (await scene.beat("bad", shards=beyond)).reason == "invalid"
    assert (await scene.beat("bad", shards={"k0": {"epoch": -1}})).reason == "invalid"
    assert all(epoch >= before[key][1] for key, (_, epoch) in scene.owners().items())
    assert scene.node.replica.state.next_epoch - counter <= len(before)


async def test_it_fills_no_memory(scene: Scene):
    state = scene.node.replica.state.namespaces["mine"]
    shards = len(state.shards)
    for flood in range(2):
        names = [f"stray-{flood}-{one}" for one in range(STRAYS_MAX + 2_000)]
        strays = {key: {"epoch": 1, "load": 1.0} for key in names}
        assert (await scene.beat("bad", shards=strays)).status == 200
        last = dict.fromkeys(names, 1)
        assert (await scene.beat("bad", last_held=last)).status == 200
    _, mind = scene.node.app[DESK].leader.view("mine")
    assert len(mind.strays) <= STRAYS_MAX
    assert mind.claims.last_held == {}, "what was held before counts in claim windows only"
    assert set(mind.loads.means()) <= set(state.shards), "loads of what is not its own are not kept"
    assert len(scene.node.replica.state.namespaces["mine"].shards) == shards
    many = {f"l{one}": "x" for one in range(33)}
    assert (await scene.beat("bad", labels=many)).reason == "invalid"
    assert (await scene.beat("bad", labels={"l": "x" * 2_000})).reason == "invalid"
    # A life after the other under its own name: what is remembered of them is bounded.
    for life in range(3, 40):
        lived = {
            "incarnation": f"bad-{life}",
            "joining": True,
            "predecessor_dead": f"bad-{life - 1}",
        }
        await scene.beat("bad", **lived)
    assert len(scene.node.replica.state.namespaces["mine"].closed) <= CLOSED_MAX
    assert len(scene.node.replica.state.namespaces["mine"].executors) == 2


async def test_it_does_not_hide_its_load(scene: Scene):
    mine = scene.held_by("bad")
    theirs = {key: {"epoch": epoch, "load": 0.5} for key, epoch in scene.held_by("good").items()}
    await scene.beat("good", shards=theirs)
    silent = {key: {"epoch": epoch} for key, epoch in mine.items()}
    assert (await scene.beat("bad", shards=silent, process={"cpu_cores": 1.9})).status == 200
    shown = (await scene.ask("boss", "GET", f"{NS}/balance")).body
    assert shown["unmeasured"] == len(mine), "no news is shown as such, not as zero"
    record = (await scene.ask("boss", "GET", f"{NS}/executors/bad")).body
    assert record["process"]["cpu_cores"] == pytest.approx(1.9)
    assert record["shards"] == len(mine)
    # It cannot make itself look idle by a capacity that it has not, nor by a figure that is none.
    assert (await scene.beat("bad", capacity=2.5)).reason == "forbidden"
    for capacity in (0, -1):
        assert (await scene.beat("bad", capacity=capacity)).reason == "invalid"
    key, epoch = next(iter(mine.items()))
    for load in (-1.0, 1e13):
        lying = {key: {"epoch": epoch, "load": load}}
        assert (await scene.beat("bad", shards=lying)).reason == "invalid"
    # What it leaves out of a report stays its own, and is shown as its own.
    assert (await scene.beat("bad", shards={})).status == 200
    assert set(scene.held_by("bad")) == set(mine)
