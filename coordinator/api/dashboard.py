"""The dashboard's page and files, under headers that let it do no more than it must.

Decides how browsers keep and confine it. What it shows it asks of the API, like anybody.
"""

from typing import Any, Final

from aiohttp import hdrs, web

from coordinator.api.call import Call
from coordinator.api.origins import PAGE_HEADERS, page_policy
from coordinator.api.problems import Refusal
from coordinator.dashboard import PAGE, Asset, assets

ASSETS: Final = "/assets/"


async def page(call: Call[None]) -> web.Response:
    """The page. It holds nothing that is secret: what it shows needs whatever the API needs."""
    headers = {"Content-Security-Policy": page_policy(call.desk.origins)}
    return _served(call, assets()[PAGE], headers)


async def asset(call: Call[None]) -> web.Response:
    """A file that the page loads."""
    name = call.path["asset"]
    found = assets().get(name)
    if found is None or name == PAGE:
        raise Refusal("route_not_found", f"no file {name[:64]!r}")
    return _served(call, found, {})


def _served(call: Call[Any], found: Asset, more: dict[str, str]) -> web.Response:
    headers = {
        **PAGE_HEADERS,
        **more,
        hdrs.CACHE_CONTROL: "no-cache",  # ask each time: an upgraded node must not meet old files
        hdrs.ETAG: found.etag,
    }
    if found.etag in call.request.headers.get(hdrs.IF_NONE_MATCH, ""):
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, headers={**headers, hdrs.CONTENT_TYPE: found.media})
