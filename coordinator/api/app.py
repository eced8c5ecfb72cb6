"""The aiohttp application of one node, put together from the table of routes."""

import random
from collections.abc import AsyncIterator
from functools import cache
from typing import Final

from aiohttp import web

from coordinator.api.call import Desk
from coordinator.api.door import Door
from coordinator.api.express import Express
from coordinator.api.forward import Forwarder
from coordinator.api.kept import KeptAnswers
from coordinator.api.openapi import document
from coordinator.api.outgoing import Outgoing
from coordinator.api.route import HEARTBEAT_BYTES
from coordinator.api.routes import ROUTES
from coordinator.api.serve import Server, unmatched
from coordinator.api.shelf import Shelf, from_match
from coordinator.api.watch import Polls
from coordinator.clock import Clock, SystemClock
from coordinator.forecasts import Forecasts
from coordinator.leadership import Leadership
from coordinator.metrics import NodeMetrics
from coordinator.replica import Replica
from coordinator.settings import Settings

DESK: Final = web.AppKey("desk", Desk)
SHELF: Final = web.AppKey("shelf", Shelf)
EXPRESS: Final = web.AppKey("express", Express)
NAMESPACES: Final = "/v1/namespaces"
"""What nearly every path begins with."""


def make_app(
    replica: Replica,
    leader: Leadership,
    settings: Settings,
    *,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    door: Door | None = None,
) -> web.Application:
    """The application. At its shutdown the long polls are released before anything is awaited."""
    clock = clock or SystemClock()
    rng = rng or random.Random()
    door = door or Door(settings, clock)
    door.count_into(replica.meters.turned_away)
    polls = Polls(replica.watches, settings.limits.watch_waiters, rng)
    desk = Desk(
        replica=replica,
        leader=leader,
        settings=settings,
        clock=clock,
        polls=polls,
        forwarder=Forwarder(settings.node.name, is_secured=settings.api_url.startswith("https://")),
        metrics=NodeMetrics(replica, leader, clock, settings.limits, waiters=lambda: polls.count),
        forecasts=Forecasts(clock),
        door=door,
        kept=KeptAnswers(clock),
        openapi=_document(),
        outgoing=Outgoing(settings.limits.answer_bytes, settings.limits.answer_timeout_s),
    )
    server = Server(desk)
    app = web.Application(client_max_size=HEARTBEAT_BYTES)
    app[DESK] = desk
    app[EXPRESS] = Express(desk, ROUTES, server.request_ids)
    shelf = app[SHELF] = Shelf(NAMESPACES)
    app.router.register_resource(shelf)
    for route in ROUTES:
        answer = server.bind(route)
        if route.path.startswith(f"{NAMESPACES}/"):
            shelf.put(route.method, route.pattern, answer)
        else:
            app.router.add_route(route.method, route.pattern, from_match(answer))
        if route.audience == "service":  # some load balancers ask by HEAD
            app.router.add_route("HEAD", route.pattern, from_match(answer))
    app.router.add_route(
        "*", "/{path:.*}", from_match(server.wrapped(unmatched(ROUTES, desk), "none"))
    )
    app.on_shutdown.append(_release)
    app.cleanup_ctx.append(_pool)
    return app


@cache
def _document() -> bytes:
    """Made once: a process may hold several nodes, one after another."""
    return document(ROUTES)


async def _release(app: web.Application) -> None:
    app[DESK].polls.release()


async def _pool(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[DESK].forwarder.close()
