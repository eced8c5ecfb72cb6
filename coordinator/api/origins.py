"""Which pages may read this node's answers: those that a node of this cluster has served.

A dashboard whose node died goes on from the others, so browsers must be told that its page may.
Decides which origins that is, what such a page may send, and what a page may load and ask. Only
reading is allowed: no page of another origin gets an order through a browser. It must not know any
route.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from aiohttp import hdrs, web

from coordinator.consensus import Status

PREFLIGHT_S: Final = 600
"""How long a browser remembers that it may ask: as long as some of them do at most."""

_ORIGIN: Final = re.compile(
    r"https?://(?:[A-Za-z0-9.-]{1,255}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?"
)
"""What a peer says of itself gets into a header only in this form."""

_READ: Final = (
    "Retry-After, X-Cluster-Id, X-Leader, X-Leader-Contact-Seconds, X-Request-Id, X-Revision"
)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'; connect-src 'self'"
)
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def nodes_of(own_url: str, status: Status, moved: Mapping[str, str]) -> tuple[str, ...]:
    """The origins of this cluster's nodes, as far as this one has ever heard of them."""
    return tuple(dict.fromkeys(_origins(own_url, status, moved)))


def _origins(own_url: str, status: Status, moved: Mapping[str, str]) -> Iterator[str]:
    yield own_url.lower()
    for peer in status.peers:
        for url in (peer.api_url, moved.get(peer.name)):
            origin = (url or "").rstrip("/").lower()
            if _ORIGIN.fullmatch(origin):
                yield origin


def page_policy(nodes: tuple[str, ...]) -> str:
    """The content security policy of the dashboard: nothing inline, nothing from elsewhere."""
    return " ".join((_POLICY, *nodes))


def may_read(origin: str, nodes: tuple[str, ...]) -> dict[str, str]:
    """Headers that let a page of that origin read an answer; none for strangers."""
    if origin.lower() not in nodes:
        return {}
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _READ}


def preflight(request: web.Request, nodes: tuple[str, ...]) -> web.Response | None:
    """The answer to a browser that asks first; None if that is not what it is, or for strangers.

    Nothing but GET is allowed, and no header but the token's.
    """
    wanted = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_METHOD)
    if request.method != hdrs.METH_OPTIONS or wanted != hdrs.METH_GET:
        return None
    if not may_read(request.headers.get(hdrs.ORIGIN, ""), nodes):
        return None
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": "GET",
            "Access-Control-Allow-Headers": "Authorization",
            "Access-Control-Max-Age": str(PREFLIGHT_S),
        },
    )
