"""The express lane: what a fleet asks all day, answered without a task, a request or a response.

aiohttp makes two tasks' turns, a request and a response of each call, which is most of what a
heartbeat, a look-up or a long poll that hears nothing new costs. Of the routes that say what their
usual answer is (`Route.usual`) this module takes the calls that are plain, and writes that answer
itself. It decides what is plain, and refuses nothing: whatever it does not answer with 200 or 304,
the ordinary way (`serve`) looks at anew, so there is one place for every check that can fail. It
must not know any single route.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import HttpVersion11, hdrs
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from coordinator.api.asked import Asked, Told, Usual, Wait
from coordinator.api.bodies import Decode
from coordinator.api.call import Desk
from coordinator.api.encoding import JSON, MSGPACK, encoded
from coordinator.api.parameters import wants_proof
from coordinator.api.problems import Refusal
from coordinator.api.request_ids import HEADER as ID_HEADER
from coordinator.api.request_ids import RequestIds
from coordinator.api.route import Leader, Route
from coordinator.api.serve import decoder_of
from coordinator.api.shelf import Shape
from coordinator.api.waiting import Talk, Waiting
from coordinator.consensus import ConsensusError

log = logging.getLogger("coordinator.api")

SPECIAL: Final = (hdrs.ORIGIN, hdrs.EXPECT, hdrs.CONTENT_ENCODING)
"""Headers that ask for more: a page's, one that waits for a word before its body, a packed body."""
_PLAIN_QUERY: Final = re.compile(r"[A-Za-z0-9._:@=&-]*")
"""Nothing in it has to be decoded."""
_NO_QUERY: Final[Mapping[str, str]] = {}


class Lane:
    """One route."""

    def __init__(self, route: Route, usual: Usual) -> None:
        self.route = route
        self.usual = usual
        self.shape = Shape(route.path)
        self.decode: Decode | None = decoder_of(route)
        self._parameters = {parameter.name: parameter for parameter in route.parameters}
        self._required = [one.name for one in route.parameters if one.is_required]

    @property
    def key(self) -> tuple[str, int, str]:
        """What is known of it by a request's method and path alone."""
        segments = self.route.path.split("/")
        return self.route.method, len(segments), segments[-1]

    def query_of(self, text: str) -> Mapping[str, str] | None:
        """The parameters of a query; None of one that is not plain, or not well formed."""
        if not _PLAIN_QUERY.fullmatch(text):
            return None
        query: dict[str, str] = {}
        for pair in text.split("&") if text else ():
            name, equals, told = pair.partition("=")
            parameter = self._parameters.get(name)
            if parameter is None or not equals or name in query or parameter.fault(told):
                return None
            query[name] = told
        return None if any(name not in query for name in self._required) else query


class Express:
    """The lanes of one node."""

    def __init__(self, desk: Desk, routes: Sequence[Route], request_ids: RequestIds) -> None:
        self._desk = desk
        self._request_ids = request_ids
        self._lanes: dict[tuple[str, int, str], Lane] = {}
        for route in routes:
            if route.usual is not None:
                lane = Lane(route, route.usual)
                if lane.key in self._lanes:
                    raise ValueError(f"two lanes would take {route.method} {route.path}")
                self._lanes[lane.key] = lane
        self._told: dict[str, str] = {}
        self._signature = ""

    def take(
        self, message: RawRequestMessage, payload: StreamReader, talk: Talk
    ) -> bytes | Waiting | None:
        """The answer; or what will tell `talk` of one; or None: it is none of these."""
        raw_path, _, raw_query = message.path.partition("?")
        parts = raw_path.split("/")
        lane = self._lanes.get((message.method, len(parts), parts[-1]))
        if lane is None or not _is_plain(message, payload, has_body=lane.decode is not None):
            return None
        path = lane.shape.variables(parts)
        query = lane.query_of(raw_query) if raw_query else _NO_QUERY
        if path is None or query is None:
            return None
        is_proven = lane.route.leader is Leader.MUST or wants_proof(query)
        if is_proven and not self._desk.leader.is_leading:
            return None
        is_likely = lane.route.is_likely
        if is_likely is not None and not is_likely(self._desk, path):
            return None
        caller = self._desk.door.recognised(message.method, message.headers, path, lane.route)
        if caller is None:
            return None
        received_at = self._desk.clock.monotonic()
        asked = Asked(self._desk, path, query, message.headers, caller, received_at, lane.decode)
        if is_proven:
            return self._when_proven(lane, asked, payload, talk)
        found = self._answer(lane, asked)
        if isinstance(found, Wait):
            return self._when_news(lane, asked, payload, talk, found)
        return found

    def _when_proven(
        self, lane: Lane, asked: Asked, payload: StreamReader, talk: Talk
    ) -> Waiting | None:
        """Answered after a quorum's word."""

        def answer() -> bytes | None:
            if len(asked.payload) > lane.route.body_bytes_max:
                return None
            found = self._answer(lane, asked)
            return None if isinstance(found, Wait) else found

        waiting = Waiting(asked, payload, talk, answer, is_short=True)
        try:
            waiting.wait(self._desk.leader.when_confirmed(waiting.confirmed, lane.route.patience_s))
        except ConsensusError:
            return None
        return waiting

    def _when_news(
        self, lane: Lane, asked: Asked, payload: StreamReader, talk: Talk, wait: Wait
    ) -> Waiting | None:
        """A long poll, of which only that nothing happened is answered here."""
        if wait.wait_s <= 0.0:
            return None
        door, method = self._desk.door, lane.route.method

        def answer() -> bytes | None:
            # Whose token was withdrawn while it waited is not told that nothing happened, either.
            try:
                if door.recognised(method, asked.headers, asked.path, lane.route) is None:
                    return None
                return self._unchanged(lane, asked, wait)
            except Exception as fault:  # noqa: BLE001 - as in `_answer`
                self._leave(lane, asked, fault)
                return None

        waiting = Waiting(asked, payload, talk, answer, is_short=False)
        try:
            waiting.wait(
                self._desk.polls.begin(
                    wait.topic,
                    wait.seen,
                    wait.wait_s,
                    lambda has_news: waiting.looked(has_news=has_news),
                )
            )
        except Refusal:
            return None
        return waiting

    def _answer(self, lane: Lane, asked: Asked) -> bytes | Wait | None:
        """The usual answer as it goes over the wire; None where it is not the usual one."""
        try:
            found = lane.usual(asked)
            return self._written(lane, asked, found) if isinstance(found, Told) else found
        except Exception as fault:  # noqa: BLE001 - whatever it is, the ordinary way meets it, too
            self._leave(lane, asked, fault)
            return None

    def _leave(self, lane: Lane, asked: Asked, fault: Exception) -> None:
        """To the ordinary way, which says in full why it was refused."""
        if not isinstance(fault, Refusal | ConsensusError):
            request_id = self._request_ids.of(asked.headers)
            log.error(
                "express_failed request_id=%s route=%s", request_id, lane.route.path, exc_info=fault
            )

    # -- how an answer is written ----------------------------------------------------------

    def _written(self, lane: Lane, asked: Asked, told: Told) -> bytes:
        as_msgpack = lane.route.answers_msgpack(asked.headers)
        body = encoded(told.record, as_msgpack=as_msgpack)
        freshness = "" if told.read is None else _lines(self._desk.freshness(told.read))
        header = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {MSGPACK if as_msgpack else JSON}\r\n{freshness}"
            f"Content-Length: {len(body)}\r\n{self._signed(asked)}"
        )
        meters = self._desk.replica.meters
        meters.answered[lane.route.path, 200] += 1
        meters.took(lane.route.path, meters.monotonic() - asked.received_at)
        return header.encode() + body

    def _unchanged(self, lane: Lane, asked: Asked, wait: Wait) -> bytes:
        freshness = _lines(self._desk.freshness(wait.read))
        self._desk.replica.meters.answered[lane.route.path, 304] += 1
        return f"HTTP/1.1 304 Not Modified\r\n{freshness}{self._signed(asked)}".encode()

    def _signed(self, asked: Asked) -> str:
        """The headers of every answer to somebody who is known, and the end of the header."""
        told = self._desk.signature
        if told != self._told:
            self._told, self._signature = told, _lines(told)
        return (
            f"{ID_HEADER}: {self._request_ids.of(asked.headers)}\r\n{self._signature}"
            f"Date: {rfc822_formatted_time()}\r\nServer: {SERVER_SOFTWARE}\r\n\r\n"
        )


def _is_plain(message: RawRequestMessage, payload: StreamReader, *, has_body: bool) -> bool:
    """Whether all of a request is there, and none of it asks for more than an answer."""
    if (
        message.version != HttpVersion11
        or message.should_close
        or message.upgrade
        or message.chunked
        or "%" in message.path
        or "#" in message.path
        or "/." in message.path
        or not payload.is_eof()  # not all of it came with its header
        or (payload is EMPTY_PAYLOAD) is has_body
    ):
        return False
    return not any(special in message.headers for special in SPECIAL)


def _lines(headers: Mapping[str, Any]) -> str:
    return "".join(f"{name}: {text}\r\n" for name, text in headers.items())
