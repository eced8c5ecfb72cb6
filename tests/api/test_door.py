"""Every route, asked by every role, in the namespace it is limited to, another, and none."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from coordinator.api.app import DESK
from coordinator.api.rates import Failures
from coordinator.api.rights import Role
from coordinator.api.route import Route
from coordinator.api.routes import ROUTES
from coordinator.node import Node
from tests.api.keys import Keys
from tests.api.nodes import running, settings_of
from tests.waiting import until
from tests.windows import close_window

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {"namespace": "mine", "executor": "e1", "host": "h1", "key": "0", "decision": "1"}
SEEDS = """
[namespaces.mine]
kind = "fixed"
shard_count = 2
[namespaces.other]
kind = "fixed"
shard_count = 2
"""


def roles_of(route: Route) -> set[str]:
    """Who may, by the contract: written apart from the table that the nodes go by."""
    match route.audience, route.method:
        case "executor", "GET":
            return {"executor", "viewer", "operator"}
        case "executor", _:
            return {"executor", "operator"}
        case "router", "GET":
            return {"router", "viewer", "operator"}
        case "operator", "GET":
            return {"viewer", "operator"}
        case "operator", _ if route.path.endswith("/balance/what-if"):
            return {"viewer", "operator"}
        case "operator", _:
            return {"operator"}
        case "service", "GET" if route.path == "/metrics":
            return {"metrics", "viewer", "operator"}
        case "service" | "dashboard", "GET":
            return set(Role)
    raise AssertionError((route.method, route.path))


def is_open(route: Route) -> bool:
    return route.audience in {"service", "dashboard"} and route.path != "/metrics"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    made = Keys(tmp_path_factory.mktemp("keys"))
    for role in Role:
        made.add(f"any-{role}", role=role.value)
        if role is not Role.METRICS:
            made.add(f"mine-{role}", role=role.value, namespaces=["mine"])
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(keys: Keys) -> AsyncIterator[Node]:
    async with running(*settings_of(extra=keys.settings + SEEDS)) as (only,):
        await until(lambda: {"mine", "other"} <= only.replica.state.namespaces.keys())
        yield only


def path_of(route: Route, namespace: str = "mine") -> str:
    names = defaultdict(lambda: "x1", NAMES, namespace=namespace)
    return route.path.format_map(names)


class Asker:
    def __init__(self, node: Node, session: aiohttp.ClientSession, keys: Keys) -> None:
        self.base, self.session = node.settings.api_url, session
        self.known = frozenset(keys.secrets.values())

    async def ask(self, method: str, path: str, token: str | None) -> tuple[int, dict[str, str]]:
        """Status, and the problem without what differs between any two requests."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.session.request(
            method, URL(self.base + path, encoded=True), headers=headers
        ) as answer:
            raw = await answer.read()
            told = json.loads(raw) if answer.content_type == "application/problem+json" else {}
            told.pop("instance", None)
            if answer.status == 401:
                assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            if token not in self.known:
                assert not {"X-Cluster-Id", "X-Leader"} & set(answer.headers), path
                assert "leader" not in told
            return answer.status, told


@pytest_asyncio.fixture(loop_scope="module")
async def asker(node: Node, keys: Keys) -> AsyncIterator[Asker]:
    async with aiohttp.ClientSession() as session:
        yield Asker(node, session, keys)


def lines() -> Iterator[Route]:
    # What ends a namespace or hands the lead over comes last, so that the others find it there.
    return iter(sorted(ROUTES, key=lambda route: route.method == "DELETE"))


async def test_a_stranger_is_told_the_same_everywhere(node: Node, keys: Keys, asker: Asker):
    door, answers = node.app[DESK].door, set()
    wrong = keys["any-operator"][:-1] + ("A" if keys["any-operator"][-1] != "A" else "B")
    for route in lines():
        door._failures = Failures()
        for namespace in ("mine", "absent"):
            for token in (None, wrong):
                status, told = await asker.ask(route.method, path_of(route, namespace), token)
                if is_open(route):
                    assert status not in {401, 403}, route.path
                else:
                    answers.add((status, json.dumps(told, sort_keys=True)))
    ((status, told),) = answers
    assert status == 401
    assert "mine" not in told


async def test_each_role_may_what_it_is_for_and_nothing_else(keys: Keys, asker: Asker):
    for route in lines():
        for role in Role:
            status, told = await asker.ask(route.method, path_of(route), keys[f"any-{role}"])
            if role in roles_of(route):
                assert status not in {401, 403}, (route.method, route.path, role, told)
            else:
                assert status == 403, (route.method, route.path, role)
                assert repr(route.right.value) in told["detail"]


async def test_a_limit_to_namespaces_holds_and_tells_nothing_of_what_exists(
    keys: Keys, asker: Asker
):
    for route in lines():
        if is_open(route):
            continue
        for role in set(Role) - {Role.METRICS}:
            token = keys[f"mine-{role}"]
            if "namespace" not in route.variables:
                status, _ = await asker.ask(route.method, path_of(route), token)
                is_good = route.is_narrowed and role in roles_of(route)
                assert (status == 403) is not is_good, (route.path, role)
                continue
            other, absent = await asyncio.gather(
                asker.ask(route.method, path_of(route, "other"), token),
                asker.ask(route.method, path_of(route, "absent"), token),
            )
            assert other == absent, (route.method, route.path, role)
            assert other[0] == 403
            assert repr(route.right.value) in other[1]["detail"]
            status, told = await asker.ask(route.method, path_of(route), token)
            assert (status == 403) is (role not in roles_of(route)), (route.path, role, told)


async def test_lists_of_all_namespaces_show_only_those_of_the_caller(keys: Keys, asker: Asker):
    async def shown(label: str) -> set[str]:
        headers = keys.bearer(label)
        async with asker.session.get(f"{asker.base}/v1/namespaces", headers=headers) as answer:
            return {view["namespace"] for view in (await answer.json())["namespaces"]}

    assert await shown("mine-viewer") == {"mine"}
    assert {"mine", "other"} <= await shown("any-viewer")


async def test_looking_up_creates_for_routers_and_not_for_who_may_only_look(
    node: Node, keys: Keys, asker: Asker
):
    operator = keys.bearer("any-operator")
    ns = f"{asker.base}/v1/namespaces/open"
    wanted = {"kind": "open", "policy": {"initial_hold_s": 0}}
    async with asker.session.put(ns, json=wanted, headers=operator) as made:
        assert made.status == 201
    await close_window([node], "open")
    beat = {"incarnation": "a", "sequence": 1, "joining": True}
    async with asker.session.post(
        f"{ns}/executors/e1/heartbeat", json=beat, headers=operator
    ) as joined:
        assert joined.status == 200
    path = "/v1/namespaces/open/shards/fresh/owner"
    assert (await asker.ask("GET", path, keys["any-viewer"]))[0] == 404
    status, told = await asker.ask("GET", f"{path}?create=true", keys["any-viewer"])
    assert (status, told["detail"]) == (403, "this needs the right 'create'")
    assert "fresh" not in node.replica.state.namespaces["open"].shards
    assert (await asker.ask("GET", path, keys["any-router"]))[0] == 200
    assert (await asker.ask("GET", path, keys["any-viewer"]))[0] == 200
