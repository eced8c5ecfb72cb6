"""A path leads to its own route, after few tries."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from coordinator.api.app import NAMESPACES
from coordinator.api.routes import ROUTES
from coordinator.api.shelf import Shelf

BELOW = [route for route in ROUTES if route.path.startswith(f"{NAMESPACES}/")]


@pytest.fixture
def shelf():
    made = Shelf(NAMESPACES)
    for route in BELOW:
        made.put(route.method, route.pattern, handler_of(route))
    return made


def handler_of(route):
    async def answer(_request, path):
        return web.Response(text=f"{route.method} {route.path} {dict(path)}")

    return answer


async def met(_request):
    """What aiohttp's own router would say of it."""
    return web.Response(text="not at once")


async def answer_of(shelf, request):
    """What is answered at once."""
    return (await shelf.before(met)(request)).text


@pytest.mark.parametrize("route", BELOW, ids=lambda route: f"{route.method} {route.path}")
async def test_every_path_leads_to_its_own_route_with_its_variables(shelf, route):
    path = route.path.replace("{", "an-").replace("}", "%2F-%C3%A9")
    found, _ = await shelf.resolve(make_mocked_request(route.method, path))
    answer = await found.handler(made_with(found, route.method, path))
    assert answer.text.startswith(f"{route.method} {route.path} ")
    assert set(found) == set(route.variables)
    assert await answer_of(shelf, make_mocked_request(route.method, path)) == "not at once"


@pytest.mark.parametrize("route", BELOW, ids=lambda route: f"{route.method} {route.path}")
async def test_a_plain_path_is_answered_at_once_as_the_router_would(shelf, route):
    path = route.path.format(**{name: f"an-{name}.1:@" for name in route.variables})
    request = make_mocked_request(route.method, path)
    found, _ = await shelf.resolve(request)
    routed = await found.handler(made_with(found, route.method, path))
    assert await answer_of(shelf, request) == routed.text


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "//executors/e/heartbeat", {}),
        ("POST", "/n/executors//heartbeat", {}),
        ("GET", "/n/", {}),
        ("GET", "/n/executors/e/heartbeat", {}),
        ("POST", "/n/executors/e/nothing", {}),
        ("POST", "/n/executors/a%2Fb/heartbeat", {}),
        ("POST", "/n/executors/e/heartbeat", {"Expect": "100-continue"}),
    ],
)
async def test_what_is_not_plain_is_left_to_aiohttp(shelf, method, path, headers):
    request = make_mocked_request(method, f"{NAMESPACES}{path}", headers=headers)
    assert await answer_of(shelf, request) == "not at once"


def made_with(found, method, path):
    request = make_mocked_request(method, path)
    request._match_info = found
    return request


async def test_a_path_that_reads_like_the_end_of_another_is_still_its_own(shelf):
    key = "pin"  # also the name of a verb
    found, _ = await shelf.resolve(make_mocked_request("GET", f"{NAMESPACES}/n/shards/{key}"))
    assert dict(found) == {"namespace": "n", "key": "pin"}
    told = await answer_of(shelf, make_mocked_request("GET", f"{NAMESPACES}/n/shards/{key}"))
    assert told.startswith("GET /v1/namespaces/{namespace}/shards/{key} ")


async def test_a_wrong_method_is_told_what_is_allowed_and_a_wrong_path_nothing(shelf):
    found, allowed = await shelf.resolve(
        make_mocked_request("DELETE", f"{NAMESPACES}/n/shards/k/pin")
    )
    assert (found, allowed) == (None, {"POST"})
    found, allowed = await shelf.resolve(make_mocked_request("GET", f"{NAMESPACES}/n/nothing/of"))
    assert (found, allowed) == (None, set())


async def test_few_resources_are_tried_for_any_path(shelf, monkeypatch):
    tries = 0
    tried = web.DynamicResource._match

    def counted(self, path):
        nonlocal tries
        tries += 1
        return tried(self, path)

    monkeypatch.setattr(web.DynamicResource, "_match", counted)
    for route in BELOW:
        tries = 0
        await shelf.resolve(
            make_mocked_request(route.method, route.path.replace("{", "").replace("}", ""))
        )
        assert tries <= 6, route.path
