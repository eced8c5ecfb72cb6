"""Every request of an operator, against a real node."""

import asyncio
import re

import pytest
from aiohttp import web

from client import Conflict, Invalid, NotFound, Operator, PreconditionFailed, TimedOut
from tests.client.fleet import Diary
from tests.client.scripted import ok, problem, serving
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_namespace_is_made_found_changed_and_deleted(operator, namespace):
    made = await operator.create_namespace("grid", kind="fixed", shard_count=16)
    assert (made.kind, made.shard_count) == ("fixed", 16)
    assert await operator.create_namespace("grid", kind="fixed", shard_count=16) == made
    assert {"grid", namespace} <= {view.namespace for view in await operator.namespaces()}
    changed = await operator.change_policy("grid", {"balancer": {"mode": "off"}})
    assert changed.policy.balancer.mode == "off"
    assert (await operator.namespace("grid")).policy == changed.policy
    await operator.delete_namespace("grid")
    with pytest.raises(NotFound) as missing:
        await operator.namespace("grid")
    assert missing.value.reason == "namespace_not_found"
    assert missing.value.status == 404
    assert missing.value.request_id


async def test_refusals_have_their_own_types(operator, namespace):
    with pytest.raises(Conflict):
        await operator.create_namespace(namespace, kind="fixed", shard_count=17)
    with pytest.raises(Invalid) as wrong:
        await operator.change_policy(namespace, {"lease_ttl_s": -1})
    assert wrong.value.errors
    with pytest.raises(PreconditionFailed):
        await operator.change_policy(namespace, {"lease_ttl_s": 5}, if_match='"99"')


async def test_shards_are_declared_listed_shown_and_retired(operator, namespace):
    keys = [f"k/{number:04}" for number in range(25)]
    declared = await operator.declare_shards(namespace, keys)
    assert (declared.created, declared.existing) == (25, 0)
    listed = [view.key async for view in operator.shards(namespace)]
    assert sorted(listed) == keys
    assert len([view async for view in operator.shards(namespace, limit=7)]) == 7
    assert (await operator.shard(namespace, "k/0003")).key == "k/0003"
    await operator.retire_shard(namespace, "k/0003")
    with pytest.raises(NotFound):
        await operator.shard(namespace, "k/0003")


async def test_pages_are_followed_to_the_end(operator, namespace, monkeypatch):
    monkeypatch.setattr("client.operator.PAGE_LIMIT", 4)
    keys = {f"k{number}" for number in range(10)}
    await operator.declare_shards(namespace, sorted(keys))
    listed = [view.key async for view in operator.shards(namespace)]
    assert len(listed) == 10
    assert set(listed) == keys
    assert len([view async for view in operator.shards(namespace, limit=6)]) == 6


async def test_a_parked_shard_says_why_until_it_is_freed(operator, namespace):
    await operator.declare_shards(namespace, ["bad"])
    assert (await operator.drain_shard(namespace, "bad", reason="poison")).parked == "poison"
    assert (await operator.undrain_shard(namespace, "bad")).parked is None


async def test_the_balancer_is_paused_and_resumed(operator, namespace):
    paused = await operator.pause_balance(namespace, reason="release", expires_in_s=60)
    assert paused.paused
    assert (await operator.balance(namespace)).paused_reason == "release"
    assert not (await operator.resume_balance(namespace)).paused


async def test_what_the_balancer_would_do_is_asked_and_told(operator, namespace):
    await operator.declare_shards(namespace, ["a"])
    assert (await operator.balance_plan(namespace, level="tight")).stopped == "no_executors"
    imagined = await operator.what_if(
        namespace, executors=3, policy={"balancer": {"stop_gap": 0.05}}
    )
    assert (imagined.executors, imagined.plan.stop_gap) == (3, 0.05)
    table = (await operator.capacity(namespace, executors="2-4")).table
    assert [row.executors for row in table] == [2, 3, 4]
    assert (await operator.balance_history(namespace)).decisions == []
    with pytest.raises(NotFound):
        await operator.decision(namespace, "7")
    assert (await operator.shard(namespace, "a")).why_no_move


async def test_events_are_read_filtered_and_watched(operator, namespace):
    await operator.declare_shards(namespace, ["bad", "good"])
    begun = await operator.events(namespace)
    assert (await operator.events(namespace, after=begun.cursor)).events == []
    await operator.drain_shard(namespace, "bad", reason="poison")
    page = await operator.events(namespace, after=begun.cursor, wait_s=5.0)
    assert [(e.kind, e.shard, e.reason) for e in page.events] == [("shard_parked", "bad", "poison")]

    async def orders():
        await operator.undrain_shard(namespace, "bad")
        await operator.pause_balance(namespace, reason="x")
        await operator.drain_shard(namespace, "good", reason="poison")

    ordering = asyncio.ensure_future(orders())
    seen = []
    kinds = ("shard_parked", "shard_unparked")
    async for later in operator.watch_events(namespace, after=page.cursor, kinds=kinds):
        seen += [(event.kind, event.shard) for event in later.events]
        if len(seen) >= 2:
            break
    await ordering
    assert seen == [("shard_unparked", "bad"), ("shard_parked", "good")]


async def test_a_watch_begins_with_what_is_kept_and_outlives_refusals():
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    page = {"events": [{"id": 7, "kind": "executor_lost"}], "cursor": "c:9", "missed": True}
    nothing = lambda _: web.Response(status=304)  # noqa: E731 - a line of a script
    script = (problem(503, "no_leader"), ok(page), nothing, problem(503, "no_leader"), ok(page))
    async with serving(*script) as node, Operator([node.url], sleep=sleep) as operator:
        pages = operator.watch_events("jobs", kinds=("executor_lost",))
        first, second = await anext(pages), await anext(pages)
        await pages.aclose()
    assert first == second
    assert first.missed
    assert len(waits) == 2
    assert node.seen[0].query_string == "kind=executor_lost"
    for request in node.seen[2:]:
        assert re.fullmatch(r"after=c:9&wait=[0-9.]+s&kind=executor_lost", request.query_string)


async def test_an_order_is_taken_back_and_a_time_that_is_past_is_asked_for(
    cluster, operator, namespace
):
    await operator.declare_shards(namespace, ["a"])
    async with Diary().executor(cluster.endpoints, namespace, "e1") as executor:
        await until(executor.running)
        await operator.pin_shard(namespace, "a", "e1", reason="oops", expires_in_s=600.0)
        pinned = await operator.shard(namespace, "a")
        assert (pinned.pin_reason, pinned.pinned_until is not None) == ("oops", True)
        (order,) = (await operator.events(namespace, orders=True, shard="a")).events
        undone = await operator.undo(namespace, order.id, reason="wrong shard")
        assert (undone.undoes, undone.kind) == (order.id, "shard_unpinned")
        with pytest.raises(Conflict):
            await operator.undo(namespace, order.id)
        with pytest.raises(NotFound) as missing:
            await operator.undo(namespace, 1)
        assert missing.value.reason == "event_not_found"
        now = await operator.shard(namespace, "a", at=order.at)
        assert (now.pinned, now.then.executor, now.then.epoch) == (None, "e1", now.epoch)
        cordoned = await operator.cordon_executor(
            namespace, "e1", reason="sick", expires_in_s=600.0
        )
        assert (cordoned.cordon.reason, cordoned.cordon.until is not None) == ("sick", True)
        host = await operator.cordon_host(namespace, "host-e1", expires_in_s=600.0)
        assert host.cordon.target == "host/host-e1"


async def test_without_an_outage_there_is_nothing_to_proceed_with(operator, namespace):
    view = await operator.mass_failure(namespace)
    assert (view.state, view.silent, view.executors) == ("none", 0, [])
    assert await operator.proceed_mass_failure(namespace, reason="x") == view
    assert (await operator.namespace(namespace)).alarms == []
    assert (await operator.cluster()).alarms == []


async def test_the_cluster_names_its_nodes_and_leader(operator):
    view = await operator.cluster()
    assert view.leader == "n1"
    assert [node.node for node in view.nodes] == ["n1"]
    assert view.has_quorum


async def test_leadership_of_a_lone_node_cannot_be_transferred(operator):
    with pytest.raises(Conflict):
        await operator.transfer_leadership()


async def test_operators_on_unknown_things_are_told_so(operator, namespace):
    with pytest.raises(NotFound):
        await operator.executor(namespace, "nobody")
    with pytest.raises(NotFound):
        await operator.drain(namespace, "d-none")
    with pytest.raises(NotFound):
        await operator.cordon_executor(namespace, "nobody")


async def test_every_verb_on_executors_hosts_and_shards_changes_what_it_names(
    cluster, operator, namespace
):
    diary = Diary()
    await operator.declare_shards(namespace, ["a"])
    first = diary.executor(cluster.endpoints, namespace, "e1")
    async with first, diary.executor(cluster.endpoints, namespace, "e2") as second:
        await until(lambda: first.running() or second.running())
        assert (await operator.cordon_executor(namespace, "e1")).status == "cordoned"
        assert (await operator.uncordon_executor(namespace, "e1")).status == "active"
        assert (await operator.cordon_host(namespace, "host-e1")).status == "cordoned"
        found = await operator.executors(namespace, host="host-e1", status="cordoned")
        assert [view.executor for view in found] == ["e1"]
        assert (await operator.uncordon_host(namespace, "host-e1")).executors == ["e1"]
        await operator.move_shard(namespace, "a", "e1", reason="test")
        await until(first.running)
        pinned = await operator.pin_shard(namespace, "a", "e1", reason="test")
        assert pinned.pinned == "e1"
        assert (await operator.unpin_shard(namespace, "a")).pinned is None
        listed = [view.key async for view in operator.shards(namespace, executor="e1")]
        assert listed == ["a"]


async def test_a_drain_is_followed_to_its_end_and_undone(cluster, operator, namespace):
    diary = Diary()
    await operator.declare_shards(namespace, ["a"])
    async with diary.executor(cluster.endpoints, namespace, "e1") as first:
        await until(first.running)
        with pytest.raises(Conflict, match="would_overload"):
            await operator.drain_executor(namespace, "e1", reason="test")
        drain = await operator.drain_executor(namespace, "e1", reason="test", force=True)
        assert [view.id for view in await operator.drains(namespace)] == [drain.id]
        with pytest.raises(TimedOut, match="1 shards left, blocked"):
            await operator.wait_drained(namespace, drain.id, timeout_s=0.3)
        seen = []
        async with diary.executor(cluster.endpoints, namespace, "e2") as second:
            done = await operator.wait_drained(
                namespace, drain.id, timeout_s=10, on_progress=seen.append
            )
            assert (done.state, done.shards_left, seen[-1]) == ("drained", 0, done)
            assert first.running() == {}
            await until(second.running)
            view = await operator.undrain_executor(namespace, "e1")
            assert (view.status, view.drain) == ("active", None)
            host = await operator.drain_host(namespace, "host-e2", reason="test")
            await operator.wait_drained(namespace, host.id, timeout_s=10)
            assert (await operator.undrain_host(namespace, "host-e2")).status == "active"
            await until(first.running)


async def test_waiting_for_a_drain_lives_through_an_outage():
    done = {"id": "d-1", "state": "drained"}
    going = {"id": "d-1", "state": "draining", "shards_left": 2}
    answers = (ok(going), problem(500, "internal"), problem(503, "no_leader"), ok(done))
    async with serving(*answers) as node, Operator([node.url]) as operator:
        view = await operator.wait_drained("jobs", "d-1", timeout_s=20)
    assert view.state == "drained"


async def test_waiting_for_a_drain_that_was_undone_ends_with_the_truth(operator, namespace):
    with pytest.raises(NotFound):
        await operator.wait_drained(namespace, "d-none", timeout_s=5)
