"""The dashboard's page as a browser gets it: confined, unkept, and readable across nodes only."""

import re
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from coordinator.api.origins import nodes_of, page_policy
from coordinator.consensus import PeerStatus, Status
from coordinator.dashboard import assets
from coordinator.node import Node
from tests.api.nodes import Caller, calling, ready, running, settings_of
from tests.waiting import until

in_session = pytest.mark.asyncio(loop_scope="session")


@in_session
async def test_the_page_and_all_it_loads_are_served(api: Caller):
    page = await api.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.raw == assets()["index.html"].body
    loaded = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.raw.decode())
    assert loaded
    for path in loaded:
        assert (await api.get(path)).status == 200, path
    kinds = {name: (await api.get(f"/assets/{name}")) for name in assets() if name != "index.html"}
    assert all(answer.status == 200 for answer in kinds.values())
    scripts = {a.headers["Content-Type"] for name, a in kinds.items() if name.endswith(".js")}
    assert scripts == {"text/javascript; charset=utf-8"}


@in_session
async def test_the_page_is_confined(api: Caller):
    headers = (await api.get("/")).headers
    policy = headers["Content-Security-Policy"]
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'none'",
        "base-uri 'none'",
    ):
        assert rule in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


@in_session
async def test_a_browser_asks_each_time_and_is_sent_only_what_it_has_not(api: Caller):
    first = await api.get("/")
    assert first.headers["Cache-Control"] == "no-cache"
    again = await api.get("/", **{"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.raw) == (304, b"")
    assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]
    other = await api.get("/", **{"If-None-Match": '"other"'})
    assert other.status == 200


@pytest.mark.parametrize("name", ["nothing.js", "index.html", "..%2Findex.html", "__init__.py"])
@in_session
async def test_nothing_else_is_served(api: Caller, name: str):
    assert (await api.get(f"/assets/{name}")).reason == "route_not_found"


STATUS = Status(
    name="n1",
    role="leader",
    term=1,
    leader="n1",
    has_quorum=True,
    cluster_id="c",
    commit_index=1,
    applied_index=1,
    log_entries=1,
    log_bytes=1,
    snapshot_index=0,
    snapshot_bytes=0,
    snapshot_age_s=None,
    leader_contact_age_s=0.0,
    peers=(),
)


# -- other nodes' pages ----------------------------------------------------------------------


def status(**peers: str | None) -> Status:
    told = [
        PeerStatus(
            name,
            "h:1",
            connected=True,
            api_url=url,
            match_index=0,
            last_heard_age_s=0.0,
            quarantined=False,
        )
        for name, url in peers.items()
    ]
    return replace(STATUS, peers=tuple(told))


def test_only_what_is_an_origin_gets_into_a_header():
    found = nodes_of(
        "http://n1:7070",
        status(
            n2="https://N2.example:7070/",
            n3="http://x; script-src *",
            n4="http://a b",
            n5=None,
            n6="http://[::1]:7070",
            n7="javascript:1",
        ),
        {"n5": "http://moved:1"},
    )
    assert found == (
        "http://n1:7070",
        "https://n2.example:7070",
        "http://moved:1",
        "http://[::1]:7070",
    )
    assert page_policy(found).endswith(
        "connect-src 'self' http://n1:7070 https://n2.example:7070 http://moved:1 http://[::1]:7070"
    )


async def preflight(api: Caller, path: str, origin: str, method: str = "GET") -> Any:
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    async with api.session.options(api.base + path, headers=headers) as answer:
        return answer.status, answer.headers


@in_session
async def test_pages_of_the_cluster_may_read_and_no_others(api: Caller):
    ns = await api.namespace()
    for path in (ns, "/v1/namespaces/absent", "/nowhere"):
        kin = await api.get(path, Origin=api.base)
        assert kin.headers["Access-Control-Allow-Origin"] == api.base
        assert "X-Leader-Contact-Seconds" in kin.headers["Access-Control-Expose-Headers"]
        for origin in ("http://evil.example", "null", api.base + "0", f"{api.base}/"):
            stranger = await api.get(path, Origin=origin)
            assert "Access-Control-Allow-Origin" not in stranger.headers
            assert stranger.headers["Vary"] == "Origin"
        assert "Vary" not in (await api.get(path)).headers


@in_session
async def test_a_browser_that_asks_first_may_read_with_a_token_and_do_nothing_else(api: Caller):
    ns = await api.namespace()
    told, headers = await preflight(api, ns, api.base)
    assert (told, headers["Access-Control-Allow-Methods"]) == (204, "GET")
    assert headers["Access-Control-Allow-Headers"] == "Authorization"
    assert headers["Access-Control-Allow-Origin"] == api.base
    assert "Access-Control-Allow-Credentials" not in headers
    for origin, method in ((api.base, "DELETE"), ("http://evil.example", "GET")):
        told, headers = await preflight(api, ns, origin, method)
        assert told == 405
        assert "Access-Control-Allow-Methods" not in headers


@in_session
async def test_every_node_lets_the_pages_of_all_of_them_read():
    async with running(*settings_of(3)) as nodes:
        async with calling(nodes[0]) as first:
            await ready(first)
            urls = [node.settings.api_url for node in nodes]
            for node in nodes:
                await until(lambda node=node: knows_all(node, urls))
        for node in nodes:
            async with calling(node) as caller:
                policy = (await caller.get("/")).headers["Content-Security-Policy"]
                assert set(urls) <= set(policy.partition("connect-src")[2].split())
                for url in urls:
                    answer = await caller.get("/v1/cluster", Origin=url)
                    assert answer.headers["Access-Control-Allow-Origin"] == url


async def knows_all(node: Node, urls: list[str]) -> bool:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{node.settings.api_url}/v1/cluster") as answer,
    ):
        told = await answer.json()
    return {one["api"] for one in told["nodes"]} == set(urls)
