"""Every request of an operator, against a real node."""

import pytest

from client import Conflict, Invalid, NotFound, PreconditionFailed

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
