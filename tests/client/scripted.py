"""Small servers that answer as they are told: for what a healthy node would not do."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], web.StreamResponse] | web.Response


def ok(body: Any, **headers: str) -> Callable[[web.Request], web.Response]:
    """200 with this body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.Response(
        text=json.dumps(body), content_type="application/json", headers=named
    )


def problem(
    status: int, reason: str, *, retry_after: str | None = None, **extra: Any
) -> Callable[[web.Request], web.Response]:
    """A refusal as the contract writes it."""
    body = {"reason": reason, "status": status, "detail": f"because {reason}", **extra}
    headers = {"X-Request-Id": "r-1"} | ({"Retry-After": retry_after} if retry_after else {})
    return lambda _: web.Response(
        status=status,
        text=json.dumps(body),
        content_type="application/problem+json",
        headers=headers,
    )


@dataclass
class Scripted:
    """Answers in order, the last one for ever; keeps what it was asked."""

    answers: list[Callable[[web.Request], Any]]
    url: str = ""
    seen: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.seen.append(request)
        turn = min(len(self.seen), len(self.answers)) - 1
        result = self.answers[turn](request)
        return await result if hasattr(result, "__await__") else result

    def header(self, name: str) -> list[str | None]:
        """This header of every request so far."""
        return [request.headers.get(name) for request in self.seen]


@asynccontextmanager
async def serving(*answers: Callable[[web.Request], Any]) -> AsyncIterator[Scripted]:
    """A scripted server on a free port of loopback."""
    script = Scripted(list(answers))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    script.url = "http://{}:{}".format(*runner.addresses[0][:2])
    yield script
    await runner.cleanup()
