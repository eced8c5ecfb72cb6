"""Real nodes on loopback, in the test's own loop, and a caller that checks what they answer."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from openapi_schema_validator import OAS31Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from yarl import URL

from coordinator.api.openapi import document, reasons_of
from coordinator.api.problems import PROBLEM_TYPE
from coordinator.api.route import Route
from coordinator.api.routes import ROUTES
from coordinator.node import Node
from coordinator.settings import Settings, parse_settings
from tests.waiting import until
from tests.windows import close_window

DOCUMENT: dict[str, Any] = json.loads(document(ROUTES))
REGISTRY: Registry[Any] = Registry().with_resource(
    "urn:api", Resource(DOCUMENT, specification=DRAFT202012)
)
_VALIDATORS: dict[str, OAS31Validator] = {}
QUICK = {"initial_hold_s": 0, "lease_ttl_s": 20}
"""Shards are placed at once, and no lease runs out while a test looks away."""
NAMESPACES_KEPT = 50
"""By one caller: more than any test makes, and half of those that the metrics tell."""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def settings_of(count: int = 1, extra: str = "", api_port: int | None = None) -> list[Settings]:
    """The settings of a cluster of `count` nodes on free ports, or the first on a given one."""
    ports = free_ports(2 * count)
    if api_port is not None:
        ports[count] = api_port
    peers = ", ".join(f'n{i + 1} = "127.0.0.1:{ports[i]}"' for i in range(count))
    return [
        parse_settings(
            f"""
            [node]
            name = "n{i + 1}"
            peers = {{ {peers} }}
            [api]
            bind = "127.0.0.1:{ports[count + i]}"
            {extra}
            """,
            {},
        )
        for i in range(count)
    ]


@dataclass(slots=True)
class Answer:
    """A response, checked against the OpenAPI document when it came in."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        if self.headers.get("Content-Type") == "application/msgpack":
            return msgspec.msgpack.decode(self.raw)
        return json.loads(self.raw)

    @property
    def reason(self) -> str | None:
        is_problem = self.headers.get("Content-Type") == PROBLEM_TYPE
        return json.loads(self.raw)["reason"] if is_problem else None


@dataclass(slots=True)
class Caller:
    """Asks one node; every answer must be one that the document describes."""

    base: str
    session: aiohttp.ClientSession
    _counter: int = field(default=0)
    _made: list[str] = field(default_factory=list)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self.session.request(
            method, URL(self.base + path, encoded=True), data=data, headers=sent
        ) as response:
            answer = Answer(response.status, response.headers, await response.read())
        # The nodes share this loop: a second of schema checks would cost a leader its lead.
        await asyncio.to_thread(check_answer, method, path, answer)
        return answer

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers=headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.ask("POST", path, {} if body is None else body, headers=headers)

    async def namespace(
        self,
        kind: str = "open",
        shards: int | None = None,
        *,
        is_recovering: bool = False,
        **policy: Any,
    ) -> str:
        """A fresh namespace; gives its path. No executor is there who could claim anything."""
        self._counter += 1
        name = f"t{time.monotonic_ns()}-{self._counter}"
        body: dict[str, Any] = {"kind": kind, "policy": {**QUICK, **policy}}
        if shards is not None:
            body["shard_count"] = shards
        answer = await self.ask("PUT", f"/v1/namespaces/{name}", body)
        assert answer.status == 201, answer.raw
        if not is_recovering:
            await close_window(_RUNNING, name)
        await self._let_go()
        self._made.append(f"/v1/namespaces/{name}")
        return self._made[-1]

    async def _let_go(self) -> None:
        """One node serves a thousand tests: what the first of them made crowds out the last."""
        if len(self._made) >= NAMESPACES_KEPT:
            path = self._made.pop(0)
            name = path.rpartition("/")[2]
            answer = await self.ask("DELETE", f"{path}?confirm={name}&force=true")
            assert answer.status in {204, 404}, answer.raw

    async def beat(self, ns: str, executor: str, sequence: int = 1, **fields: Any) -> Answer:
        body = {
            "incarnation": f"{executor}-a",
            "sequence": sequence,
            "joining": sequence == 1,
            "host": "h1",
            "address": f"{executor}:1",
            **fields,
        }
        return await self.post(f"{ns}/executors/{executor}/heartbeat", body)

    async def join(self, ns: str, *executors: str, **fields: Any) -> None:
        for executor in executors:
            answer = await self.beat(ns, executor, **fields)
            assert answer.status == 200, answer.raw

    async def owner(self, ns: str, key: str) -> dict[str, Any]:
        answer = await self.get(f"{ns}/shards/{key}/owner")
        assert answer.status == 200, answer.raw
        owner: dict[str, Any] = answer.body
        return owner

    async def release(self, ns: str, executor: str) -> int:
        """Acknowledge whatever the executor is to release; gives how many that were."""
        answer = await self.get(f"{ns}/executors/{executor}/assignments?incarnation={executor}-a")
        released = [
            {"key": line["key"], "epoch": line["epoch"]}
            for line in answer.body["assignments"]
            if line["state"] == "release"
        ]
        acked = await self.post(
            f"{ns}/executors/{executor}/acks",
            {"incarnation": f"{executor}-a", "released": released},
        )
        assert acked.status == 200, acked.raw
        return len(released)


_RUNNING: list[Node] = []
"""Of every cluster that a test has started."""


def route_of(method: str, path: str) -> Route | None:
    """The route that a request goes to."""
    parts = path.partition("?")[0].split("/")
    for route in ROUTES:
        is_head = method == "HEAD" and route.audience == "service"
        if (route.method == method or is_head) and route.takes(parts):
            return route
    return None


def check_answer(method: str, path: str, answer: Answer) -> None:
    """Fails unless the OpenAPI document describes this answer."""
    assert answer.headers["X-Request-Id"], (method, path)
    route = route_of(method, path)
    if route is None:
        assert answer.reason in {"route_not_found", "method_not_allowed"}
        return
    if answer.reason is not None:
        assert answer.reason in reasons_of(route), (method, path, answer.raw)
        validate("#/components/schemas/Problem", answer.body)
        assert answer.body["status"] == answer.status
        assert answer.body["instance"] == answer.headers["X-Request-Id"]
        return
    responses = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
    assert str(answer.status) in responses, (method, path, answer.status, answer.raw)
    content = responses[str(answer.status)].get("content")
    if content is None or method == "HEAD":
        assert answer.raw == b""
        return
    media = answer.headers["Content-Type"].partition(";")[0]
    if route.answer is not None:
        assert media in content, (method, path, media)
        pointer = f"#/paths/{route.path.replace('~', '~0').replace('/', '~1')}"
        pointer += f"/{route.method.lower()}/responses/{answer.status}"
        pointer += f"/content/{media.replace('/', '~1')}/schema"
        validate(pointer, answer.body)


def validate(pointer: str, instance: Any) -> None:
    validator = _VALIDATORS.get(pointer)
    if validator is None:
        quoted = pointer.replace("{", "%7B").replace("}", "%7D")
        validator = _VALIDATORS[pointer] = OAS31Validator(
            {"$ref": f"urn:api{quoted}"}, registry=REGISTRY
        )
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]
    assert errors == [], (pointer, instance)


@contextlib.asynccontextmanager
async def running(*settings: Settings) -> AsyncIterator[list[Node]]:
    """Nodes that have been started, stopped at the end."""
    nodes = [Node(each) for each in settings]
    try:
        for node in nodes:
            await node.start()
            _RUNNING.append(node)
        yield nodes
    finally:
        for node in nodes:
            if node in _RUNNING:
                _RUNNING.remove(node)
            await node.stop()


@contextlib.asynccontextmanager
async def calling(node: Node) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession(
        auto_decompress=False, skip_auto_headers=("Accept-Encoding",)
    ) as session:
        yield Caller(node.settings.api_url, session)


async def ready(caller: Caller) -> None:
    async def is_ready() -> bool:
        return (await caller.get("/readyz")).status == 200

    await until(is_ready)
    await until(lambda: _knows_leader(caller))


async def _knows_leader(caller: Caller) -> bool:
    answer = await caller.get("/v1/namespaces?consistency=linearizable")
    return answer.status == 200
