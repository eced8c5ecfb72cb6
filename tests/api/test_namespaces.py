import pytest

from tests.api.nodes import Caller

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_fixed_namespace_has_its_numbered_shards(api: Caller):
    ns = await api.namespace("fixed", 4)
    shown = (await api.get(ns)).body
    assert (shown["kind"], shown["shard_count"], shown["shards"]) == ("fixed", 4, 4)
    keys = [shard["key"] for shard in (await api.get(f"{ns}/shards")).body["shards"]]
    assert keys == ["0", "1", "2", "3"]


async def test_creating_it_again_is_no_change(api: Caller):
    ns = await api.namespace("fixed", 4)
    again = await api.ask("PUT", ns, {"kind": "fixed", "shard_count": 4})
    assert again.status == 200
    assert again.body["cursor"] == (await api.get(ns)).body["cursor"]


@pytest.mark.parametrize("body", [{"kind": "open"}, {"kind": "fixed", "shard_count": 5}])
async def test_another_kind_or_count_is_refused(api: Caller, body: dict[str, object]):
    ns = await api.namespace("fixed", 4)
    answer = await api.ask("PUT", ns, body)
    assert (answer.status, answer.reason) == (409, "namespace_exists")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"kind": "fixed"}, "shard_count"),
        ({"kind": "open", "shard_count": 3}, "shard_count"),
        ({"kind": "fixed", "shard_count": 0}, "shard_count"),
        ({"kind": "fixed", "shard_count": 1_000_001}, "shard_count"),
        ({"kind": "fixed", "shard_count": True}, "shard_count"),
        ({"kind": "both"}, "kind"),
        ({"kind": "open", "policy": {"lease_ttl_s": 0.1}}, "policy.lease_ttl_s"),
        (
            {"kind": "open", "policy": {"lease_ttl_s": 2, "heartbeat_interval_s": 1.1}},
            "policy.heartbeat_interval_s",
        ),
        ({"kind": "open", "policy": {"balancer": {"stop_gap": 0.5}}}, "policy.balancer.stop_gap"),
        ({"kind": "open", "policy": {"balancer": {"mode": "dry"}}}, "policy.balancer.mode"),
        ({"kind": "open", "extra": 1}, "body"),
        ({}, "body"),
    ],
)
async def test_a_bad_namespace_is_refused_with_its_place(
    api: Caller, body: dict[str, object], path: str
):
    answer = await api.ask("PUT", "/v1/namespaces/never", body)
    assert (answer.status, answer.reason) == (422, "invalid")
    assert answer.body["errors"][0]["path"] == path
    assert (await api.get("/v1/namespaces/never")).reason == "namespace_not_found"


async def test_all_namespaces_are_listed_by_name(api: Caller):
    made = {(await api.namespace()).rpartition("/")[2] for _ in range(2)}
    names = [view["namespace"] for view in (await api.get("/v1/namespaces")).body["namespaces"]]
    assert made <= set(names)
    assert names == sorted(names)


async def test_a_patch_changes_only_what_it_names(api: Caller):
    ns = await api.namespace(balancer={"start_gap": 0.4})
    answer = await api.ask("PATCH", ns, {"policy": {"balancer": {"mode": "off"}}})
    assert answer.status == 200
    assert answer.body["policy"]["balancer"]["mode"] == "off"
    assert answer.body["policy"]["balancer"]["start_gap"] == 0.4
    assert answer.body["policy_version"] == 2


async def test_a_patch_must_not_contradict_what_stays(api: Caller):
    ns = await api.namespace(heartbeat_interval_s=4)
    answer = await api.ask("PATCH", ns, {"policy": {"lease_ttl_s": 7}})
    assert answer.body["errors"][0]["path"] == "policy.heartbeat_interval_s"


async def test_if_match_guards_a_patch(api: Caller):
    ns = await api.namespace()
    tag = (await api.get(ns)).headers["ETag"]
    change = {"policy": {"drain_in_flight": 8}}
    first = await api.ask("PATCH", ns, change, headers={"If-Match": tag})
    assert (first.status, first.headers["ETag"]) == (200, '"2"')
    late = await api.ask("PATCH", ns, change, headers={"If-Match": tag})
    assert (late.status, late.reason) == (412, "precondition_failed")
    alien = await api.ask("PATCH", ns, change, headers={"If-Match": '"abc"'})
    assert alien.reason == "precondition_failed"
    anything = await api.ask("PATCH", ns, change, headers={"If-Match": "*"})
    assert anything.status == 200


async def test_deletion_wants_the_name_again(api: Caller):
    ns = await api.namespace()
    name = ns.rpartition("/")[2]
    for query in ("", "?confirm=other"):
        answer = await api.ask("DELETE", ns + query)
        assert answer.body["errors"][0]["path"] == "confirm"
    assert (await api.ask("DELETE", f"{ns}?confirm={name}")).status == 204
    assert (await api.get(ns)).reason == "namespace_not_found"
    assert (await api.ask("DELETE", f"{ns}?confirm={name}")).reason == "namespace_not_found"


async def test_a_namespace_with_executors_is_deleted_by_force_only(api: Caller):
    ns = await api.namespace()
    name = ns.rpartition("/")[2]
    await api.join(ns, "e1")
    answer = await api.ask("DELETE", f"{ns}?confirm={name}")
    assert (answer.status, answer.reason) == (409, "namespace_not_empty")
    assert (await api.ask("DELETE", f"{ns}?confirm={name}&force=true")).status == 204


async def test_a_namespace_that_comes_again_never_goes_back_in_revisions(api: Caller):
    ns = await api.namespace()
    name = ns.rpartition("/")[2]
    await api.post(f"{ns}/shards", {"keys": ["a"]})
    before = (await api.get(ns)).body["cursor"]
    await api.ask("DELETE", f"{ns}?confirm={name}")
    again = (await api.ask("PUT", ns, {"kind": "open"})).body["cursor"]
    assert int(again.partition(":")[2]) > int(before.partition(":")[2])


async def test_a_name_that_breaks_the_rule_is_refused(api: Caller):
    answer = await api.ask("PUT", "/v1/namespaces/UPPER", {"kind": "open"})
    assert answer.body["errors"][0]["path"] == "namespace"
    assert (await api.get("/v1/namespaces/UPPER")).reason == "invalid"
