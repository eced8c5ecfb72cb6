"""The way of every request: route, parameters, leader, body, handler, answer, or a problem.

Decides the order of the checks that all routes share. It must not know any single route.
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import hdrs, web

from coordinator import logs
from coordinator.api.bodies import Decode, decoder
from coordinator.api.call import Call, Desk
from coordinator.api.forward import HOP_HEADER
from coordinator.api.guarded import guarded
from coordinator.api.incoming import Incoming
from coordinator.api.origins import may_read, preflight
from coordinator.api.parameters import wants_proof
from coordinator.api.problems import PROBLEM_TYPE, FieldError, Refusal
from coordinator.api.query import idempotency_key, wait_s
from coordinator.api.request_ids import HEADER as ID_HEADER
from coordinator.api.request_ids import RequestIds
from coordinator.api.route import Leader, Parameter, Route
from coordinator.api.shelf import Answer
from coordinator.consensus import (
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    ProbeTimeout,
    TooLarge,
)

log = logging.getLogger("coordinator.api")

REQUEST_ID: Final = web.RequestKey("request_id", str)
TAKES_S: Final = web.RequestKey("takes_s", float)
_TRACE_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_CONSENSUS_FAULTS: Final = (NotLeader, OutcomeUnknown, Overloaded, ProbeTimeout, TooLarge)


class Server:
    """Turns the routes into aiohttp's handlers, and everything that goes wrong into problems.

    There is no aiohttp middleware: it would cost every request two more coroutines.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.request_ids = RequestIds()
        self._incoming = Incoming(desk.settings.limits.body_bytes)

    def bind(self, route: Route) -> Answer:
        """What answers the requests of a route."""
        return self.wrapped(self._served(route), route.path)

    def wrapped(self, handler: Answer, name: str) -> Answer:
        """Around any handler: names requests, turns faults into problems, signs answers."""
        meters = self._desk.replica.meters
        answered, monotonic = meters.answered, meters.monotonic
        name_of = self.request_ids.of

        async def around(request: web.Request, path: Mapping[str, str]) -> web.StreamResponse:
            request[REQUEST_ID] = request_id = name_of(request.headers)
            logs.REQUEST_ID.set(request_id)
            logs.TRACE_ID.set(_trace_id(request.headers.get("traceparent", "")))
            began = monotonic()
            try:
                response = await handler(request, path)
            except (Refusal, web.HTTPException, *_CONSENSUS_FAULTS) as fault:
                response = self._problem(request, as_refusal(fault))
            except Exception:
                log.exception("request_failed request_id=%s route=%s", request_id, name)
                response = self._problem(request, Refusal("internal", "see the node's log"))
            finally:
                self._incoming.over(request)
            if not response.prepared:
                self.sign(request, response)
            answered[name, response.status] += 1
            if "wait=" not in request.query_string:  # how long a poll waits says nothing
                meters.took(name, monotonic() - began)
            return response

        return around

    def _served(self, route: Route) -> Answer:
        known = {parameter.name: parameter for parameter in route.parameters}
        door, leader = self._desk.door, self._desk.leader
        handler = guarded(route, door)
        decode = decoder_of(route)
        decode_now = None if route.is_read_late else decode

        async def serve(request: web.Request, path: Mapping[str, str]) -> web.StreamResponse:
            caller = door.admit(request, path, route)
            is_proof_wanted = False
            if request.query_string:
                _check_query(request, known)
                is_proof_wanted = wants_proof(request.query)
            if route.is_order:
                idempotency_key(request.headers)  # also where a follower would only hand it on
            is_must = is_proof_wanted or route.leader is Leader.MUST
            payload = b""
            if request.body_exists:
                payload = await self._read(request, route)
            if (is_must or route.leader is not Leader.NO) and not leader.is_leading:
                request[TAKES_S] = route.takes_s
                passed = await self._to_leader(request, payload, is_must=is_must)
                if passed is not None:
                    return passed
            if is_proof_wanted:
                await self._desk.replica.consensus.confirm_leadership()
            body = decode_now(request.headers, payload) if decode_now else None
            is_msgpack = route.answers_msgpack(request.headers)
            call = Call(self._desk, request, path, body, payload, is_msgpack, caller, decode)
            try:
                return await handler(call)
            except Refusal as refusal:
                passed = await self._second_opinion(request, refusal)
                if passed is None:
                    raise
                return passed

        return serve

    def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """The headers of every answer. Strangers are told nothing of the cluster."""
        response.headers[ID_HEADER] = request[REQUEST_ID]
        if self._desk.door.knows(request):
            response.headers.update(self._desk.signature)
        self._let_read(request, response)

    def _let_read(self, request: web.Request, response: web.StreamResponse) -> None:
        """Tell the browser of a page of this cluster that it may see the answer."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            before = response.headers.get(hdrs.VARY)
            response.headers[hdrs.VARY] = f"{before}, Origin" if before else "Origin"
            response.headers.update(may_read(origin, self._desk.origins))

    def _problem(self, request: web.Request, refusal: Refusal) -> web.Response:
        leader = self._desk.leader_url if self._desk.door.knows(request) else None
        response = web.Response(
            body=refusal.encoded(request_id=request[REQUEST_ID], leader=leader),
            status=refusal.kind.status,
            headers={"Content-Type": PROBLEM_TYPE, **refusal.headers},
        )
        if refusal.is_last:
            response.force_close()
        return response

    async def _read(self, request: web.Request, route: Route) -> bytes:
        """The whole body within the route's size and the node's deadline."""
        if hdrs.CONTENT_ENCODING in request.headers:
            raise Refusal("unsupported_media", "send the body uncompressed")
        upper = route.body_bytes_max
        length = request.content_length
        if length is not None and length > upper:
            raise Refusal(
                "too_large", f"{length} bytes; at most {upper} are taken here", is_last=True
            )
        content = request.content
        if content.is_eof():  # arrived with its header: the usual case costs no timer
            payload = content.read_nowait()
        else:
            payload = await self._read_slowly(request, upper)
        if len(payload) > upper:
            raise Refusal("too_large", f"at most {upper} bytes are taken here", is_last=True)
        return payload

    async def _read_slowly(self, request: web.Request, upper: int) -> bytes:
        content = request.content
        parts: list[bytes] = []
        size = 0
        limit_s = self._desk.settings.limits.body_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while size <= upper:
                    part = await content.readany()
                    if not part and content.at_eof():
                        break
                    self._incoming.take(request, len(part))
                    parts.append(part)
                    size += len(part)
        except TimeoutError:
            raise Refusal(
                "invalid",
                f"the body did not arrive within {limit_s:g} s",
                is_last=True,
            ) from None
        return b"".join(parts)

    async def _to_leader(
        self, request: web.Request, payload: bytes, *, is_must: bool
    ) -> web.StreamResponse | None:
        """The leader's answer, or None if this node, which does not lead, is to answer itself."""
        url = self._other_leader(request)
        if is_must:
            if url is None:
                raise Refusal("no_leader", "no leader has a quorum, as far as this node knows")
            return await self._forward(request, url, payload)
        return None if url is None else await self._tried(request, url)

    async def _second_opinion(
        self, request: web.Request, refusal: Refusal
    ) -> web.StreamResponse | None:
        """A follower that does not know of something asks the leader, which may know already."""
        if request.method != "GET" or refusal.kind.status not in {404, 503}:
            return None
        if refusal.reason in {"shutting_down", "no_leader"} or self._desk.leader.is_leading:
            return None
        url = self._other_leader(request)
        return None if url is None else await self._tried(request, url)

    def _other_leader(self, request: web.Request) -> str | None:
        """Where a request can be forwarded; None if nowhere, or if it was forwarded already."""
        url = self._desk.leader_url
        if url == self._desk.settings.api_url or HOP_HEADER in request.headers:
            return None
        return url

    async def _tried(self, request: web.Request, url: str) -> web.StreamResponse | None:
        """The leader's answer to a read, or None while it cannot be reached."""
        try:
            return await self._forward(request, url, b"")
        except Refusal as refusal:
            if refusal.reason != "no_leader":
                raise
            return None

    async def _forward(self, request: web.Request, url: str, payload: bytes) -> web.StreamResponse:
        if self._desk.door.is_certified(request):
            # A token goes with the request, and the leader looks at it for itself. A certificate
            # cannot: only whoever holds its key can show it, and no node's word stands for it.
            raise Refusal("no_leader", "who shows a certificate asks the leader itself: X-Leader")
        request_id = request[REQUEST_ID]
        return await self._desk.forwarder.forward(
            request,
            url,
            payload,
            request_id=request_id,
            wait_s=wait_s(request.query) + request.get(TAKES_S, 0.0),
            prepare=lambda response: self.sign(request, response),
        )


def _trace_id(header: str) -> str:
    """The trace that a caller is in; empty when it says nothing, or nonsense."""
    found = _TRACE_PARENT.match(header) if header else None
    return "" if found is None else found[1]


def unmatched(routes: Sequence[Route], desk: Desk) -> Answer:
    """The handler of whatever no route takes: a browser's question, an unknown path or method."""

    async def refuse(request: web.Request, _: Mapping[str, str]) -> web.StreamResponse:
        allowed_to = preflight(request, desk.origins)
        if allowed_to is not None:
            return allowed_to
        parts = request.rel_url.raw_path.split("/")
        allowed = sorted({route.method for route in routes if route.takes(parts)})
        if not allowed:
            raise Refusal("route_not_found", f"no path {request.path[:200]!r}")
        methods = ", ".join(allowed)
        raise Refusal(
            "method_not_allowed",
            f"{request.method} is none of {methods}",
            headers={"Allow": methods},
        )

    return refuse


def as_refusal(fault: Exception) -> Refusal:
    """What a caller is told of whatever ended its request."""
    match fault:
        case Refusal():
            return fault
        case NotLeader() | ProbeTimeout():
            return Refusal("no_leader", str(fault))
        case OutcomeUnknown():
            return Refusal("outcome_unknown", str(fault))
        case Overloaded():
            return Refusal("rate_limited", str(fault))
        case TooLarge():
            return Refusal("too_large", str(fault))
        case web.HTTPRequestEntityTooLarge():
            return Refusal("too_large", str(fault.reason))
        case web.HTTPException():
            return Refusal("invalid", str(fault.reason))
        case _:
            return Refusal("internal", type(fault).__name__)


def _check_query(request: web.Request, known: Mapping[str, Parameter]) -> None:
    """Unknown names are refused: a misspelt dry_run must not act. Doubled names are ambiguous."""
    query = request.query
    errors: list[FieldError] = []
    for name, text in query.items():
        parameter = known.get(name)
        fault = "is no parameter of this path" if parameter is None else parameter.fault(text)
        if fault:
            errors.append(FieldError(name[:100], fault))
    if not errors and len(query) != len(set(query)):
        errors = [FieldError("query", "names a parameter twice")]
    if errors:
        raise Refusal("invalid", f"{errors[0].path}: {errors[0].message}", errors=tuple(errors))


def decoder_of(route: Route) -> Decode | None:
    """What makes a route's record of a body; None for a route without one."""
    return decoder(
        route.body,
        has_msgpack=route.has_msgpack,
        is_optional=route.body_is_optional,
        is_order=route.is_order,
    )
