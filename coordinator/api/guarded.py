"""What is wrapped around handlers for the sake of who asks: a line for orders, a second look.

Decides which routes get which. It must not know any single one.
"""

import logging
from typing import Any

from aiohttp import web

from coordinator.api.call import Call
from coordinator.api.door import Door
from coordinator.api.problems import Refusal
from coordinator.api.route import Handler, Route

log = logging.getLogger("coordinator.api")


def guarded(route: Route, door: Door) -> Handler:
    """The handler of a route, as it is called for whoever was let in."""
    if route.is_order:
        return _noted(route)
    if any(parameter.name == "wait" for parameter in route.parameters):
        return _readmitted(route, door)
    return route.handler


def _readmitted(route: Route, door: Door) -> Handler:
    """Whose token was withdrawn while a long poll waited is not told what it waited for."""

    async def answer(call: Call[Any]) -> web.StreamResponse:
        answered = await route.handler(call)
        door.readmit(call.request, call.path, route, call.caller)
        return answered

    return answer


def _noted(route: Route) -> Handler:
    """A line for each order on the node that carries it out: not every order makes an event."""

    async def answer(call: Call[Any]) -> web.StreamResponse:
        came_to = "failed"
        try:
            answered = await route.handler(call)
            came_to = "done"
        except Refusal as refusal:
            came_to = refusal.reason
            raise
        finally:
            told = (call.by, call.request.method, call.request.raw_path, came_to)
            log.info("order by=%s method=%s path=%s came_to=%s", *told)
        return answered

    return answer
