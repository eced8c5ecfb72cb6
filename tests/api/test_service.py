import asyncio

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from coordinator.api.problems import PROBLEMS
from coordinator.api.routes import ROUTES
from coordinator.metrics import METRICS, PREFIX
from tests.api.nodes import DOCUMENT, Caller

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/leader"])
async def test_a_healthy_lone_node_lives_is_ready_and_leads(api: Caller, path: str):
    assert (await api.get(path)).raw == b"ok\n"
    for query in ("?verbose", "?verbose=true"):
        verbose = await api.get(path + query)
        assert verbose.raw.decode().splitlines()[-1] == "ok"
        assert all(line.startswith("[+] ") for line in verbose.raw.decode().splitlines()[:-1])
    assert (await api.ask("HEAD", path)).status == 200


@pytest.mark.parametrize("reason", PROBLEMS)
async def test_every_problems_type_is_a_page_of_the_node(api: Caller, reason: str):
    answer = await api.get(f"/problems/{reason}")
    assert answer.status == 200
    assert answer.raw.decode().startswith(reason)


async def test_an_unknown_problem_has_no_page(api: Caller):
    assert (await api.get("/problems/nonsense")).reason == "route_not_found"


async def test_the_document_is_valid_openapi(api: Caller):
    served = (await api.get("/openapi.json")).body
    assert served == DOCUMENT
    OpenAPIV31SpecValidator(served).validate()


async def test_the_document_and_the_table_name_the_same_paths():
    documented = {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    assert documented == {(route.method, route.path) for route in ROUTES}
    names = [op["operationId"] for ops in DOCUMENT["paths"].values() for op in ops.values()]
    assert len(names) == len(set(names))


async def test_every_reason_is_documented_somewhere_or_is_for_no_path_at_all():
    documented = " ".join(
        response["description"]
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
        for response in operation["responses"].values()
    )
    assert {reason for reason in PROBLEMS if reason not in documented} == {"method_not_allowed"}


async def test_metrics_are_prometheus_text_and_openmetrics_when_asked_for(api: Caller):
    answer = await api.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert list(plain(answer.raw.decode()))
    modern = await api.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert modern.headers["Content-Type"].startswith("application/openmetrics-text")
    assert list(openmetrics(modern.raw.decode()))


async def figures(api: Caller) -> dict[tuple[str, tuple[str, ...]], float]:
    text = (await api.get("/metrics")).raw.decode()
    return {
        (sample.name.removeprefix(PREFIX), tuple(sample.labels.values())): sample.value
        for family in plain(text)
        for sample in family.samples
    }


async def test_metrics_tell_what_is_there(api: Caller):
    ns = await api.namespace("fixed", 4)
    name = ns.rpartition("/")[2]
    await api.join(ns, "e1")
    for key in "0123":
        await api.owner(ns, key)
    await api.post(f"{ns}/shards/0/drain")
    before = await figures(api)
    assert before["raft_is_leader", ()] == before["raft_has_quorum", ()] == 1
    assert before["executors", (name, "active")] == 1
    assert before["shards", (name, "owned")] == 3
    assert before["shards", (name, "releasing")] == 1
    assert before["shards_unassigned", (name,)] == 0
    await api.release(ns, "e1")
    await api.post(f"{ns}/executors/e1/cordon")
    await api.beat(ns, "e1", 2)
    after = await figures(api)
    assert after["shards", (name, "parked")] == 1
    assert after["executors", (name, "cordoned")] == 1
    assert after["heartbeats_total", ("ok",)] == before["heartbeats_total", ("ok",)] + 1
    route = "/v1/namespaces/{namespace}/executors/{executor}/heartbeat"
    assert any(
        labels[:2] == ("200", route) or labels[:2] == (route, "200")
        for (metric, labels) in after
        if metric == "http_requests_total"
    )


async def test_metrics_are_those_of_the_table_and_never_carry_a_key(api: Caller):
    ns = await api.namespace()
    await api.join(ns, "e1")
    await api.owner(ns, "a-very-unusual-key")
    text = (await api.get("/metrics")).raw.decode()
    assert "a-very-unusual-key" not in text
    families = {family.name: family for family in plain(text)}
    own = {name for name in families if name.startswith(PREFIX)}
    assert own == {PREFIX + name for name in METRICS}
    assert {name for name in families if name not in own} == {
        name for name in families if name.startswith("process_")
    }
    for name, (_, labels) in METRICS.items():
        for sample in families[PREFIX + name].samples:
            assert sample.labels.keys() - {"le"} == set(labels), sample


async def test_open_long_polls_are_counted(api: Caller):
    ns = await api.namespace()
    cursor = (await api.get(f"{ns}/routing")).body["cursor"]
    poll = asyncio.ensure_future(api.get(f"{ns}/routing?after={cursor}&wait=20s"))
    await asyncio.sleep(0.1)
    assert (await figures(api))["watch_waiters", ()] == 1
    await api.join(ns, "e1")
    assert (await poll).status == 200
    assert (await figures(api))["watch_waiters", ()] == 0


async def test_the_cluster_is_shown(api: Caller):
    shown = (await api.get("/v1/cluster")).body
    assert (shown["node"], shown["leader"], shown["storage"]) == ("n1", "n1", "memory")
    assert shown["cluster_id"] == (await api.get("/livez")).headers["X-Cluster-Id"]
    (node,) = shown["nodes"]
    assert (node["role"], node["api"]) == ("leader", api.base)
    assert shown["leader_api"] == api.base
    assert shown["applied_index"] >= 1


async def test_members_neither_join_nor_leave(api: Caller):
    place = {"node": "n9", "raft": "127.0.0.1:9", "api": "http://127.0.0.1:9"}
    unknown = await api.post("/v1/cluster/members", place)
    assert (unknown.status, unknown.reason) == (409, "conflict")
    assert "a lost node is replaced by one of the same name" in unknown.body["detail"].lower()
    gone = await api.ask("DELETE", "/v1/cluster/members/n1")
    assert (gone.status, gone.reason) == (409, "conflict")


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ({"node": "n1", "api": "127.0.0.1:9"}, "api"),
        ({"node": "n1", "api": "http://h", "raft": "h"}, "raft"),
        ({"node": "n1", "api": "http://h", "raft": "h:0"}, "raft"),
    ],
)
async def test_a_move_names_addresses_that_can_be_used(
    api: Caller, place: dict[str, str], path: str
):
    answer = await api.post("/v1/cluster/members", place)
    assert (answer.status, answer.reason) == (422, "invalid")
    assert answer.body["errors"][0]["path"] == path


async def test_a_member_that_runs_is_not_moved_and_the_formats_are_shown(api: Caller):
    place = {"node": "n1", "raft": "127.0.0.1:9", "api": "http://127.0.0.1:9"}
    answer = await api.post("/v1/cluster/members", place)
    assert (answer.status, answer.reason) == (409, "conflict")
    assert "stop it first" in answer.body["detail"]
    shown = (await api.get("/v1/cluster")).body
    assert shown["format"] >= 0
    assert shown["nodes"][0]["formats"] == [1, 1]


async def test_a_lone_node_can_hand_the_lead_to_nobody(api: Caller):
    alone = await api.post("/v1/cluster/transfer-leadership")
    assert (alone.status, alone.reason) == (409, "conflict")
    same = await api.post("/v1/cluster/transfer-leadership", {"to": "n1"})
    assert (same.status, same.body["leader"]) == (200, "n1")
    unknown = await api.post("/v1/cluster/transfer-leadership", {"to": "n2"})
    assert unknown.body["errors"][0]["path"] == "to"
